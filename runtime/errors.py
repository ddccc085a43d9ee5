"""What the agents app refuses or fails at: one exception for each fact that a caller can act on."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.errors import MemoryAppError


class AgentsError(MemoryAppError):
    """Base of every refusal and failure of the agents app."""


class NameTaken(AgentsError):
    """Another agent of the project has the name."""

    code = "name_taken"


class AgentArchived(AgentsError):
    """An archived agent starts no runs."""

    code = "agent_archived"


class ConversationBusy(AgentsError):
    """A run is going on in the conversation."""

    code = "run_is_open"


class ConversationErased(AgentsError):
    """The conversation was deleted a moment ago."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("The conversation was deleted. Start a run without it, which begins another one.")


class RunNotResumable(AgentsError):
    """Only a run that failed or was cancelled can be resumed."""

    code = "run_is_finished"


class NothingPending(AgentsError):
    """The effect waits for no decision."""

    code = "already_decided"


class ArgumentsChanged(AgentsError):
    """The decision is about other arguments than the effect has."""

    code = "changed_meanwhile"


class OutcomeUnknown(AgentsError):
    """A call was sent, no answer came, and it is not known whether it happened."""


class NeverEvolves(AgentsError):
    """The proposal is about something that no proposal may change."""

    code = "never_evolves"


class NotOnRung(AgentsError):
    """The change is not where this step begins."""

    code = "not_on_rung"


class ToolError(AgentsError):
    """A tool could not do what it was asked to; the message is for the agent, which can act on it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a definition, and the line (from 1) where it is; `member` where that is no code."""

    message: str
    line: int | None = None
    member: str = ""

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class InvalidDefinition(AgentsError):
    """A tool or agent is not defined as it should be."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


class InvalidArguments(AgentsError):
    """The arguments of a call do not fit the tool's schema; the message names each that does not."""
