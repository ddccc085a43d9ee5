"""Read what is known of the units of an experiment: who was given what, and how their runs ended."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from math import log
from typing import Any, NamedTuple

from django.db import connection

from evaluation.experiments.analysis import State, Unit
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import THOUSANDTHS, ExperimentPlan, Guarded, Metric, UnitRule
from memory.retrieval.assignment import ServedArm
from memory.runs.models import Trajectory

TRUSTED = frozenset(
    {Trajectory.OutcomeSource.ENVIRONMENT, Trajectory.OutcomeSource.TEST, Trajectory.OutcomeSource.HUMAN}
)
TREATED_AND_CONTROL: dict[str, tuple[str, str]] = {
    Experiment.Compared.CANARY: (ServedArm.CANDIDATE, ServedArm.STABLE),
    Experiment.Compared.MEMORY: (ServedArm.STABLE, ServedArm.HOLDOUT),
}
FAMILY_RUNS = 20  # with a known end, from which a family's past counts

# One row for each answer and run, in the order of exposure. What was pinned belongs to no arm. No index of its own:
# with 100,000 answers, one over the exposures (with or without its columns) was no faster than that of the newest
# answers, since nearly all the time goes into the runs (1 s for all, 0.5 s for a tenth, 0.03 s for a hundredth).
_EXPOSED = """
SELECT r.unit, r.arm, r.created_at, r.task_id, (e.state ->> 'canary_share')::int, (e.state ->> 'holdout_share')::int,
    t.id IS NOT NULL, t.outcome, t.score, t.outcome_source, coalesce(t.outcome_at, t.created_at), t.cost_usd,
    extract(epoch FROM t.ended_at - t.started_at)::float8,
    CASE WHEN %(errors)s THEN jsonb_path_exists(t.steps, '$[*] ? (@.error != "")') END,
    CASE WHEN %(harm)s THEN (
        SELECT bool_or(f.helpful IS FALSE) FROM memory_usageverdict f
        WHERE f.trajectory_id = t.id OR f.retrieval_id = r.id) END,
    CASE WHEN %(differing)s THEN (
        SELECT s.verdict = 'differs' FROM agents_evaluationrow s
        WHERE s.retrieval_id = r.id AND s.candidate_id = %(candidate)s) END
FROM memory_retrieval r
JOIN memory_deploymentevent e ON e.deployment_id = %(deployment)s AND e.version = r.deployment_version
LEFT JOIN memory_trajectory t ON t.retrieval_id = r.id AND t.project_id = r.project_id
WHERE r.project_id = %(project)s AND r.deployment_version >= %(version)s AND r.created_at >= %(since)s
    AND r.arm IN ('stable', 'candidate', 'holdout')
ORDER BY r.created_at, r.id, t.created_at, t.id
"""
_PAST = """
SELECT t.task_id, avg((t.outcome = 'success')::int)::float8 FROM memory_trajectory t
WHERE t.project_id = %(project)s AND t.created_at < %(since)s AND coalesce(t.outcome_at, t.created_at) < %(since)s
    AND t.outcome IN ('success', 'failure') AND t.outcome_source IN ('environment', 'test', 'human')
