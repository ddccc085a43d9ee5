"""What goes into the sandbox and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from memory.errors import MemoryAppError
from runtime.errors import Fault, InvalidDefinition

BUSY = "All workers of the sandbox are busy. Try again in a moment."


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxLimits:
    """What one call of a tool may use. Time does not run while the tool waits for a host function."""

    seconds: float = 5.0
    memory_bytes: int = 64 * 1024 * 1024
    output_chars: int = 50_000
    recursion: int = 200
    host_calls: int = 100

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


MOST = SandboxLimits(
    seconds=10.0, memory_bytes=256 * 1024 * 1024, output_chars=200_000, recursion=1_000, host_calls=1_000
)


def read_limits(stored: Mapping[str, Any]) -> SandboxLimits:
    """Return the limits of a tool, with the defaults for those it does not set, or raise InvalidDefinition."""
    for name, value in stored.items():
        most = getattr(MOST, name, None) if name in SandboxLimits.__slots__ else None
        if most is None:
            raise InvalidDefinition(
                [
                    Fault(
                        f"There is no limit {name!r}. The limits are {', '.join(SandboxLimits.__slots__)}.",
                        member="limits",
                    )
                ]
            )
        # To Python, True is a number, too.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= most or (name != "seconds" and not isinstance(value, int)):
            kind = "a number above 0, at most" if name == "seconds" else "a whole number from 1 to"
            raise InvalidDefinition([Fault(f"The limit {name} is {kind} {most:,}.", member="limits")])
    return SandboxLimits(**stored)


@dataclass(slots=True)
class SharedSeconds:
    """The time of computing that several calls have together. `is_over` where one ended because it was used up."""

    left: float
    is_over: bool = False

    def limit(self, limits: SandboxLimits) -> SandboxLimits:
        """Return the limits of the next call."""
        # A limit has to be above 0.
        return replace(limits, seconds=max(min(limits.seconds, self.left), 0.001))

    def spend(self, outcome: "ToolOutcome") -> None:
        """Take off what a call used."""
        self.left -= outcome.duration_ms / 1000
        self.is_over = self.left <= 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxCall:
    """One call of one function. The clock stands at `frozen_at`; random numbers follow from `seed`.

    `runtime` is what it runs in: monty, an interpreter without system calls, or python, CPython in a sandbox.
    """

    source: str
    function: str
    arguments: Mapping[str, Any]
    frozen_at: datetime
    seed: str
    limits: SandboxLimits = SandboxLimits()
    runtime: str = "monty"


@dataclass(frozen=True, kw_only=True, slots=True)
class HostCall:
    """A call of a host function by a tool: what it asks of the world."""

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxAnswer:
    """What a host function answered to a call: a value, or an error that the tool may catch. Kept in the journal."""

    call: HostCall
    value: Any = None
    error: str = ""


class SandboxError(MemoryAppError):
    """The sandbox itself failed, or this host has none for what was asked. The message says what to do."""

    code = "sandbox_unavailable"


class Suspend(BaseException):
    """Raised by a host function to stop the tool at this call until someone has the answer.

    No `Exception`, so that code between the host function and the sandbox does not take it for a failure.
    """


class HostError(Exception):
    """Raised by a host function: the tool sees a RuntimeError with this message. Other exceptions end the call."""


class SandboxStatus(StrEnum):
    RETURNED = "returned"
    RAISED = "raised"  # the tool's own code failed
    STOPPED = "stopped"  # a limit was reached
    SUSPENDED = "suspended"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFault:
    """Why a call did not return, for the model that wrote the call. `line` is a line of the source."""

    kind: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        position = "" if self.line is None else f" (line {self.line})"
        return f"{self.kind}: {self.message}{position}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutcome:
    """How a call ended, or where it waits.

    `journal` has the answers of the host functions in their order, those served again included: with it, `run_tool`
    replays the call from its start. Where it is suspended, `pending` is the call that waits.
    """

    status: SandboxStatus
    value: Any = None
    fault: ToolFault | None = None
    output: str = ""
    output_is_cut: bool = False
    duration_ms: float = 0.0
    journal: tuple[SandboxAnswer, ...] = ()
    pending: HostCall | None = None
