"""The status changes that a heuristic may go through (reliability C11).

The services make these and no others. Triggers refuse the rest (memory/sql/heuristics.sql, memory/sql/mistakes.sql); a
test compares the two. Only erasure may put an earlier status back.
"""

from collections.abc import Mapping

from memory.heuristics.models import HeuristicStatus as _Lesson

HEURISTIC_MOVES: Mapping[str, frozenset[str]] = {
    _Lesson.PROPOSED: frozenset(
        {_Lesson.APPROVED, _Lesson.REJECTED, _Lesson.RETIRED, _Lesson.QUARANTINED, _Lesson.SUPERSEDED}
    ),
    _Lesson.APPROVED: frozenset({_Lesson.PROPOSED, _Lesson.RETIRED, _Lesson.QUARANTINED, _Lesson.SUPERSEDED}),
    _Lesson.REJECTED: frozenset({_Lesson.PROPOSED}),
    _Lesson.RETIRED: frozenset({_Lesson.PROPOSED, _Lesson.APPROVED}),  # approved: the withdrawal was undone
    _Lesson.QUARANTINED: frozenset({_Lesson.PROPOSED, _Lesson.APPROVED}),
    _Lesson.SUPERSEDED: frozenset({_Lesson.PROPOSED}),
}
