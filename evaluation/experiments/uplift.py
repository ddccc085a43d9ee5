"""Whether lessons help: the runs that were given them against the hold-out, as a whole, by release, by family.

The hold-out is drawn by chance, so these differences are effects. Single lessons: `memory.effects.comparison`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from evaluation.experiments.analysis import (
    MISSING_ALARM,
    State,
    Unit,
    compare_units,
    find_interval,
    find_missing_e_value,
)
from evaluation.experiments.plan import THOUSANDTHS
from evaluation.sequential import FIRST_LOOK, Interval
from memory.projects.models import Project
from memory.retrieval.assignment import ServedArm

ALPHA, TAU = 0.05, 0.1
MOST_FAMILIES = 50

# The mean of each unit (NULL where no outcome counts) in the arm and the block of its first answer: (shares, arm,
# release, family, value, candidate).
# The release of the hold-out is the stable one; `candidate` is the one that was on trial at the same time.
_UNITS = """
SELECT canary_share, holdout_share, arm, release, family, avg(success)::float8, candidate FROM (
    SELECT r.unit, r.created_at, t.outcome, (t.outcome = 'success')::int AS success,
        first_value(r.arm) OVER w AS arm, r.arm AS own_arm, first_value(release.number) OVER w AS release,
        first_value(r.task_id) OVER w AS family, first_value(candidate.number) OVER w AS candidate,
        first_value((e.state ->> 'canary_share')::int) OVER w AS canary_share,
        first_value((e.state ->> 'holdout_share')::int) OVER w AS holdout_share
    FROM memory_retrieval r
    JOIN memory_deployment d ON d.project_id = r.project_id
    JOIN memory_deploymentevent e ON e.deployment_id = d.id AND e.version = r.deployment_version
    LEFT JOIN memory_release release ON release.id = r.release_id
    LEFT JOIN memory_release candidate ON candidate.id = (e.state ->> 'candidate_id')::uuid
    LEFT JOIN memory_trajectory t ON t.retrieval_id = r.id AND t.outcome IN ('success', 'failure')
        AND t.outcome_source IN ('environment', 'test', 'human')
    WHERE r.project_id = %(project)s AND r.created_at >= %(since)s AND r.arm IN ('stable', 'candidate', 'holdout')
        AND (e.state ->> 'holdout_share')::int > 0
    WINDOW w AS (PARTITION BY r.unit{by_release} ORDER BY r.created_at, r.id)
) AS run WHERE own_arm = arm
GROUP BY unit, canary_share, holdout_share, arm, release, family, candidate
ORDER BY min(created_at), unit
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uplift:
    """Guided minus held out, in shares of success, with an interval that holds at every look.

    Units count whose outcome is known. There is no interval while too few are, or while one side lacks more outcomes
    than the other by more than chance explains.
    """

    guided: int
    held_out: int
    estimate: float | None
    interval: Interval | None
    missing_e_value: float = 1.0

    @property
    def is_doubtful(self) -> bool:
        return self.missing_e_value >= MISSING_ALARM

    @property
    def is_told(self) -> bool:
        """Tell whether the effect can be told from none: the interval leaves out 0."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True, kw_only=True, slots=True)
class UpliftReport:
    whole: Uplift
    by_release: dict[int, Uplift]
    by_family: dict[str, Uplift]


def measure_uplift(project: Project, *, since: datetime) -> UpliftReport:
    """Measure what lessons do in a project, from the runs since a time whose outcome does not come from the agent.

    Each unit counts once, as the mean of its runs. Families with the most units come first. Two queries.
    """
    units = _ask(_UNITS.format(by_release=""), project, since)
    in_releases = _ask(_UNITS.format(by_release=", r.release_id"), project, since)
    families = sorted({row[4] for row in units}, key=lambda name: -sum(row[4] == name for row in units))
    return UpliftReport(
        whole=_compare(units),
        by_release={
            number: _compare(
                [row for row in in_releases if row[3] == number or (row[2], row[6]) == ("holdout", number)]
            )
            for number in sorted({row[3] for row in in_releases if row[3] is not None})
        },
        by_family={name: _compare([row for row in units if row[4] == name]) for name in families[:MOST_FAMILIES]},
    )


def measure_whole(project: Project, *, since: datetime) -> Uplift:
    """Measure only what the lessons of a project do as a whole. One query."""
    return _compare(_ask(_UNITS.format(by_release=""), project, since))


def _compare(rows: Sequence[Sequence[Any]]) -> Uplift:
    """Compare within each pair of shares, and pool."""
    blocks: dict[tuple[int, int], int] = {}
    units = []
    for canary, holdout, arm, _, _, value, _ in rows:
        unit = Unit(
            treated=arm != ServedArm.HOLDOUT,
            # Arms are compared only with those that were served with the same shares.
            block=blocks.setdefault((canary, holdout), len(blocks)),
            share=1 - holdout / THOUSANDTHS,
            state=State.PENDING if value is None else State.KNOWN,
        )
        units.append((unit, value))
    treated = [unit.treated for unit, _ in units if unit.is_known]
    guided = sum(treated)
    missing = find_missing_e_value([unit for unit, _ in units], [not unit.is_known for unit, _ in units])
    ways = compare_units([unit for unit, _ in units], [value for _, value in units])
    is_enough = min(guided, len(treated) - guided) >= FIRST_LOOK and missing < MISSING_ALARM
    return Uplift(
        guided=guided,
        held_out=len(treated) - guided,
        estimate=ways[0].estimate if ways else None,
        interval=find_interval(ways, tau=TAU, alpha=ALPHA) if is_enough else None,
        missing_e_value=missing,
    )


def _ask(statement: str, project: Project, since: datetime) -> list[Sequence[Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"project": project.pk, "since": since})
        return list(cursor.fetchall())
