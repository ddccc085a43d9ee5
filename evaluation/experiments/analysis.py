"""From what is known of the units to one look: ratio, guardrails, then the verdict (in this order)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db.models import TextChoices

from evaluation.experiments.plan import RATIOS, DecisionRule, ExperimentPlan, Guarded, Guardrail, Method
from evaluation.sequential import (
    FIRST_GUARD,
    FIRST_LOOK,
    RATIO_ALARM,
    Difference,
    Interval,
    Sample,
    confidence_sequence,
    exact_e_value,
    guardrail_e_value,
    mixture_e_value,
    pool_parts,
    ratio_e_value,
    remove_past,
    sample_figures,
    sample_shares,
)

MISSING_ALARM = 100.0  # e-value from which the arms differ in missing outcomes, or in who reports a figure
MISSING_TAU = 0.1
FAMILIES_ALARM = 20.0  # e-value from which the effect is not the same in all families
MOST_FAMILIES = 20
ARMS = ("control", "treated")
DIFFERENTLY_MISSING = (
    "The arms differ in missing outcomes, which alone can make one look better. Find out why: one arm may report them "
    "later, or not at all."
)
ALL_THE_SAME = (
    "Every outcome so far is the same, so nothing can be learnt from them. Check that whatever reports them can report "
    "both successes and failures."
)


class State(TextChoices):
    """What is known of a unit's outcome."""

    KNOWN = "known"
    PENDING = "pending", "Not known yet; it may still come"
    MISSING = "missing", "Not known, and the look-back window is over"
    LATE = "late", "It came after the look-back window and does not count"
    UNTRUSTED = "untrusted", "Reported by the agent or a judge, which does not count"
    LEFT_OUT = "left_out", "Known, but the releases are not known to answer it differently"


class ArmVerdict(TextChoices):
    CONTINUE = "continue", "Goes on"
    BETTER = "better", "The treated arm is better, or not worse where that is the rule"
    NO_BENEFIT = "no_benefit", "No benefit found within the planned number of units"
    WORSE = "worse", "The treated arm is worse"
    ROLL_BACK = "roll_back", "A guardrail fired"
    INVALID = "invalid", "The arms do not have the planned shares"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One exposed unit. `block` counts the times the shares changed; `share` is that of the treated arm of the two.

    `figures` has the guardrails' figures of runs whose outcome counts; they rise with the harm. `untrusted` has those
    of the other runs, which any agent can report. `counts` says whether the verdict counts it; guardrails and shares
    count every unit.
    """

    treated: bool
    block: int
    share: float
    state: str
    counts: bool = True
    value: float = 0.0
    known_at: datetime | None = None
    family: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    untrusted: Mapping[str, float] = field(default_factory=dict)
    has_feedback: bool = False

    @property
    def is_known(self) -> bool:
        return self.state == State.KNOWN

    @property
    def shown_state(self) -> str:
        return self.state if self.counts or self.state != State.KNOWN else State.LEFT_OUT

    @property
    def arm(self) -> str:
        return ARMS[self.treated]


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What one look found. `guardrails`, `outcomes` and `families` are ready for JSON.

    `interval` holds however the units without an outcome are counted, see `compare_units`.
    """

    units: dict[str, int]
    means: dict[str, float | None]
    difference: Difference | None
    interval: Interval | None
    e_value: float
    ratio_e_value: float
    missing_e_value: float
    guardrails: dict[str, dict[str, Any]]
    outcomes: dict[str, dict[str, int]]
    families: dict[str, Any]
    varies: bool
    verdict: str = ArmVerdict.CONTINUE
    reason: str = ""


