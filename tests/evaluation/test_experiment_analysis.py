"""One look at the units of an experiment, without a database."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from evaluation.errors import PlanInvalid
from evaluation.experiments.analysis import ArmVerdict, Findings, State, Unit, analyse
from evaluation.experiments.plan import ExperimentPlan, Guardrail, Method, RolloutStep, plan_units

START = datetime(2026, 11, 1, tzinfo=UTC)
SUCCESS_ONLY = (Guardrail(metric="success"),)


def make_units(
    number: int, *, base: float, lift: float, share: float = 0.5, seed: int = 1, block: int = 0, **fields: Any
) -> list[Unit]:
    random, units = Random(seed), []
    for order in range(number):
        treated = random.random() < share
        success = float(random.random() < base + lift * treated)
        values: dict[str, Any] = {
            "treated": treated,
            "block": block,
            "share": share,
            "state": State.KNOWN,
            "value": success,
            "known_at": START + timedelta(seconds=order),
            "figures": {"success": 1 - success},
        }
        units.append(Unit(**values | fields))
    return units


def count(units: Iterable[Unit], share: float = 0.5) -> list[tuple[list[int], list[float]]]:
    arms = [unit.treated for unit in units]
    return [([sum(arms), len(arms) - sum(arms)], [share, 1 - share])]


def look(units: list[Unit], *, ratios: Any = None, steps_done: bool = True, **plan: Any) -> Findings:
    return analyse(
        ExperimentPlan(**{"guardrails": SUCCESS_ONLY} | plan).check(),
        units,
        ratios=count(units) if ratios is None else ratios,
        steps_done=steps_done,
    )


def test_large_benefit_is_suggested_for_promotion() -> None:
    findings = look(make_units(1000, base=0.4, lift=0.2))

    assert findings.verdict == ArmVerdict.BETTER
    assert findings.interval is not None
    assert 0 < findings.interval.low < 0.2 < findings.interval.high


def test_benefit_waits_for_all_steps_of_canary() -> None:
    findings = look(make_units(1000, base=0.4, lift=0.2), steps_done=False)

    assert findings.verdict == ArmVerdict.CONTINUE
    assert "not every step" in findings.reason


def test_equal_arms_end_without_benefit_at_planned_maximum() -> None:
    units = make_units(600, base=0.5, lift=0)

    assert look(units, max_units=601).verdict == ArmVerdict.CONTINUE
    assert look(units, max_units=600).verdict == ArmVerdict.NO_BENEFIT


def test_units_of_the_first_steps_do_not_use_up_the_planned_maximum() -> None:
    """A first step of 1 % takes 2,000 units to give 20 of them the release."""
    steps = (RolloutStep(share=10, units=20), RolloutStep(share=500, units=100))
    first = make_units(2000, base=0.5, lift=0, share=0.01)
    last = make_units(400, base=0.5, lift=0, block=1, seed=2)

    assert look(first, ratios=[], steps=steps, max_units=400).verdict == ArmVerdict.CONTINUE
    assert look(first + last[:-1], ratios=[], steps=steps, max_units=400).verdict == ArmVerdict.CONTINUE
    assert look(first + last, ratios=[], steps=steps, max_units=400).verdict == ArmVerdict.NO_BENEFIT


def test_harm_fires_guardrail_before_verdict() -> None:
    findings = look(make_units(400, base=0.7, lift=-0.3))

    assert findings.verdict == ArmVerdict.ROLL_BACK
    assert findings.reason == "Worse than the control: success."
    assert findings.guardrails["success"]["fired"]


def test_wrong_shares_leave_no_verdict_however_large_the_benefit() -> None:
    findings = look(make_units(1000, base=0.4, lift=0.2), ratios=[([300, 700], [0.5, 0.5])])

    assert findings.verdict == ArmVerdict.INVALID


def test_small_harm_within_guardrail_margin_is_found_by_verdict() -> None:
    wide = (Guardrail(metric="success", margin=0.5),)

    assert look(make_units(1000, base=0.6, lift=-0.2), guardrails=wide).verdict == ArmVerdict.WORSE


def test_worse_arm_ends_at_planned_maximum_too() -> None:
    wide = (Guardrail(metric="success", margin=0.5),)
    units = make_units(1000, base=0.6, lift=-0.2)

    assert look(units, guardrails=wide, max_units=1000).verdict == ArmVerdict.NO_BENEFIT


def test_not_worse_needs_only_the_margin() -> None:
    units = make_units(2000, base=0.5, lift=0)

    assert look(units, rule="not_worse", margin=0.2, max_units=3000).verdict == ArmVerdict.BETTER
    assert look(units, max_units=3000).verdict == ArmVerdict.CONTINUE


def test_exact_method_decides_before_a_mean_counts_as_normal() -> None:
    units = make_units(40, base=0.1, lift=0.8)

    assert look(units, method=Method.EXACT).verdict == ArmVerdict.BETTER
    assert look(units[:40]).interval is None


def test_unknown_outcomes_count_by_arm_and_not_in_means() -> None:
    units = make_units(100, base=0.5, lift=0)
    lost = make_units(50, base=0.5, lift=0, state=State.MISSING, known_at=None, figures={})
    late = make_units(20, base=0.5, lift=0, state=State.LATE, figures={})

    findings = look(units + lost + late)

    assert sum(findings.units.values()) == 100
    assert sum(findings.outcomes[arm]["missing"] for arm in ("control", "treated")) == 50
    assert sum(findings.outcomes[arm]["late"] for arm in ("control", "treated")) == 20


def test_outcomes_missing_in_one_arm_hold_back_promotion() -> None:
    """Half of the failures of the treated arm are never reported, so it looks 17 points better."""
    units = make_units(2000, base=0.5, lift=0)
    random = Random(5)
    censored = [
        Unit(treated=True, block=0, share=0.5, state=State.MISSING)
        if unit.treated and not unit.value and random.random() < 0.5
        else unit
        for unit in units
    ]

    findings = look(censored)

    assert findings.missing_e_value > 1000
    assert findings.verdict == ArmVerdict.CONTINUE
    assert "missing" in findings.reason


def hide(units: list[Unit], *, treated: bool, value: float, share: float) -> list[Unit]:
    """Let the first part of the units of an arm with an outcome wait for it."""
    same = [unit for unit in units if unit.treated == treated and unit.value == value]
    hidden = {id(unit) for unit in same[: round(share * len(same))]}
    return [
        replace(unit, state=State.PENDING, value=0.0, known_at=None, figures={}) if id(unit) in hidden else unit
        for unit in units
    ]


def test_outcomes_that_one_arm_still_awaits_are_an_alarm_from_the_first_look_on() -> None:
    """The failures of the treated arm are slow: of those that are known, nearly all succeeded."""
    findings = look(hide(make_units(120, base=0.5, lift=0), treated=True, value=0.0, share=0.9))

    assert findings.interval is not None
    assert findings.missing_e_value > 100
    assert findings.verdict == ArmVerdict.CONTINUE
    assert "missing outcomes" in findings.reason


@pytest.mark.parametrize(("treated", "value"), [(True, 0.0), (True, 1.0), (False, 0.0), (False, 1.0)])
def test_slow_outcomes_too_few_for_an_alarm_make_no_claim(treated: bool, value: float) -> None:
    """Both arms lack four of five outcomes, so that some more of one kind in one arm stand out late."""
    units = make_units(2500, base=0.5, lift=0, seed=31)
    lacking = [replace(unit, state=State.PENDING, figures={}) for unit in units]
    few = [unit if number % 5 == 0 else lacking[number] for number, unit in enumerate(units)]
    hidden = hide(few, treated=treated, value=value, share=0.5)
    alone = look([unit for unit in hidden if unit.is_known], max_units=5000)

    findings = look(hidden, max_units=5000)

    assert alone.verdict != ArmVerdict.CONTINUE
    assert findings.missing_e_value < 100
    assert findings.interval is not None
    assert findings.interval.low < 0 < findings.interval.high
    assert findings.verdict == ArmVerdict.CONTINUE


def test_effect_is_found_though_both_arms_await_outcomes() -> None:
    units = make_units(1600, base=0.4, lift=0.2)
    random = Random(4)
    late = [replace(unit, state=State.PENDING, figures={}) if random.random() < 0.2 else unit for unit in units]

    assert look(late).verdict == ArmVerdict.BETTER


def test_alarm_of_missing_outcomes_holds_back_roll_back_too() -> None:
    """The successes of the treated arm are slow."""
    findings = look(hide(make_units(400, base=0.5, lift=0), treated=True, value=1.0, share=0.9))

    assert findings.verdict == ArmVerdict.CONTINUE


@pytest.mark.parametrize("base", [0.0, 1.0])
def test_outcomes_that_never_vary_decide_nothing(base: float) -> None:
    units = make_units(400, base=base, lift=0)

    assert look(units, rule="not_worse", margin=0.1, max_units=401).verdict == ArmVerdict.CONTINUE
    assert look(units, max_units=400).reason.startswith("Every outcome so far is the same")


def test_opposite_effects_of_families_are_told_apart() -> None:
    helped = make_units(450, base=0.5, lift=0.15, family="airline")
    harmed = make_units(450, base=0.5, lift=-0.15, family="retail", seed=2)

    families = look(helped + harmed).families

    assert families["e_value"] > 20
    assert {row["family"]: row["estimate"] > 0 for row in families["rows"]} == {"airline": True, "retail": False}


def test_equal_effects_of_families_are_no_alarm() -> None:
    units = [unit for seed in (1, 2, 3) for unit in make_units(300, base=0.5, lift=0.15, family=str(seed), seed=seed)]

    assert look(units).families["e_value"] < 20


def test_changed_shares_with_changed_success_are_no_effect() -> None:
    early = make_units(1500, base=0.2, lift=0, share=0.1, seed=3)
    later = make_units(1500, base=0.8, lift=0, share=0.5, seed=4, block=1)

    findings = look(early + later, ratios=[])

    assert findings.difference is not None
    assert abs(findings.difference.estimate) < 0.06
    assert findings.means["treated"] - findings.means["control"] > 0.1  # type: ignore[operator]


def test_cost_is_compared_as_ratio() -> None:
    cost = (*SUCCESS_ONLY, Guardrail(metric="cost", tau=0.3, margin=0.22))
    cheap = make_units(300, base=0.5, lift=0)
    dearer = [
        Unit(
            treated=unit.treated,
            block=0,
            share=0.5,
            state=State.KNOWN,
            value=unit.value,
            known_at=unit.known_at,
            figures={"success": 1 - unit.value, "cost": (number % 7) / 10 + 0.7 * unit.treated},
        )
        for number, unit in enumerate(cheap)
    ]

    findings = look(dearer, guardrails=cost)

    assert findings.reason == "Worse than the control: cost."
    assert findings.guardrails["cost"]["difference"] == pytest.approx(0.7, abs=0.06)


def test_past_of_families_narrows_the_interval() -> None:
    random, units = Random(8), []
    past = {f"family-{number}": number / 10 for number in range(1, 10)}
    for order in range(1500):
        family, rate = random.choice(list(past.items()))
        units.append(
            Unit(
                treated=random.random() < 0.5,
                block=0,
                share=0.5,
                state=State.KNOWN,
                value=float(random.random() < rate),
                known_at=START + timedelta(seconds=order),
                family=family,
            )
        )
    plan = ExperimentPlan(guardrails=SUCCESS_ONLY)
    without = analyse(plan, units, ratios=[])

    found = analyse(ExperimentPlan(guardrails=SUCCESS_ONLY, use_past=True), units, ratios=[], past=past)

    assert found.difference is not None
    assert without.difference is not None
    assert found.difference.variance < 0.8 * without.difference.variance


def test_verdict_of_units_that_differ_leaves_the_others_out() -> None:
    differing = make_units(400, base=0.3, lift=0.4)
    alike = [replace(unit, counts=False) for unit in make_units(1600, base=0.5, lift=0)]

    found = look([*differing, *alike], only_differing=True)

    assert found.verdict == ArmVerdict.BETTER
    assert sum(found.units.values()) == 400
    assert sum(arm["left_out"] for arm in found.outcomes.values()) == 1600
    assert sum(found.guardrails["success"]["units"].values()) == 2000


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"method": "exact", "metric": "score"}, "counts successes only"),
        ({"tau": 0.0}, "between 0 and 1"),
        ({"tau": float("nan")}, "between 0 and 1"),
        ({"alpha": 1.0}, "between 0 and 1"),
        ({"rule": "not_worse", "margin": 10.0}, "between 0 and 1"),
        ({"max_units": 0}, "from 1 to 1,000,000 units"),
        ({"max_units": 10**12}, "from 1 to 1,000,000 units"),
        ({"look_back_seconds": 10**12}, "at most 90 days"),
        ({"look_back_seconds": 0}, "at least a second"),
        ({"method": "exact", "rule": "not_worse", "margin": 0.1}, "has no margin"),
        ({"method": "exact", "unit_rule": "mean"}, "one run of each unit"),
        ({"method": "exact", "use_past": True}, "cannot use the past"),
        ({"method": "exact", "only_differing": True}, "counts every unit"),
        ({"margin": 0.1}, "belongs to the rule"),
        ({"rule": "not_worse"}, "belongs to the rule"),
        ({"guardrails": ()}, "Keep a guardrail"),
        ({"guardrails": SUCCESS_ONLY * 2}, "Name each guardrail once"),
        ({"steps": (RolloutStep(share=100, units=20), RolloutStep(share=10, units=20))}, "larger than the one before"),
    ],
)
def test_plan_that_cannot_be_carried_out_is_refused(plan: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanInvalid, match=said):
        ExperimentPlan(**plan).check()


def test_planned_units_are_those_of_the_published_table_times_the_cost_of_looking() -> None:
    assert plan_units(0.5, 0.1, treated_share=0.9) == 3476

    with pytest.raises(PlanInvalid):
        plan_units(0.95, 0.1, treated_share=0.5)
