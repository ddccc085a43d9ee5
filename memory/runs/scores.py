"""How well an agent did on a kind of task, computed from the runs themselves.

No counts are kept next to the runs, so late outcomes, erasures and concurrent writers cannot make them wrong. An index
holds everything that is read here (memory_trajectory_scores).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from memory.projects.models import Project
from memory.runs.models import TrajectoryOutcome

SUCCESS_FROM, FAILURE_BELOW = 0.85, 0.5  # Sentinel's thresholds (reference: c.9); between them nothing is claimed
LAST = 10  # newest scores that are shown, and compared with the ten before them

# Sums are exact decimals, so the order in which runs were written does not matter.
_GROUPS = """
WITH grouped AS (
    SELECT task_id, agent, count(score) AS count, avg(score::numeric)::double precision AS mean, max(score) AS best,
           max(created_at) AS newest
    FROM memory_trajectory
    WHERE project_id = %(project)s AND score IS NOT NULL {where}
    GROUP BY task_id, agent
    ORDER BY count DESC, task_id, agent LIMIT %(limit)s
)
SELECT g.*, ARRAY(
    SELECT t.score FROM memory_trajectory t
    WHERE t.project_id = %(project)s AND t.task_id = g.task_id AND t.agent = g.agent AND t.score IS NOT NULL
    ORDER BY t.created_at DESC, t.id DESC LIMIT 2 * %(last)s)
FROM grouped g ORDER BY g.count DESC, g.task_id, g.agent
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreHistory:
    """The scores of one agent on one task family.

    `last` are the newest, newest first. `trend` is the mean of the newer half of the newest 2n scores less that of the
    older half; None where there are fewer than two.
    """

    task_id: str
    agent: str
    count: int
    mean: float
    best: float
    last: tuple[float, ...]
    trend: float | None
    newest_at: datetime


def read_score_history(
    project: Project, *, task_id: str | None = None, agent: str | None = None, limit: int = 100
) -> list[ScoreHistory]:
    """Return the score history of a project by task family and agent, most runs first.

    Args:
        task_id, agent: only of these; None means all.
        limit: how many families and agents at most.
    """
    filters = {name: value for name, value in (("task_id", task_id), ("agent", agent)) if value is not None}
    # The names are those of two columns above, and the values are parameters.
    where = "".join(f" AND {name} = %({name})s" for name in filters)
    parameters: dict[str, Any] = {"project": project.pk, "last": LAST, "limit": limit, **filters}
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS.format(where=where), parameters)
        return [_read(row) for row in cursor.fetchall()]


def find_trend(newest_first: Sequence[float]) -> float | None:
    """Return the mean of the newer half of the newest 2n scores less that of the older half."""
    scores = newest_first[: 2 * LAST]
    half = len(scores) // 2
    if not half:
        return None
    # With an odd number the middle score is in neither half.
    newer, older = scores[:half], scores[-half:]
    return round(sum(newer) / half - sum(older) / half, 6)


def outcome_of(score: float) -> str:
    """Return the outcome that a score means by itself."""
    if score >= SUCCESS_FROM:
        return TrajectoryOutcome.SUCCESS
    return TrajectoryOutcome.FAILURE if score < FAILURE_BELOW else TrajectoryOutcome.UNKNOWN


def _read(row: tuple[Any, ...]) -> ScoreHistory:
    task_id, agent, count, mean, best, newest_at, newest = row
    return ScoreHistory(
        task_id=task_id,
        agent=agent,
        count=count,
        mean=mean,
        best=best,
        last=tuple(newest[:LAST]),
        trend=find_trend(newest),
        newest_at=newest_at,
    )