def analyse(
    plan: ExperimentPlan,
    units: Sequence[Unit],
    *,
    ratios: Iterable[tuple[Sequence[int], Sequence[float]]],
    past: Mapping[str, float] | None = None,
    steps_done: bool = True,
) -> Findings:
    """Look at the units in the order in which they were exposed.

    Args:
        ratios: for each block the number of units of every arm and the planned shares.
        past: success of each family before the experiment, for plans that use it.
        steps_done: whether the canary has reached its last share with enough units; before, nothing is promoted.
    """
    counted = [unit for unit in units if unit.counts]
    # The exact e-process is sequential: it bets in the order in which outcomes became known.
    known_units = sorted((unit for unit in counted if unit.is_known), key=attrgetter("known_at"))
    samples = {arm: [unit.value for unit in known_units if unit.arm == arm] for arm in ARMS}
    ways = compare_units(counted, _read_values(counted), past=past if plan.use_past else None)
    interval = (
        find_interval(ways, tau=plan.tau, alpha=plan.alpha) if min(map(len, samples.values())) >= FIRST_LOOK else None
    )
    if plan.method == Method.EXACT:
        exact = exact_e_value((unit.treated, unit.value >= 1, unit.share) for unit in known_units)
        e_values = [exact, *(mixture_e_value(way, tau=plan.tau) for way in ways[1:])]
    else:
        e_values = [mixture_e_value(way, tau=plan.tau) for way in ways if interval]
    # Ways that point in different directions prove nothing, so evidence is then at most 1.
    agree = len({way.estimate > 0 for way in ways}) == 1
    findings = Findings(
        units={arm: len(values) for arm, values in samples.items()},
        means={arm: sum(values) / len(values) if values else None for arm, values in samples.items()},
        difference=ways[0] if ways else None,
        interval=interval,
        e_value=min(e_values, default=1.0) if agree else min([1.0, *e_values]),
        ratio_e_value=ratio_e_value(ratios),
        missing_e_value=find_missing_e_value(units, [not unit.is_known for unit in units]),
        guardrails={guardrail.metric: _guard(guardrail, units) for guardrail in plan.guardrails},
        outcomes={arm: dict(Counter(unit.shown_state for unit in units if unit.arm == arm)) for arm in ARMS},
        families=_compare_families(counted, plan),
        varies=len(known_units) < 2 * FIRST_LOOK or len({unit.value for unit in known_units}) > 1,
    )
    is_over = plan.count_last_step(unit.share for unit in known_units) >= plan.max_units
    verdict, reason = _decide(plan, findings, steps_done=steps_done, is_over=is_over)
    return replace(findings, verdict=verdict, reason=reason)


def show_e_value(value: float) -> str:
    """Return an e-value as people read it."""
    return "over a million" if value > 1e6 else f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _decide(plan: ExperimentPlan, findings: Findings, *, steps_done: bool, is_over: bool) -> tuple[str, str]:
    # First of all: with wrong shares no comparison below means anything.
    if findings.ratio_e_value >= RATIO_ALARM:
        return ArmVerdict.INVALID, (
            f"The arms do not have the planned shares (e = {show_e_value(findings.ratio_e_value)}). Find out why units "
            "are lost or assigned differently, then start a new experiment."
        )
    # Before the guardrails: what is missing in one arm alone looks like harm.
    if findings.missing_e_value >= MISSING_ALARM:
        return ArmVerdict.CONTINUE, DIFFERENTLY_MISSING
    if fired := [name for name, guardrail in findings.guardrails.items() if guardrail["fired"]]:
        return ArmVerdict.ROLL_BACK, f"Worse than the control: {', '.join(fired)}."
    if not findings.varies:
        return ArmVerdict.NO_BENEFIT if is_over else ArmVerdict.CONTINUE, ALL_THE_SAME
    is_better, is_worse = _read(plan, findings)
    # At the end of the plan "worse" is told as "no benefit", which ends the experiment.
    if is_worse and not is_over:
        return ArmVerdict.WORSE, "The treated arm is worse, by more than chance explains."
    # A canary that never had its last share is not promoted to all.
    if is_better and steps_done:
        return ArmVerdict.BETTER, "The decision rule of the plan is met."
    if is_better:
        return ArmVerdict.CONTINUE, "The decision rule is met, but not every step of the canary has enough units yet."
    if is_over:
        unit_count = sum(findings.units.values())
        return ArmVerdict.NO_BENEFIT, f"No benefit was found in {unit_count:,} units, the most that were planned."
    return ArmVerdict.CONTINUE, ""


