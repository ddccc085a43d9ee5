"""What each lesson does to success: runs that were given it against runs like them that were not. Used everywhere.

**By chance.** Where a project has a hold-out, the answer of a unit in it names the lessons that were withheld. So each
lesson has two groups that chance alone made: units that were given it, and units that would have been (the ghost ads of
Johnson, Lewis and Nubbemeyer, 2017). This is an effect: of the lesson, with what else stood in the same blocks.

**Without a hold-out** runs are compared only with runs of the same client, agent, model, task family and task, word for
word. That is an association, which may have another cause: it moves the ranking a little and proposes nothing.

Only outcomes count that an environment, a test or a person stated. Whether a run followed the lesson does not matter
here: it is not known before the run.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import Any
from uuid import UUID

from django.db import connection

from memory.effects.interval import Share
from memory.effects.stratified import ALPHA, Interval, Strata
from memory.heuristics.models import Heuristic

APART_RUNS = 5  # given one of two lessons and not the other, from which their effects can be told apart
PSEUDO_WEIGHT = 5.0  # as strong as 10 runs with and 10 without that differ in nothing
CLIENT_WEIGHT = 10.0  # of one client in usefulness, at most (reliability D4): 20 runs with and 20 without
NEUTRAL = 0.5
_TRUSTED = "t.outcome IN ('success', 'failure') AND t.outcome_source IN ('environment', 'test', 'human')"

# A unit counts once for a lesson, by its first answer that gave or withheld it and whose outcome is known.
# An answer of the hold-out names what the stable release would have given, so candidates do not count; nor does what
# came before the first answer that names what it withheld.
_BY_CHANCE = f"""
WITH start AS (
    SELECT project_id, min(created_at) AS at FROM memory_retrieval
    WHERE project_id = ANY(%(projects)s::uuid[]) AND created_at >= %(since)s AND arm = 'holdout'
        AND cardinality(considered_ids) > 0
    GROUP BY project_id
), exposed AS (
    SELECT DISTINCT ON (r.project_id, lesson, r.unit) r.project_id, lesson, r.client, r.task_id AS family,
        e.state ->> 'canary_share' AS canary, e.state ->> 'holdout_share' AS held_out, r.arm <> 'holdout' AS given, good
    FROM start JOIN memory_retrieval r ON r.project_id = start.project_id AND r.created_at >= start.at
    JOIN memory_deployment d ON d.project_id = r.project_id
    JOIN memory_deploymentevent e ON e.deployment_id = d.id AND e.version = r.deployment_version
    LEFT JOIN LATERAL (
        SELECT t.outcome = 'success' AS good FROM memory_trajectory t WHERE t.retrieval_id = r.id AND {_TRUSTED}
        ORDER BY t.created_at, t.id LIMIT 1
    ) run ON true
    CROSS JOIN LATERAL (
        SELECT CASE r.arm WHEN 'holdout' THEN r.considered_ids ELSE r.injected_ids END AS ids
    ) block
    CROSS JOIN LATERAL (SELECT DISTINCT unnest(block.ids) AS lesson) offered
    WHERE r.arm IN ('stable', 'holdout') AND (e.state ->> 'holdout_share')::int > 0
        AND NOT block.ids && %(settled)s::uuid[]
    ORDER BY r.project_id, lesson, r.unit, good IS NULL, r.created_at, r.id
)
SELECT lesson, client,
    count(*) FILTER (WHERE given), count(good) FILTER (WHERE given), count(*) FILTER (WHERE given AND good),
    count(*) FILTER (WHERE NOT given), count(good) FILTER (WHERE NOT given), count(*) FILTER (WHERE NOT given AND good)
FROM exposed GROUP BY project_id, lesson, client, family, canary, held_out
"""  # noqa: S608
_RUNS = f"""
WITH run AS MATERIALIZED (
    SELECT t.project_id, t.client, t.agent, t.model, t.task_id, md5(t.task) AS task, t.outcome = 'success' AS good,
        coalesce(r.injected_ids, '{{}}') AS ids
    FROM memory_trajectory t LEFT JOIN memory_retrieval r ON r.id = t.retrieval_id
    WHERE t.project_id = ANY(%(projects)s::uuid[]) AND t.created_at >= %(since)s AND {_TRUSTED}
)
"""  # noqa: S608
# Strata with the same four counts are the same to the comparison, and there are few such counts: they come as one row.
_MATCHED = f"""
{_RUNS}, stratum AS (
    SELECT project_id, client, agent, model, task_id, task, count(*) AS n, count(*) FILTER (WHERE good) AS good
    FROM run GROUP BY 1, 2, 3, 4, 5, 6
), given AS (
    SELECT lesson, project_id, client, agent, model, task_id, task, count(*) AS n, count(*) FILTER (WHERE good) AS good
    FROM run CROSS JOIN LATERAL (SELECT DISTINCT unnest(ids) AS lesson) i GROUP BY 1, 2, 3, 4, 5, 6, 7
)
SELECT lesson, client, g.n, g.good, s.n - g.n, s.good - g.good, count(*)
FROM given g JOIN stratum s USING (project_id, client, agent, model, task_id, task) GROUP BY 1, 2, 3, 4, 5, 6
"""  # noqa: S608
_BLOCKS = f"{_RUNS} SELECT ids, count(*) FROM run WHERE cardinality(ids) > 0 GROUP BY ids"  # noqa: S608
_WEEKS = """
SELECT i.heuristic_id, date_trunc('week', t.created_at) AS week, avg((t.outcome = 'success')::int)
FROM memory_trajectory t JOIN memory_retrieval r ON r.id = t.retrieval_id
CROSS JOIN LATERAL (SELECT DISTINCT unnest(r.injected_ids) AS heuristic_id) i
WHERE t.project_id = ANY(%(projects)s::uuid[]) AND t.created_at >= %(since)s AND t.outcome IN ('success', 'failure')
    AND r.injected_ids && %(ids)s::uuid[] AND i.heuristic_id = ANY(%(ids)s::uuid[])
GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, kw_only=True)
class ComparedRuns:
    """Runs with a lesson and runs like them without it, for each client, and how often their outcome is known."""

    by_client: Mapping[str, Strata] = field(default_factory=dict)
    reporting: Strata = field(default_factory=Strata)

    @cached_property
    def strata(self) -> Strata:
        return sum(self.by_client.values(), Strata())

    @cached_property
    def is_reported_alike(self) -> bool:
        """Tell whether outcomes are known as often with the lesson as without, as far as can be seen."""
        interval = self.reporting.find_interval()
        return interval is None or interval.low <= 0 <= interval.high

    def find_sign(self, *, among: int) -> int:
        """Return +1 or −1 where an effect of that sign is sure among so many lessons (Bonferroni), else 0."""
        interval = self.strata.find_interval(alpha=ALPHA / among)
        if interval is None or not self.is_reported_alike:
            return 0
        return (interval.low > 0) - (interval.high < 0)


@dataclass(frozen=True, kw_only=True)
class LessonEffect:
    """How runs ended that were given a lesson, against runs like them that were not.

    `given` are all runs given it, `compared` those with a counterpart. `among` is how many lessons chance withheld, 0
    where it did not withhold this one. `together_with` are lessons that nearly the same runs were given. A lesson that
    applied to no run whose use of it is known is `never_applied`.
    """

    heuristic_id: UUID
    given: Share
    compared: ComparedRuns
    among: int = 0
    together_with: tuple[UUID, ...] = ()
    never_applied: bool = False

    @property
    def is_by_chance(self) -> bool:
        return self.among > 0

    @property
    def is_told_apart(self) -> bool:
        """Tell whether a difference says something about this lesson rather than about others."""
        return not self.together_with and not self.never_applied

    @property
    def difference(self) -> float | None:
        """Return success with the lesson less success without, within strata; None if nothing can be compared."""
        difference = self.compared.strata.difference
        return difference.estimate if difference else None

    @property
    def interval(self) -> Interval | None:
        """Return the interval of the difference, 95 % at all looks together; None while too little is known."""
        return self.compared.strata.find_interval()

    @property
    def sign(self) -> int:
        """Return +1 where it is sure that runs do better with the lesson, −1 where worse, else 0: an effect or none.

        Of all lessons of a project at any time, one is wrong in at most 5 % of projects. An association has no sign.
        """
        return self.compared.find_sign(among=self.among) if self.is_by_chance and not self.never_applied else 0

    @property
    def usefulness(self) -> float:
        """Return ½ and half the difference, from 0 to 1, drawn towards ½ by pseudo-counts (after MemOS' gain).

        One client moves it only so far, however many runs it reports.
        """
        if not self.is_told_apart or not self.compared.is_reported_alike:
            return NEUTRAL
        gain = weight = 0.0
        for strata in self.compared.by_client.values():
            # A client with more weight than it may have is scaled down as a whole, its difference unchanged.
            share = min(1.0, CLIENT_WEIGHT / strata.weight) if strata.weight else 0.0
            gain, weight = gain + share * strata.gain, weight + share * strata.weight
        return round(NEUTRAL + gain / (weight + PSEUDO_WEIGHT) / 2, 3)


def compare_lessons(project_ids: Sequence[UUID], *, since: datetime) -> list[LessonEffect]:
    """Compare every lesson that runs were given since a time. Four queries, and one for each lesson with an effect."""
    asked = {"projects": list(project_ids), "since": since}
    matched, given = _read_matched(_ask(_MATCHED, asked))
    together = find_inseparable(_ask(_BLOCKS, asked))
    uses = Heuristic.objects.filter(pk__in=given).values_list("pk", "usefulness_basis")
    # All runs whose use is known said that it did not apply.
    idle = {pk for pk, basis in uses if basis.get("not_applicable") and basis["runs"] == basis["not_applicable"]}
    drawn = attribute(
        lambda settled: _read_by_chance(_ask(_BY_CHANCE, asked | {"settled": list(settled)})), together, idle=idle
    )
    return [
        LessonEffect(
            heuristic_id=lesson,
            given=share,
            compared=drawn.get(lesson) or matched.get(lesson, ComparedRuns()),
            among=len(drawn) if lesson in drawn else 0,
            together_with=together.get(lesson, ()),
            never_applied=lesson in idle,
        )
        for lesson, share in given.items()
    ]


