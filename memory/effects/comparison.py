"""The effect of each lesson: runs that were given it against runs of the same task families that were not.

Both sides count runs whose end is known. Runs differ in more than one lesson, so this is a hint; an experiment shows
what a lesson causes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import hypot
from typing import Any
from uuid import UUID

from django.db import connection

from memory.effects.interval import Share

_COUNT = """
WITH run AS (
    SELECT t.project_id, t.task_id, t.outcome = 'success' AS good, r.injected_ids
    FROM memory_trajectory t LEFT JOIN memory_retrieval r ON r.id = t.retrieval_id
    WHERE t.project_id = ANY(%(projects)s::uuid[]) AND t.created_at >= %(since)s
        AND t.outcome IN ('success', 'failure')
), family AS (
    SELECT project_id, task_id, count(*) FILTER (WHERE good) AS good, count(*) AS known FROM run GROUP BY 1, 2
), given AS (
    SELECT i.heuristic_id, project_id, task_id, count(*) FILTER (WHERE good) AS good, count(*) AS known
    FROM run CROSS JOIN LATERAL (SELECT DISTINCT unnest(injected_ids) AS heuristic_id) i GROUP BY 1, 2, 3
)
SELECT g.heuristic_id, sum(g.good)::int, sum(g.known)::int, sum(f.good - g.good)::int, sum(f.known - g.known)::int
FROM given g JOIN family f USING (project_id, task_id) GROUP BY 1
"""
_WEEKS = """
SELECT i.heuristic_id, date_trunc('week', t.created_at) AS week, avg((t.outcome = 'success')::int)
FROM memory_trajectory t JOIN memory_retrieval r ON r.id = t.retrieval_id
CROSS JOIN LATERAL (SELECT DISTINCT unnest(r.injected_ids) AS heuristic_id) i
WHERE t.project_id = ANY(%(projects)s::uuid[]) AND t.created_at >= %(since)s AND t.outcome IN ('success', 'failure')
    AND r.injected_ids && %(ids)s::uuid[] AND i.heuristic_id = ANY(%(ids)s::uuid[])
GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LessonEffect:
    """How runs ended that were given a lesson, and how others of the same families did."""

    heuristic_id: UUID
    given: Share
    without: Share

    @property
    def difference(self) -> float | None:
        """Return success with the lesson less success without; None if one of them is not known."""
        if self.given.rate is None or self.without.rate is None:
            return None
        return self.given.rate - self.without.rate

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the difference, 95 %: method 10 of Newcombe (1998), from the intervals of Wilson."""
        given, without, difference = self.given, self.without, self.difference
        if given.rate is None or without.rate is None or difference is None:
            return None
        down = hypot(given.rate - given.low, without.high - without.rate)
        up = hypot(given.high - given.rate, without.rate - without.low)
        return difference - down, difference + up


def compare_heuristics(project_ids: Sequence[UUID], *, since: datetime) -> list[LessonEffect]:
    """Compare every lesson that runs were given since a time. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"projects": list(project_ids), "since": since})
        rows = cursor.fetchall()
    return [
        LessonEffect(
            heuristic_id=pk,
            given=Share(successes=good, known=known),
            without=Share(successes=other_good, known=other_known),
        )
        for pk, good, known, other_good, other_known in rows
    ]


def count_weeks(
    project_ids: Sequence[UUID], *, since: datetime, heuristic_ids: Iterable[UUID]
) -> dict[UUID, list[float]]:
    """Return for each lesson the success of the runs given it, week by week. One query."""
    parameters: dict[str, Any] = {"projects": list(project_ids), "since": since, "ids": list(heuristic_ids)}
    found: dict[UUID, list[float]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_WEEKS, parameters)
        for pk, _, share in cursor.fetchall():
            found.setdefault(pk, []).append(float(share))
    return found