def _read(plan: ExperimentPlan, findings: Findings) -> tuple[bool, bool]:
    """Return whether the treated arm is better, or not worse where that is the rule; and whether it is worse."""
    if findings.difference is None:
        return False, False
    estimate, interval = findings.difference.estimate, findings.interval
    if plan.method == Method.EXACT:
        is_sure = findings.e_value >= 1 / plan.alpha
        return is_sure and estimate > 0, is_sure and estimate < 0
    margin = plan.margin if plan.rule == DecisionRule.NOT_WORSE else 0.0
    return interval is not None and interval.low > -margin, interval is not None and interval.high < -margin


def _read_values(units: Sequence[Unit]) -> list[float | None]:
    return [unit.value if unit.is_known else None for unit in units]


def _fill(values: Sequence[float | None], unknown: float) -> list[float]:
    return [unknown if value is None else value for value in values]


def compare_units(
    units: Sequence[Unit], values: Sequence[float | None], *, past: Mapping[str, float] | None = None
) -> list[Difference]:
    """Estimate one effect in three ways; empty where an arm has no values. The first counts the known values alone.

    The others count all units, those without a value (None) once as 0 and once as 1, and are divided by the share of
    values that are known. If both arms report equally, the three agree. If only the failures of one arm are slow or
    lost, the second has no bias; if only its successes are, the third has none. So a finding is one only if all three
    show it.

    Args:
        values: between 0 and 1.
        past: success of each family before the experiment, to remove what it explains.
    """
    known_units = [(unit, value) for unit, value in zip(units, values, strict=True) if value is not None]
    ways = [_compare_by_block([unit for unit, _ in known_units], [value for _, value in known_units], past)]
    if ways[0] is not None and len(known_units) < len(units):
        share = len(known_units) / len(units)
        for unknown in (0.0, 1.0):
            estimate = _compare_by_block(units, _fill(values, unknown), past)
            ways.append(
                estimate and Difference(estimate=estimate.estimate / share, variance=estimate.variance / share**2)
            )
    return [way for way in ways if way is not None]


def _compare_by_block(
    units: Sequence[Unit], values: Sequence[float], past: Mapping[str, float] | None = None
) -> Difference | None:
    if not past or not units:
        return pool_parts(_sample_blocks(units, values, sample_shares))
    # A family without a past is taken as an average one, so almost nothing is removed from it.
    usual = sum(past.values()) / len(past)
    values = remove_past(values, [past.get(unit.family, usual) for unit in units])
    return pool_parts(_sample_blocks(units, values, sample_figures))


def find_missing_e_value(units: Sequence[Unit], lacks: Sequence[bool]) -> float:
    """Return the e-value against "both arms lack something equally often", from 30 units in each on.

    All units count, so that slow outcomes show from the first look on: chance gives both arms units of the same ages.
    The arms are compared as a whole, not in the order of exposure, in which one can run ahead and its units be older.
    """
    treated = sum(unit.treated for unit in units)
    difference = _compare_by_block(units, [float(lack) for lack in lacks])
    if difference is None or min(treated, len(units) - treated) < FIRST_LOOK:
        return 1.0
    return mixture_e_value(difference, tau=MISSING_TAU)


def _sample_blocks(
    units: Sequence[Unit], values: Sequence[float], summarise: Callable[[Sequence[float]], Sample]
) -> list[tuple[Sample, Sample]]:
    """Summarise the treated and the control arm of each block; arms are not pooled over blocks."""
    in_blocks = sorted(zip(units, values, strict=True), key=lambda pair: pair[0].block)
    parts = []
    for _, rows in groupby(in_blocks, key=lambda pair: pair[0].block):
        arms: tuple[list[float], list[float]] = ([], [])
        for unit, value in rows:
            arms[unit.treated].append(value)
        parts.append((summarise(arms[True]), summarise(arms[False])))
    return parts


def find_interval(ways: Sequence[Difference], *, tau: float, alpha: float) -> Interval | None:
    """Return the interval that has those of all ways in it."""
    intervals = [confidence_sequence(way, tau=tau, alpha=alpha) for way in ways]
    if not intervals:
        return None
    return Interval(low=min(interval.low for interval in intervals), high=max(other.high for other in intervals))


