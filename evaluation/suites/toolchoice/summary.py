"""From the seeds' raw figures to what is reported. No database."""

from typing import Any

import numpy as np

from evaluation.arms import Arm
from evaluation.reports.figures import compare_arm, estimate_json, power_note, price_gain, rounded
from evaluation.reports.statistics import bootstrap_mean, paired_difference
from evaluation.suites.base import About, Options, UnitResult

SAME = "identical"


def summarise_units(
    about: About, units: dict[str, UnitResult], arms: list[Arm], tasks: list[str], options: Options
) -> dict[str, Any]:
    """Put the seeds together: the task is the unit, its seeds are averaged first."""
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
            | {
                "tokens_mean": rounded(np.mean(tokens)),
                "tokens_per_gained_success": price_gain(float(np.mean(tokens)), row["uplift"]["mean"]),
                "tokens_p95": rounded(np.percentile(tokens, 95)),
                "lessons_mean": rounded(np.mean(lessons)),
                "abstained": rounded(np.mean([n == 0 for n in lessons])),
            }
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
        "checks": _checks(units, rows, main),
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
    return [
        {
            "x": stop,
            "success": estimate_json(bootstrap_mean(values, seed=options.seed)),
            "uplift": estimate_json(paired_difference(values, per_task["none"], seed=options.seed)),
        }
        for stop, values in sorted(points.items())
    ]


def _checks(units: dict[str, UnitResult], rows: list[dict[str, Any]], main: str) -> list[dict[str, Any]]:
    """Say what must hold where the product works, whatever the figures."""
    by_name = {row["arm"]: row for row in rows}
    checks = []
    if "poison-unapproved" in by_name and main in by_name:
        same = all(unit["arms"]["poison-unapproved"] == unit["arms"][main] for unit in units.values())
        checks.append(
            {
                "name": "unapproved lessons change nothing",
                "passed": same,
                "says": "With wrong lessons proposed and not approved, every answer is "
                f"{SAME if same else 'NOT ' + SAME} to {main}'s.",
            }
        )
    if "poison-approved" in by_name:
        low = by_name["poison-approved"]["uplift"]
        checks.append(
            {
                "name": "harm is seen",
                "passed": low["high"] < 0,
                "says": f"Approved wrong lessons change the success by {low['mean']:+.3f}.",
            }
        )
    random = next((row for name, row in by_name.items() if name.startswith("random")), None)
    if random and main in by_name:
        checks.append(
            {
                "name": "chance does not help",
                "passed": random["uplift"]["high"] < by_name[main]["uplift"]["low"],
                "says": f"Lessons drawn at random change the success by {random['uplift']['mean']:+.3f}, retrieved "
                f"ones by {by_name[main]['uplift']['mean']:+.3f}.",
            }
        )
    return checks


def _notes(arms: list[Arm]) -> list[str]:
    notes = ["Lessons are approved by the policy “evaluation”, unread, inside the sandbox."]
    if any(arm.name == "noreward" for arm in arms):
        notes.append("noreward: 30 % of what the agent hears is wrong, and always for the same tries.")
    if any(arm.name == "all" for arm in arms):
        notes.append(
            "all: one fixed order of the lessons, as many as the token budget holds; a larger budget holds more."
        )
    return notes
