"""What became of answers: how the runs ended that were given them, by mode, by task family and by lesson."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

# Each run counts once, with its own family where it names one. The lessons of an answer are those in its block.
_COUNTS = """
count(DISTINCT r.id) AS answers, count(run.id) AS runs,
count(run.id) FILTER (WHERE run.outcome = 'success') AS successes,
count(run.id) FILTER (WHERE run.outcome = 'failure') AS failures,
avg(run.score) AS mean_score
"""
_ANSWERS = """
FROM memory_retrieval r
LEFT JOIN LATERAL (
    SELECT t.id, t.outcome, t.score, t.task_id FROM memory_trajectory t WHERE t.retrieval_id = r.id
) run ON true
WHERE r.project_id = ANY(%(projects)s::uuid[]) AND r.created_at >= %(since)s
"""
_BY_MODE = f"SELECT r.mode, {_COUNTS} {_ANSWERS} GROUP BY r.mode ORDER BY count(DISTINCT r.id) DESC, r.mode"
_BY_FAMILY = f"""
SELECT coalesce(nullif(run.task_id, ''), r.task_id) AS family, r.mode, {_COUNTS} {_ANSWERS}
GROUP BY 1, r.mode ORDER BY count(DISTINCT r.id) DESC, 1, r.mode LIMIT %(limit)s
"""
_BY_LESSON = f"""
SELECT item.id, {_COUNTS}
FROM memory_retrieval r
CROSS JOIN LATERAL (
    SELECT (value->>'heuristic')::uuid AS id FROM jsonb_array_elements(r.items) WHERE (value->>'injected')::boolean
) item
LEFT JOIN LATERAL (
    SELECT t.id, t.outcome, t.score FROM memory_trajectory t WHERE t.retrieval_id = r.id
) run ON true
WHERE r.project_id = ANY(%(projects)s::uuid[]) AND r.created_at >= %(since)s
GROUP BY item.id ORDER BY count(DISTINCT r.id) DESC, item.id LIMIT %(limit)s
"""  # noqa: S608


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeCount:
    """How many answers were given, how many runs came of them, and how those ended. `family` is empty where unknown."""

    answers: int
    runs: int
    successes: int
    failures: int
    mean_score: float | None
    mode: str = ""
    family: str = ""
    heuristic_id: UUID | None = None

    @property
    def success_rate(self) -> float | None:
        """Return the share of successes among runs whose end is known."""
        known = self.successes + self.failures
        return self.successes / known if known else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    by_mode: list[OutcomeCount]
    by_family: list[OutcomeCount]
    by_lesson: list[OutcomeCount]


def count_outcomes(project_ids: Sequence[UUID], *, since: datetime, limit: int = 50) -> Outcomes:
    """Count what became of the answers since a time, of some projects together. Three queries.

    Args:
        limit: most families and lessons, those that were answered with most often first.
    """
    parameters = {"projects": list(project_ids), "since": since, "limit": limit}
    by_mode = [_read(row[1:], mode=row[0]) for row in _ask(_BY_MODE, parameters)]
    by_family = [_read(row[2:], family=row[0], mode=row[1]) for row in _ask(_BY_FAMILY, parameters)]
    by_lesson = [_read(row[1:], heuristic_id=row[0]) for row in _ask(_BY_LESSON, parameters)]
    return Outcomes(by_mode=by_mode, by_family=by_family, by_lesson=by_lesson)


def _ask(statement: str, parameters: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _read(row: tuple[Any, ...], **names: Any) -> OutcomeCount:
    answers, runs, successes, failures, mean_score = row
    return OutcomeCount(
        answers=answers, runs=runs, successes=successes, failures=failures, mean_score=mean_score, **names
    )