def _compare_families(units: Sequence[Unit], plan: ExperimentPlan) -> dict[str, Any]:
    """Compare the arms in each of the largest families, and test whether the effect is the same in all of them.

    The e-value is the mean of those of each family against the others together. A mean over all runs hides effects that
    are opposite.
    """
    members: dict[str, list[Unit]] = {}
    for unit in units:
        members.setdefault(unit.family, []).append(unit)
    largest = sorted(members, key=lambda family: (-len(members[family]), family))[:MOST_FAMILIES]
    rows, parts = [], {}
    for family in largest:
        known_units = [unit for unit in members[family] if unit.is_known]
        treated = sum(unit.treated for unit in known_units)
        ways = compare_units(members[family], _read_values(members[family]))
        is_enough = min(treated, len(known_units) - treated) >= FIRST_LOOK
        interval = find_interval(ways, tau=plan.tau, alpha=plan.alpha) if is_enough else None
        if is_enough:
            parts[family] = _sample_blocks(known_units, [unit.value for unit in known_units], sample_shares)
        rows.append(
            {
                "family": family,
                "control": len(known_units) - treated,
                "treated": treated,
                "estimate": ways[0].estimate if ways else None,
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
            }
        )
    return {"rows": rows, "e_value": _test_families(parts, plan)}


def _test_families(parts: Mapping[str, Sequence[tuple[Sample, Sample]]], plan: ExperimentPlan) -> float:
    e_values = []
    for family, own in parts.items():
        here = pool_parts(own)
        elsewhere = pool_parts(part for name, others in parts.items() if name != family for part in others)
        if here is None or elsewhere is None:
            continue
        # The two have no units in common, so their variances add up.
        contrast = Difference(estimate=here.estimate - elsewhere.estimate, variance=here.variance + elsewhere.variance)
        e_values.append(mixture_e_value(contrast, tau=plan.tau))
    # The mean of e-values is an e-value, even if they depend on each other.
    return sum(e_values) / len(e_values) if e_values else 1.0


def _guard(guardrail: Guardrail, units: Sequence[Unit]) -> dict[str, Any]:
    """Test one figure for harm, of runs whose outcome counts; only they can fire.

    It does not fire where one arm reports the figure more often than the other. `untrusted` is the same test with the
    other runs as well, for people to look at.
    """
    metric = guardrail.metric
    harm = _test_harm(guardrail, units, [unit.figures.get(metric) for unit in units])
    is_comparable = not harm["fired"] or _is_comparable(metric, units)
    untrusted = None
    if any(metric in unit.untrusted for unit in units):
        all_reported = [unit.figures.get(metric, unit.untrusted.get(metric)) for unit in units]
        untrusted = _test_harm(guardrail, units, all_reported)
    return harm | {
        "fired": harm["fired"] and is_comparable,
        "comparable": is_comparable,
        "untrusted": untrusted,
    }


def _is_comparable(metric: str, units: Sequence[Unit]) -> bool:
    """Tell whether both arms report a figure equally often.

    For harm, whether both say how lessons fared, good or bad. Where all that is ever said is that a lesson did harm,
    silence is no gap.
    """
    told = [unit for unit in units if unit.has_feedback]
    if metric == Guarded.HARM and any(not unit.figures.get(metric) for unit in told):
        return len({unit.treated for unit in told}) == 2
    return find_missing_e_value(units, [metric not in unit.figures for unit in units]) < MISSING_ALARM


def _test_harm(guardrail: Guardrail, units: Sequence[Unit], values: Sequence[float | None]) -> dict[str, Any]:
    known_units = [(unit, value) for unit, value in zip(units, values, strict=True) if value is not None]
    if guardrail.metric in RATIOS:
        difference = pool_parts(
            _sample_blocks([unit for unit, _ in known_units], [value for _, value in known_units], sample_figures)
        )
        ways = [difference] if difference else []
    else:
        ways = compare_units(units, values)
    treated = sum(unit.treated for unit, _ in known_units)
    e_value = 1.0
    if ways and treated >= FIRST_GUARD and len(known_units) - treated >= FIRST_GUARD:
        # The least of all: a finding is one only if every way of counting shows it.
        e_value = min(guardrail_e_value(way, tau=guardrail.tau, margin=guardrail.margin) for way in ways)
    return {
        "units": {"control": len(known_units) - treated, "treated": treated},
        "difference": ways[0].estimate if ways else None,
        "e_value": e_value,
        "fired": e_value >= 1 / guardrail.alpha,
    }
