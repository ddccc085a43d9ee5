"""From what is known of the units to one look: ratio, guardrails, then the verdict (in this order)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db.models import TextChoices

from evaluation.experiments.plan import RATIOS, Guardrail, Method, Plan, Rule
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

MISSING_ALARM = 100.0  # e-value from which the arms differ in missing outcomes
ARMS = ("control", "treated")


class State(TextChoices):
    """What is known of a unit's outcome."""

    KNOWN = "known"
    PENDING = "pending", "Not known yet; it may still come"
    MISSING = "missing", "Not known, and the look-back window is over"
    LATE = "late", "It came after the look-back window and does not count"
    UNTRUSTED = "untrusted", "Reported by the agent or a judge, which does not count"
    LEFT_OUT = "left_out", "Known, but the releases are not known to answer it differently"


class Verdict(TextChoices):
    CONTINUE = "continue", "Goes on"
    BETTER = "better", "The treated arm is better, or not worse where that is the rule"
    NO_BENEFIT = "no_benefit", "No benefit found within the planned number of units"
    WORSE = "worse", "The treated arm is worse"
    ROLL_BACK = "roll_back", "A guardrail fired"
    INVALID = "invalid", "The arms do not have the planned shares"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One exposed unit. `block` counts the times the shares changed; `share` is that of the treated arm of the two.

    `figures` has the guardrails' figures as far as they are known; they rise with the harm. `counts` says whether the
    verdict counts it; guardrails and shares count every unit.
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

    @property
    def shown_state(self) -> str:
        return self.state if self.counts or self.state != State.KNOWN else State.LEFT_OUT

    @property
    def arm(self) -> str:
        return ARMS[self.treated]


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What one look found. `guardrails` and `outcomes` are ready for JSON."""

    units: dict[str, int]
    means: dict[str, float | None]
    difference: Difference | None
    interval: Interval | None
    e_value: float
    ratio_e_value: float
    missing_e_value: float
    guardrails: dict[str, dict[str, Any]]
    outcomes: dict[str, dict[str, int]]
    verdict: str = Verdict.CONTINUE
    reason: str = ""


def analyse(
    plan: Plan,
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
    counted = (unit for unit in units if unit.counts and unit.state == State.KNOWN)
    known = sorted(counted, key=attrgetter("known_at"))
    difference = _compare(known, plan, past or {})
    enough = min((sum(unit.treated == arm for unit in known) for arm in (False, True)), default=0) >= FIRST_LOOK
    interval = confidence_sequence(difference, tau=plan.tau, alpha=plan.alpha) if difference and enough else None
    if plan.method == Method.EXACT:
        e_value = exact_e_value((unit.treated, unit.value >= 1, unit.share) for unit in known)
    else:
        e_value = mixture_e_value(difference, tau=plan.tau) if difference and enough else 1.0
    ended = [unit for unit in units if unit.state != State.PENDING]
    samples = {arm: [unit.value for unit in known if unit.arm == arm] for arm in ARMS}
    findings = Findings(
        units={arm: len(values) for arm, values in samples.items()},
        means={arm: sum(values) / len(values) if values else None for arm, values in samples.items()},
        difference=difference,
        interval=interval,
        e_value=e_value,
        ratio_e_value=ratio_e_value(ratios),
        missing_e_value=exact_e_value((unit.treated, unit.state != State.KNOWN, unit.share) for unit in ended),
        guardrails={each.metric: _guard(each, units) for each in plan.guardrails},
        outcomes={arm: dict(Counter(unit.shown_state for unit in units if unit.arm == arm)) for arm in ARMS},
    )
    is_over = plan.count_last_step(unit.share for unit in known) >= plan.max_units
    verdict, reason = _decide(plan, findings, steps_done=steps_done, is_over=is_over)
    return replace(findings, verdict=verdict, reason=reason)


def show_e_value(value: float) -> str:
    """Return an e-value as people read it."""
    return "over a million" if value > 1e6 else f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _decide(plan: Plan, findings: Findings, *, steps_done: bool, is_over: bool) -> tuple[str, str]:
    if findings.ratio_e_value >= RATIO_ALARM:
        return Verdict.INVALID, (
            f"The arms do not have the planned shares (e = {show_e_value(findings.ratio_e_value)}). Find out why units "
            "are lost or assigned differently, then start a new experiment."
        )
    if fired := [name for name, each in findings.guardrails.items() if each["fired"]]:
        return Verdict.ROLL_BACK, f"Worse than the control: {', '.join(fired)}."
    is_better, is_worse = _read(plan, findings)
    if is_worse and not is_over:
        return Verdict.WORSE, "The treated arm is worse, by more than chance explains."
    if is_better and findings.missing_e_value >= MISSING_ALARM:
        return Verdict.CONTINUE, (
            "The treated arm looks better, but the arms differ in missing outcomes, which can cause that. Find out why."
        )
    if is_better and steps_done:
        return Verdict.BETTER, "The decision rule of the plan is met."
    if is_better:
        return Verdict.CONTINUE, "The decision rule is met, but not every step of the canary has enough units yet."
    if is_over:
        known = sum(findings.units.values())
        return Verdict.NO_BENEFIT, f"No benefit was found in {known:,} units, the most that were planned."
    return Verdict.CONTINUE, ""


def _read(plan: Plan, findings: Findings) -> tuple[bool, bool]:
    """Return whether the treated arm is better, or not worse where that is the rule; and whether it is worse."""
    if findings.difference is None:
        return False, False
    estimate, interval = findings.difference.estimate, findings.interval
    if plan.method == Method.EXACT:
        is_sure = findings.e_value >= 1 / plan.alpha
        return is_sure and estimate > 0, is_sure and estimate < 0
    margin = plan.margin if plan.rule == Rule.NOT_WORSE else 0.0
    return interval is not None and interval.low > -margin, interval is not None and interval.high < -margin


def _compare(known: Sequence[Unit], plan: Plan, past: Mapping[str, float]) -> Difference | None:
    values = [unit.value for unit in known]
    summarise: Callable[[Sequence[float]], Sample] = sample_shares
    if plan.use_past and past:
        usual = sum(past.values()) / len(past)
        values = remove_past(values, [past.get(unit.family, usual) for unit in known]) if known else []
        summarise = sample_figures
    return _compare_by_block(known, values, summarise)


def _compare_by_block(
    units: Sequence[Unit], values: Sequence[float], summarise: Callable[[Sequence[float]], Sample]
) -> Difference | None:
    """Pool the differences of the blocks; arms are not pooled over blocks."""
    in_blocks = sorted(zip(units, values, strict=True), key=lambda each: each[0].block)
    parts = []
    for _, rows in groupby(in_blocks, key=lambda each: each[0].block):
        arms: tuple[list[float], list[float]] = ([], [])
        for unit, value in rows:
            arms[unit.treated].append(value)
        parts.append((summarise(arms[True]), summarise(arms[False])))
    return pool_parts(parts)


def _guard(guardrail: Guardrail, units: Sequence[Unit]) -> dict[str, Any]:
    seen = [unit for unit in units if guardrail.metric in unit.figures]
    figures = [unit.figures[guardrail.metric] for unit in seen]
    summarise = sample_figures if guardrail.metric in RATIOS else sample_shares
    difference = _compare_by_block(seen, figures, summarise)
    treated = sum(unit.treated for unit in seen)
    e_value = 1.0
    if difference is not None and treated >= FIRST_GUARD and len(seen) - treated >= FIRST_GUARD:
        e_value = guardrail_e_value(difference, tau=guardrail.tau, margin=guardrail.margin)
    return {
        "units": {"control": len(seen) - treated, "treated": treated},
        "difference": difference.estimate if difference else None,
        "e_value": e_value,
        "fired": e_value >= 1 / guardrail.alpha,
    }
