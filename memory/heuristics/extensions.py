"""What other apps know of a heuristic and can do for it: they know memory, memory does not know them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.runs.models import Trajectory

FindFlags = Callable[[Iterable[UUID]], dict[UUID, set[str]]]
AskForReflection = Callable[[Heuristic, Actor], str]
Forget = Callable[[Trajectory], None]


@dataclass(kw_only=True, slots=True)
class _Hooks:
    flags: list[FindFlags] = field(default_factory=list)
    reflect: list[AskForReflection] = field(default_factory=list)
    forget: list[Forget] = field(default_factory=list)


_hooks = _Hooks()


def add_flags(find: FindFlags) -> None:
    """Name, of the heuristics given by id, the codes of what a check found in them."""
    _hooks.flags.append(find)


def add_reflection_request(ask: AskForReflection) -> None:
    """Offer to reflect once more on the run a heuristic comes from; `ask` returns a sentence about what happens."""
    _hooks.reflect.append(ask)


def add_erasure(forget: Forget) -> None:
    """Remove what another app made of a run, in the transaction that erases the run and before its rows go."""
    if forget not in _hooks.forget:
        _hooks.forget.append(forget)


def forget_elsewhere(trajectory: Trajectory) -> None:
    """Let the other apps remove what they made of a run."""
    for forget in _hooks.forget:
        forget(trajectory)


def find_flags(heuristic_ids: Iterable[UUID]) -> dict[UUID, set[str]]:
    """Return the codes of what the checks of other apps found in these heuristics."""
    ids = list(heuristic_ids)
    found: dict[UUID, set[str]] = {}
    for find in _hooks.flags:
        for heuristic_id, codes in find(ids).items():
            found.setdefault(heuristic_id, set()).update(codes)
    return found


def can_reflect_again() -> bool:
    """Tell whether any app reflects."""
    return bool(_hooks.reflect)


def ask_for_reflection(heuristic: Heuristic, *, by: Actor) -> str:
    """Have the newest run of a heuristic reflected on again; return a sentence about it.

    Raises:
        MemoryAppError: no app reflects, or it refuses.
    """
    if not _hooks.reflect:
        raise MemoryAppError("Nothing in this installation reflects on runs, so no reflection can be requested.")
    return " ".join(ask(heuristic, by) for ask in _hooks.reflect)
