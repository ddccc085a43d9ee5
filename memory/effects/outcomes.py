"""Outcomes of answers: how the runs given them ended, by mode, by task family and by heuristic.

A heuristic was given to a run if it was in the context block of the answer that the run names, among the lessons or
in the record before them: `Retrieval.injected_ids`. What an answer only listed was not given.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.template.defaultfilters import pluralize
from django.utils.timesince import timesince

from memory.heuristics.models import Heuristic

# Each run counts once, with its own family where it names one.
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
_BY_HEURISTIC = f"""
SELECT given.heuristic_id, min(r.created_at), max(r.created_at), {_COUNTS}
FROM memory_retrieval r
CROSS JOIN LATERAL unnest(r.injected_ids) AS given(heuristic_id)
LEFT JOIN LATERAL (
    SELECT t.id, t.outcome, t.score FROM memory_trajectory t WHERE t.retrieval_id = r.id
) run ON true
WHERE r.project_id = ANY(%(projects)s::uuid[]) AND %(where)s
GROUP BY given.heuristic_id ORDER BY count(DISTINCT r.id) DESC, given.heuristic_id LIMIT %(limit)s
"""  # noqa: S608
_SINCE = "r.created_at >= %(since)s"
_NAMED = "r.injected_ids && %(ids)s::uuid[] AND given.heuristic_id = ANY(%(ids)s::uuid[])"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeCount:
    """How many answers were given, how many runs followed, and how those ended. `family` is empty where unknown."""

    answers: int = 0
    runs: int = 0
    successes: int = 0
    failures: int = 0
    mean_score: float | None = None
    mode: str = ""
    family: str = ""
    heuristic_id: UUID | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def success_rate(self) -> float | None:
        """Return the share of successes among runs whose end is known."""
        ended = self.successes + self.failures
        return self.successes / ended if ended else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    by_mode: list[OutcomeCount]
    by_family: list[OutcomeCount]
    by_heuristic: list[OutcomeCount]


def count_outcomes(project_ids: Sequence[UUID], *, since: datetime, limit: int = 50) -> Outcomes:
    """Count what became of the answers since a time, of some projects together. Three queries.

    Args:
        limit: most families and heuristics, those with the most answers first.
    """
    parameters = {"projects": list(project_ids), "since": since, "limit": limit}
    by_mode = [_read(row[1:], mode=row[0]) for row in _ask(_BY_MODE, parameters)]
    by_family = [_read(row[2:], family=row[0], mode=row[1]) for row in _ask(_BY_FAMILY, parameters)]
    by_heuristic = list(count_by_heuristic(project_ids, since=since, limit=limit).values())
    return Outcomes(by_mode=by_mode, by_family=by_family, by_heuristic=by_heuristic)


def count_by_heuristic(
    project_ids: Sequence[UUID],
    *,
    heuristic_ids: Iterable[UUID] | None = None,
    since: datetime | None = None,
    limit: int | None = None,
) -> dict[UUID, OutcomeCount]:
    """Count the answers that gave each heuristic and how their runs ended, most answers first. One query.

    Heuristics that were never given are left out.
    """
    conditions = [*([_SINCE] if since else []), *([_NAMED] if heuristic_ids is not None else [])]
    statement = _BY_HEURISTIC.replace("%(where)s", " AND ".join(conditions) or "true")
    parameters = {"projects": list(project_ids), "since": since, "ids": list(heuristic_ids or ()), "limit": limit}
    return {
        heuristic_id: _read(counts, heuristic_id=heuristic_id, first_at=first_at, last_at=last_at)
        for heuristic_id, first_at, last_at, *counts in _ask(statement, parameters)
    }


def describe_effect(heuristic: Heuristic, outcome: OutcomeCount | None) -> str:
    """Say how often a heuristic was given, how the runs given it ended, and how useful it has been."""
    if outcome is None or outcome.last_at is None:
        given = "No agent has been given this lesson yet."
    else:
        age = timesince(outcome.last_at, depth=1)
        answers = f"{outcome.answers:,} answer{pluralize(outcome.answers)}"
        given = f"Given in {answers}, most recently {age} ago."
        if outcome.successes or outcome.failures:
            given += f" Of the runs given it, {outcome.successes} succeeded and {outcome.failures} failed."
        else:
            given += " The outcome of the runs given it is not known yet."
    basis = heuristic.usefulness_basis
    given += f" Its usefulness is {heuristic.usefulness:.2f}, where 0.50 is neutral."
    if not basis.get("runs"):
        return f"{given} No run has reported what it did with the lesson."
    runs = f"{basis['runs']:,} run{pluralize(basis['runs'])}"
    clients = f"{basis['clients']:,} client{pluralize(basis['clients'])}"
    return (
        f"{given} Of {runs} of {clients} it is known what they did with it: "
        f"{basis['followed']} followed it ({basis['followed_success']} succeeded, {basis['followed_failure']} failed), "
        f"{basis['contradicted']} did something else, and it did not apply to {basis['not_applicable']}."
    )


def _ask(statement: str, parameters: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _read(row: Sequence[Any], **names: Any) -> OutcomeCount:
    answers, runs, successes, failures, mean_score = row
    return OutcomeCount(
        answers=answers, runs=runs, successes=successes, failures=failures, mean_score=mean_score, **names
    )
