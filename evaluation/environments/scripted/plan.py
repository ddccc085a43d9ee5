"""What a scripted agent works with: a plan of right calls, a world that answers calls, and slips in the plan."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

WrongForms = Mapping[tuple[str, str], Callable[[Any], Any]]  # by tool and argument, how the agent would write a value
WrongTools = Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]  # by the right tool
SlipKind = Literal["skipped", "form", "invented", "wrong tool", "forgotten"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCall:
    """A call that the task needs, in the turn of the dialogue that asks for it."""

    turn: int
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What there is to do: what the user says by turn, the calls that do it, and how an agent may get them wrong.

    `offered` names all tools. `sources` says for the arguments that only an earlier answer holds which call gives it,
    by position of the call and name.
    """

    requests: Sequence[str]
    plan: Sequence[PlannedCall]
    offered: Sequence[str] = ()
    forms: WrongForms = field(default_factory=dict)
    tools: WrongTools = field(default_factory=dict)
    sources: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedAnswer:
    """What a tool answered. `value` is what the environment's own checker compares."""

    text: str
    is_error: bool
    value: Any = None


class World(Protocol):
    """The state of one try."""

    def call(self, name: str, arguments: dict[str, Any]) -> ScriptedAnswer: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Slip:
    """One departure from the plan.

    `habit` names the situation, the same in every task, so that a habit recurs. `dropped` are positions of calls that
    the agent leaves out, `replaced` those that it makes in another way.
    """

    kind: SlipKind
    habit: tuple[str, ...]
    dropped: tuple[int, ...] = ()
    replaced: dict[int, PlannedCall] = field(default_factory=dict)

    @property
    def positions(self) -> frozenset[int]:
        return frozenset((*self.dropped, *self.replaced))


def replay(world: World, plan: Sequence[PlannedCall], *, without: int | None = None) -> list[ScriptedAnswer | None]:
    """Return the answers to a plan's calls, with None for the call left out."""
    return [None if index == without else world.call(call.name, call.arguments) for index, call in enumerate(plan)]


def as_text(value: Any) -> str:
    """Write an answer as the agent reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