GROUP BY t.task_id HAVING count(*) >= %(runs)s
"""


class Exposed(NamedTuple):
    """One answer to a unit with a run that followed, or without. `is_harm` is None where no feedback was given."""

    unit: str
    arm: str
    at: datetime
    family: str
    canary_share: int
    holdout_share: int
    is_recorded: bool
    outcome: str | None
    score: float | None
    source: str | None
    known_at: datetime | None
    cost: Any
    seconds: float | None
    has_error: bool | None
    is_harm: bool | None
    differs: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposures:
    """The units of the two arms in the order of their exposure, and the counts of all arms with their shares."""

    units: Sequence[Unit]
    ratios: Sequence[tuple[Sequence[int], Sequence[float]]]
    past: dict[str, float] = field(default_factory=dict)

    def count_treated(self, *, share: int) -> int:
        """Return how many treated units were exposed while the canary had this share or more, in thousandths."""
        return sum(unit.treated and unit.share * THOUSANDTHS > share - 0.5 for unit in self.units)


def read_exposures(experiment: Experiment, *, now: datetime) -> Exposures:
    """Read all that is known at a time. Two queries at most."""
    plan = experiment.plan
    guarded = {guardrail.metric for guardrail in plan.guardrails}
    asked: dict[str, Any] = {
        "project": experiment.project_id,
        "deployment": experiment.deployment_id,
        "version": experiment.first_version,
        "since": experiment.started_at,
        "errors": Guarded.ERRORS in guarded,
        "harm": Guarded.HARM in guarded,
        "differing": plan.only_differing,
        "candidate": experiment.treated_release_id,
        "runs": FAMILY_RUNS,
    }
    with connection.cursor() as cursor:
        cursor.execute(_EXPOSED, asked)
        rows = [Exposed(*row) for row in cursor.fetchall()]
        past: dict[str, float] = {}
        if plan.use_past:
            cursor.execute(_PAST, asked)
            past = dict(cursor.fetchall())
    return collect(rows, plan, compared=experiment.compared, now=now, past=past)


def collect(
    rows: Iterable[Exposed], plan: ExperimentPlan, *, compared: str, now: datetime, past: dict[str, float] | None = None
) -> Exposures:
    """Count each unit once, in the arm that it was first given."""
    answers: dict[str, list[Exposed]] = {}
    for row in rows:
        seen = answers.setdefault(row.unit, [])
        # A unit counts in its first arm alone: answers in another one are left out.
        if not seen or row.arm == seen[0].arm:
            seen.append(row)
    arms = TREATED_AND_CONTROL[compared]
    blocks: dict[tuple[int, int], int] = {}
    counts: dict[int, Counter[str]] = {}
    units = []
    for seen in answers.values():
        first = seen[0]
        # When the shares change, so may the time of day and the tasks: arms are compared within a block.
        block = blocks.setdefault((first.canary_share, first.holdout_share), len(blocks))
        counts.setdefault(block, Counter())[first.arm] += 1
        if first.arm in arms:
            shares = get_shares(first.canary_share, first.holdout_share)
            both = sum(shares[arm] for arm in arms)
            units.append(
                _summarise(seen, plan, treated=first.arm == arms[0], block=block, share=shares[arms[0]] / both, now=now)
            )
    ratios = []
    for (canary, holdout), block in blocks.items():
        shares = get_shares(canary, holdout)
        # All three arms, though two are compared: units may be lost in the third as well.
        ratios.append(([counts[block][arm] for arm in shares], list(shares.values())))
    return Exposures(units=units, ratios=ratios, past=past or {})


def get_shares(canary: int, holdout: int) -> dict[str, float]:
    """Return the share of each arm. The hold-out is drawn first, the canary among the rest."""
    held, tried = holdout / THOUSANDTHS, canary / THOUSANDTHS
    return {
        ServedArm.STABLE: (1 - held) * (1 - tried),
        ServedArm.CANDIDATE: (1 - held) * tried,
        ServedArm.HOLDOUT: held,
    }


def _summarise(
    seen: Sequence[Exposed], plan: ExperimentPlan, *, treated: bool, block: int, share: float, now: datetime
) -> Unit:
    """Return what is known of a unit: of its first run, or of all its runs together."""
    runs = [row for row in seen if row.is_recorded]
    if plan.unit_rule == UnitRule.FIRST:
        runs = runs[:1]
    window = timedelta(seconds=plan.look_back_seconds)
    states = [_find_state(row, row.at + window, now) for row in runs] or [
        _find_state(seen[0], seen[0].at + window, now)
    ]
    known_runs = [row for row, state in zip(runs, states, strict=False) if state == State.KNOWN]
    others = [row for row in runs if row not in known_runs]
    values = [_value(row, plan.metric) for row in known_runs]
    return Unit(
        treated=treated,
        block=block,
        share=share,
        # One run that counts is enough; otherwise the first run says why there is none.
        state=State.KNOWN if known_runs else states[0],
        counts=not plan.only_differing or seen[0].differs is True,
        value=sum(values) / len(values) if values else 0.0,
        # When the unit first counted: the order in which the exact test takes the units.
        known_at=min((row.known_at for row in known_runs if row.known_at), default=None),
        family=seen[0].family,
        figures=_average(chain.from_iterable(map(_find_figures, known_runs))),
        untrusted=_average(chain.from_iterable(map(_find_figures, others))),
        has_feedback=any(row.is_harm is not None for row in known_runs),
    )


def _find_state(row: Exposed, until: datetime, now: datetime) -> str:
    if row.outcome in (Trajectory.Outcome.SUCCESS, Trajectory.Outcome.FAILURE) and row.known_at is not None:
        # What the agent itself or a judge says is no independent outcome.
        if row.source not in TRUSTED:
            return State.UNTRUSTED
        return State.KNOWN if row.known_at <= until else State.LATE
    return State.PENDING if now <= until else State.MISSING


def _value(row: Exposed, metric: str) -> float:
    if metric == Metric.SCORE and row.score is not None:
        return row.score
    return float(row.outcome == Trajectory.Outcome.SUCCESS)


def _find_figures(row: Exposed) -> Iterator[tuple[str, float]]:
    if row.outcome in (Trajectory.Outcome.SUCCESS, Trajectory.Outcome.FAILURE):
        yield Guarded.SUCCESS, float(row.outcome != Trajectory.Outcome.SUCCESS)
    if row.has_error is not None:
        yield Guarded.ERRORS, float(row.has_error)
    yield Guarded.HARM, float(row.is_harm is True)
    for name, amount in ((Guarded.COST, row.cost), (Guarded.LATENCY, row.seconds)):
        if amount is not None and amount > 0:
            # As logarithms: a difference is then a ratio, and 0.1 is about 10 % more.
            yield name, log(float(amount))


def _average(figures: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_name: dict[str, list[float]] = {}
    for name, value in figures:
        by_name.setdefault(str(name), []).append(value)
    return {name: sum(values) / len(values) for name, values in by_name.items()}
