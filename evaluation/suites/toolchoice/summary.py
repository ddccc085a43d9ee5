"""Turn the raw figures of the seeds into the report. Needs no database."""

from typing import Any

import numpy as np

from evaluation.arms import SuiteArm
from evaluation.reports.controls import check_controls
from evaluation.reports.figures import compare_arm, describe_blocks, estimate_curve, power_note, price_gain, rounded
from evaluation.suites.base import APPROVED_UNREAD, About, Options, UnitResult


def summarise_units(
    about: About, units: dict[str, UnitResult], arms: list[SuiteArm], tasks: list[str], options: Options
) -> dict[str, Any]:
    """Combine the seeds. The task is the unit of the statistics; its seeds are averaged first."""
    per_task = {arm.name: _mean_over(units, lambda unit, name=arm.name: unit["arms"][name]["success"]) for arm in arms}
    rows = []
    for arm in arms:
        tokens = [n for unit in units.values() for n in unit["arms"][arm.name]["tokens"]]
        lessons = [n for unit in units.values() for n in unit["arms"][arm.name]["lessons"]]
        row = compare_arm(
            arm.name, about=arm.about, treated=per_task[arm.name], control=per_task["none"], seed=options.seed
        )
        rows.append(
            row
            | describe_blocks(tokens, lessons)
            | {"tokens_per_gained_success": price_gain(float(np.mean(tokens)), row["uplift"]["mean"])}
        )
    main = f"hybrid:{options.k}"
    return {
        **about.as_json(),
        "units": list(units),
        "tasks": tasks,
        "n": len(tasks),
        "main": main if main in per_task else arms[-1].name,
        "arms": rows,
        "curve": _curve(units, per_task, main, options),
        "learned": {name: unit["learned"] for name, unit in units.items()},
        "checks": [*_checks(units, rows, main), *check_controls(per_task, main, seed=options.seed)],
        "notes": _notes(arms),
        "power": power_note(len(tasks)),
        "per_task": {name: [rounded(value) for value in values] for name, values in per_task.items()},
    }


def _mean_over(units: dict[str, UnitResult], values: Any) -> list[float]:
    means: list[float] = np.mean([values(unit) for unit in units.values()], axis=0).tolist()
    return means


def _curve(
    units: dict[str, UnitResult], per_task: dict[str, list[float]], main: str, options: Options
) -> list[dict[str, Any]]:
    first = next(iter(units.values()))
    points = {int(stop): _mean_over(units, lambda unit, at=stop: unit["curve"][at]) for stop in first["curve"]}
    if main in per_task:
        points[first["learned"]["runs"]] = per_task[main]
    return estimate_curve(points, per_task["none"], seed=options.seed)


def _checks(units: dict[str, UnitResult], rows: list[dict[str, Any]], main: str) -> list[dict[str, Any]]:
    """Return the checks that must pass if the product works, whatever the figures."""
    by_name = {row["arm"]: row for row in rows}
    checks = []
    if "poison-unapproved" in by_name and main in by_name:
        same = all(unit["arms"]["poison-unapproved"] == unit["arms"][main] for unit in units.values())
        checks.append(
            {
                "name": "unapproved lessons change nothing",
                "passed": same,
                "says": "With wrong lessons proposed but not approved, every answer is "
                f"{'' if same else 'NOT '}identical to that of {main}.",
            }
        )
    if "poison-approved" in by_name:
        low = by_name["poison-approved"]["uplift"]
        checks.append(
            {
                "name": "harm is detected",
                "passed": low["high"] < 0,
                "says": f"Approved wrong lessons change the success rate by {low['mean']:+.3f}.",
            }
        )
    return checks


def _notes(arms: list[SuiteArm]) -> list[str]:
    notes = [APPROVED_UNREAD]
    if any(arm.name == "noreward" for arm in arms):
        notes.append("noreward: 30% of the feedback the agent gets is wrong, always for the same tries.")
    if any(arm.name == "all" for arm in arms):
        notes.append("all: lessons in one fixed order, as many as fit the token budget; a larger budget holds more.")
    return notes
