"""Find calls that runs make one after another again and again: what a macro could do in one step.

The calls of a run come in segments, one for each answer to the user; a sequence never reaches over the end of one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

FEWEST_RUNS = 3  # in which a sequence has to occur
LONGEST = 5  # calls


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedCall:
    """A call of a run that went well, and what it returned. `id` is the effect's, where there is one."""

    tool: str
    arguments: dict[str, Any]
    value: Any
    id: str = ""

    @property
    def shape(self) -> tuple[str, tuple[str, ...]]:
        return self.tool, tuple(sorted(self.arguments))


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedRun:
    """The calls of a run by segment."""

    id: str
    segments: tuple[tuple[ObservedCall, ...], ...]


Occurrence: TypeAlias = tuple[ObservedCall, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """A sequence of calls, where it occurred, and in how many runs."""

    occurrences: tuple[Occurrence, ...]
    runs: int

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(call.tool for call in self.occurrences[0])

    @property
    def saved(self) -> int:
        """How many steps a macro would have saved."""
        return len(self.occurrences) * (len(self.tools) - 1)


def find_repeated(runs: Iterable[ObservedRun], *, fewest: int = FEWEST_RUNS) -> list[Repeated]:
    """Return the sequences that occur in enough runs, those first that would save the most steps."""
    occurrences: dict[tuple[Any, ...], list[Occurrence]] = defaultdict(list)
    where: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    # In a fixed order, so that the same runs lead to the same macro.
    for run in sorted(runs, key=lambda item: item.id):
        for segment in run.segments:
            for length in range(2, LONGEST + 1):
                for occurrence in _windows(segment, length):
                    shape = tuple(call.shape for call in occurrence)
                    occurrences[shape].append(occurrence)
                    where[shape].add(run.id)
    repeated = [
        Repeated(occurrences=tuple(occurrences[shape]), runs=len(ids))
        for shape, ids in where.items()
        if len(ids) >= fewest
    ]
    return sorted(repeated, key=lambda item: (-item.saved, -len(item.tools), item.tools, str(item.occurrences[0])))


def _windows(segment: Sequence[ObservedCall], length: int) -> list[Occurrence]:
    """Return the sequences of a length that do not overlap with another of the same shape."""
    taken: dict[Any, int] = {}
    windows = []
    for start in range(len(segment) - length + 1):
        window = tuple(segment[start : start + length])
        shape = tuple(call.shape for call in window)
        if taken.get(shape, -1) <= start:
            taken[shape] = start + length
            windows.append(window)
    return windows