def attribute(
    compare: Callable[[Iterable[UUID]], Mapping[UUID, ComparedRuns]],
    together: Mapping[UUID, Sequence[UUID]],
    *,
    idle: Collection[UUID] = (),
) -> dict[UUID, ComparedRuns]:
    """Return the comparison of each lesson in blocks without those whose effect is clearer.

    Args:
        compare: compares the lessons in blocks without the ones it is given.
        together: which lessons cannot be told apart; they are settled together.
        idle: lessons that never applied, which no effect is due to.
    """
    drawn: Mapping[UUID, ComparedRuns] = compare([])
    among, settled = len(drawn), dict[UUID, ComparedRuns]()
    everything = dict.fromkeys(drawn, ComparedRuns())
    # A strong effect colours the lessons that stand beside it: without its blocks, their own remains.
    while sure := {
        lesson: comparison
        for lesson, comparison in drawn.items()
        if comparison.find_sign(among=among) and lesson not in idle
    }:
        # The id decides among equals, so that every count gives the same order.
        clearest = max(sure, key=lambda lesson: (_get_clarity(sure[lesson]), lesson))
        settled |= {lesson: drawn[lesson] for lesson in (clearest, *together.get(clearest, ())) if lesson in drawn}
        drawn = compare(settled)
    return {**everything, **drawn, **settled}


def _get_clarity(compared: ComparedRuns) -> float:
    difference = compared.strata.difference
    return abs(difference.estimate) / sqrt(difference.variance) if difference else 0.0


def find_inseparable(blocks: Iterable[tuple[Sequence[UUID], int]]) -> dict[UUID, tuple[UUID, ...]]:
    """Return for each lesson those that nearly the same runs were given: too few had one of the two alone.

    Args:
        blocks: the lessons of a block and how many runs were given just these.
    """
    runs: dict[UUID, int] = defaultdict(int)
    shared: dict[tuple[UUID, UUID], int] = defaultdict(int)
    for ids, count in blocks:
        lessons = sorted(set(ids))
        for lesson in lessons:
            runs[lesson] += count
        for pair in combinations(lessons, 2):
            shared[pair] += count
    together: dict[UUID, list[UUID]] = defaultdict(list)
    for (first, other), both in shared.items():
        # Runs with exactly one of the two: those with both are in each of the totals.
        apart = runs[first] + runs[other] - 2 * both
        if apart < APART_RUNS and apart < both:
            together[first].append(other)
            together[other].append(first)
    return {lesson: tuple(sorted(others)) for lesson, others in together.items()}


def count_weeks(
    project_ids: Sequence[UUID], *, since: datetime, heuristic_ids: Iterable[UUID]
) -> dict[UUID, list[float]]:
    """Return for each lesson the success of the runs given it, week by week. One query."""
    shares: dict[UUID, list[float]] = {}
    asked = {"projects": list(project_ids), "since": since, "ids": list(heuristic_ids)}
    for pk, _, share in _ask(_WEEKS, asked):
        shares.setdefault(pk, []).append(float(share))
    return shares


def _read_by_chance(rows: Iterable[Sequence[Any]]) -> dict[UUID, ComparedRuns]:
    """Return the comparison of each lesson by client, and that of how often outcomes are known."""
    compared: dict[UUID, dict[str, Strata]] = {}
    reporting: dict[UUID, Strata] = {}
    for lesson, client, exposed, reported, good, held_out, other_known, other_good in rows:
        reporting[lesson] = reporting.get(lesson, Strata()) + Strata.of(exposed, reported, held_out, other_known)
        _add(compared, lesson, client, Strata.of(reported, good, other_known, other_good))
    return {
        lesson: ComparedRuns(by_client=by_client, reporting=reporting[lesson]) for lesson, by_client in compared.items()
    }


def _read_matched(rows: Iterable[Sequence[Any]]) -> tuple[dict[UUID, ComparedRuns], dict[UUID, Share]]:
    """Return the comparison of each lesson by client, and how all runs ended that were given it."""
    compared: dict[UUID, dict[str, Strata]] = {}
    given: dict[UUID, Share] = {}
    for lesson, client, n, good, without, other_good, times in rows:
        share = given.get(lesson, Share(successes=0, known=0))
        given[lesson] = replace(share, successes=share.successes + times * good, known=share.known + times * n)
        _add(compared, lesson, client, Strata.of(n, good, without, other_good, times=times))
    return {lesson: ComparedRuns(by_client=by_client) for lesson, by_client in compared.items()}, given


def _add(compared: dict[UUID, dict[str, Strata]], lesson: UUID, client: str, strata: Strata) -> None:
    # A stratum with runs on one side alone says nothing.
    if strata.weight:
        of_client = compared.setdefault(lesson, {})
        of_client[client] = of_client.get(client, Strata()) + strata


def _ask(statement: str, asked: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, asked)
        return list(cursor.fetchall())
