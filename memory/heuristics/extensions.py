"""What other apps know of a heuristic and can do for it: they know memory, memory does not know them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.runs.models import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """How many recorded failures a lesson would have met, and how many successes did what it says to avoid.

    `failures` and `successes` are all those of its place: its task family, or the project where `family` is empty.
    `successes_contradicted` is None where it is not known.
    """

    failures_met: int
    failures: int
    successes_contradicted: int | None
    successes: int
    family: str = ""

    def __str__(self) -> str:
        scope = self.family or "the project"
        met = f"Would have met {self.failures_met} of {_count(self.failures, 'failure')} in {scope}"
        if self.successes_contradicted is None:
            return f"{met}; whether a success did the opposite is not known."
        of_all = _count(self.successes, "success", "successes")
        return f"{met}; {self.successes_contradicted} of {of_all} did what it says to avoid."


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


FindTallies = Callable[[Iterable[UUID]], dict[UUID, Tally]]
FindFlags = Callable[[Iterable[UUID]], dict[UUID, set[str]]]
AskForReflection = Callable[[Heuristic, Actor], str]
Forget = Callable[[Trajectory], None]


@dataclass(kw_only=True, slots=True)
class _Hooks:
    flags: list[FindFlags] = field(default_factory=list)
    tallies: list[FindTallies] = field(default_factory=list)
    reflect: list[AskForReflection] = field(default_factory=list)
    forget: list[Forget] = field(default_factory=list)


_hooks = _Hooks()


def add_flags(find: FindFlags) -> None:
    """Name, of the heuristics given by id, the codes of what a check found in them."""
    _hooks.flags.append(find)


def add_tallies(find: FindTallies) -> None:
    """Count, for the heuristics given by id, the runs that speak for and against them, where that is known."""
    _hooks.tallies.append(find)


def add_reflection_request(ask: AskForReflection) -> None:
    """Offer to reflect once more on the run a heuristic comes from; `ask` returns a sentence about what happens."""
    _hooks.reflect.append(ask)


def add_erasure(forget: Forget) -> None:
    """Remove what another app made of a run, in the transaction that erases the run and before its rows go."""
    # Apps may be set up more than once in a process.
    if forget not in _hooks.forget:
        _hooks.forget.append(forget)


def forget_elsewhere(trajectory: Trajectory) -> None:
    """Let the other apps remove what they made of a run."""
    for forget in _hooks.forget:
        forget(trajectory)


def find_flags(heuristic_ids: Iterable[UUID]) -> dict[UUID, set[str]]:
    """Return the codes of what the checks of other apps found in these heuristics."""
    ids = list(heuristic_ids)
    flags: dict[UUID, set[str]] = {}
    for find in _hooks.flags:
        for heuristic_id, codes in find(ids).items():
            flags.setdefault(heuristic_id, set()).update(codes)
    return flags


def find_tallies(heuristic_ids: Iterable[UUID]) -> dict[UUID, Tally]:
    """Return how many runs speak for and against these heuristics; those of which nothing is known are left out."""
    ids = list(heuristic_ids)
    return {pk: tally for find in _hooks.tallies for pk, tally in find(ids).items()}


def ask_for_reflection(heuristic: Heuristic, *, by: Actor) -> str:
    """Have the newest run of a heuristic reflected on again; return a sentence about it.

    Raises:
        MemoryAppError: no app reflects, or it refuses.
    """
    if not _hooks.reflect:
        raise MemoryAppError("Nothing in this installation reflects on runs, so no reflection can be requested.")
    return " ".join(ask(heuristic, by) for ask in _hooks.reflect)
