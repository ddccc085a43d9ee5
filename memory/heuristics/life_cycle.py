"""Which statuses a heuristic may move between (reliability C11).

The services move rows along these ways and no others; triggers refuse the rest, whoever asks
(memory/migrations/0025_life_cycle.py). A test compares the two. Erasure alone is free to put a row where it was.
"""

from collections.abc import Mapping

from memory.heuristics.models import HeuristicStatus as _Lesson

HEURISTIC_MOVES: Mapping[str, frozenset[str]] = {
    _Lesson.PROPOSED: frozenset(
        {_Lesson.APPROVED, _Lesson.REJECTED, _Lesson.RETIRED, _Lesson.QUARANTINED, _Lesson.SUPERSEDED}
    ),
    _Lesson.APPROVED: frozenset({_Lesson.PROPOSED, _Lesson.RETIRED, _Lesson.QUARANTINED, _Lesson.SUPERSEDED}),
    _Lesson.REJECTED: frozenset({_Lesson.PROPOSED}),
    _Lesson.RETIRED: frozenset({_Lesson.PROPOSED, _Lesson.APPROVED}),  # approved: the withdrawal was undone at once
    _Lesson.QUARANTINED: frozenset({_Lesson.PROPOSED, _Lesson.APPROVED}),
    _Lesson.SUPERSEDED: frozenset({_Lesson.PROPOSED}),
}
