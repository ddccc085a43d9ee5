"""Who works on the tasks of a suite: the script of the demonstration, or an agent of a project with its own model."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from evaluation.environments.scripted.plan import PlannedCall
from evaluation.evolution.planner import plan_turn
from reflection.llm.chat import ChatTool
from runtime.changes.proposals import ProposedChange
from runtime.changes.rehearsals import settings_of, tools_of_revision
from runtime.changes.trials import Ask, AskFor, Subject, Trial
from runtime.definitions.values import ToolDefinition
from runtime.models.agents import AgentRevision
from runtime.models.tools import ToolRuntime

SYSTEM = "You do what the user asks for with the tools that you have."


class Worker(Protocol):
    """An agent on the tasks of a suite."""

    def can_use(self, tools: Collection[str]) -> bool:
        """Tell whether it has all of these tools of the suite."""
        ...

    def subject(self, offered: Sequence[ChatTool], proposal: ProposedChange, schemas: dict[str, Any]) -> Subject:
        """Return what a proposal makes of it, with the suite's tools of a task."""
        ...

    def ask(self, planned: Sequence[PlannedCall], *, name: str) -> Ask:
        """Return what asks its model in one turn of a task. `planned` are the right calls; a script may read them."""
        ...

    def came_to_an_end(self, trial: Trial) -> bool:
        """Tell whether it says that it has done what it was asked for."""
        ...


class Script:
    """The agent of the demonstration. Its model knows the right calls, and slips now and then."""

    def can_use(self, tools: Collection[str]) -> bool:
        return True

    def subject(self, offered: Sequence[ChatTool], proposal: ProposedChange, schemas: dict[str, Any]) -> Subject:
        return put_together(SYSTEM, offered, _usable(proposal.tools, offered), schemas)

    def ask(self, planned: Sequence[PlannedCall], *, name: str) -> Ask:
        return plan_turn(planned, seed=name)

    def came_to_an_end(self, trial: Trial) -> bool:
        return trial.reply == "Done."


class OwnAgent:
    """A revision of an agent, with its own tools of the names that the suite answers, and those of the sandbox.

    Args:
        ask_for: returns what asks the agent's model, for the name of a turn.
    """

    def __init__(self, revision: AgentRevision, ask_for: AskFor) -> None:
        self._revision, self._ask_for = revision, ask_for
        self._tools = {tool.name: (tool, definition) for tool, definition in tools_of_revision(revision)}

    def can_use(self, tools: Collection[str]) -> bool:
        return self._tools.keys() >= set(tools)

    def subject(self, offered: Sequence[ChatTool], proposal: ProposedChange, schemas: dict[str, Any]) -> Subject:
        current, new = self._revision, {proposed.name: proposed for proposed in proposal.tools}
        own = [
            definition
            for name, (_, definition) in self._tools.items()
            # Only tools of the sandbox: what runs elsewhere gets no answer from the suite.
            if definition is not None and definition.runtime == ToolRuntime.MONTY and name not in new
        ]
        settings = settings_of(current)
        if proposal.rules is not None:
            settings["rules"] = proposal.rules
        if proposal.max_output_tokens:
            settings["max_output_tokens"] = proposal.max_output_tokens
        return put_together(
            current.system if proposal.system is None else proposal.system,
            [self._tools[tool.name][0] for tool in offered],
            _usable([*own, *new.values()], offered),
            schemas,
            **settings,
        )

    def ask(self, planned: Sequence[PlannedCall], *, name: str) -> Ask:
        return self._ask_for(name)

    def came_to_an_end(self, trial: Trial) -> bool:
        return trial.ended


def put_together(
    head: str, offered: Sequence[ChatTool], more: Sequence[ToolDefinition], schemas: dict[str, Any], **settings: Any
) -> Subject:
    """Return the subject of a trial whose host answers what is offered, with tools that run in the sandbox besides."""
    return Subject(head=head, tools=tuple(offered), **settings).with_tools(more, schemas)


def _usable(tools: Sequence[ToolDefinition], offered: Sequence[ChatTool]) -> list[ToolDefinition]:
    """Return the tools that call nothing but what is offered."""
    names = {tool.name for tool in offered}
    return [candidate for candidate in tools if names.issuperset(candidate.uses)]
