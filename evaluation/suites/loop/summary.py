"""From the tries of a closed loop to what is reported. No database."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.arms import Arm
from evaluation.reports.figures import compare_arm, estimate_json, power_note, price_gain, rounded
from evaluation.reports.metrics import pass_at_k, pass_hat_k
from evaluation.reports.statistics import bootstrap_mean, paired_difference
from evaluation.suites.base import About, Options, UnitResult

Tries = dict[str, list[dict[str, Any]]]  # by task, of all seeds


def summarise_loop(about: About, units: dict[str, UnitResult], arms: list[Arm], options: Options) -> dict[str, Any]:
    """Put the seeds together: the task is the unit, its tries are averaged first."""
    tries = {arm.name: _collect(units, arm.name) for arm in arms}
    tasks = list(tries["none"])
    success = {name: [_mean(each[task], "success") for task in tasks] for name, each in tries.items()}
    main = f"hybrid:{options.k}"
    main = main if main in tries else arms[-1].name
    families = {task: family for unit in units.values() for task, family in unit.get("families", {}).items()}
    rows, figures = [], []
    for arm in arms if tasks else []:
        row = compare_arm(
            arm.name, about=arm.about, treated=success[arm.name], control=success["none"], seed=options.seed
        )
        rows.append(row | _costs(units, arm.name, tries, success))
        figures += _passes(arm.name, tries[arm.name], options.seed)
        figures += _spent(arm.name, tries[arm.name], options.seed)
    return {
        **about.as_json(),
        "units": list(units),
        "tasks": tasks,
        "families": [families.get(task, "") for task in tasks],
        "n": len(tasks),
        "main": main,
        "arms": rows,
        "figures": figures,
        "curve": _curve(units, success, main, options),
        "learned": {name: unit["learned"] for name, unit in units.items()},
        "checks": _checks(units, main),
        "notes": _notes(units, tries),
        "power": power_note(len(tasks)),
        "per_task": {name: [rounded(value) for value in values] for name, values in success.items()},
    }


def _collect(units: dict[str, UnitResult], arm: str) -> Tries:
    collected: Tries = defaultdict(list)
    for unit in units.values():
        for task in unit["tasks"]:
            collected[task] += unit["arms"][arm]["tries"][task]
    return dict(collected)


def _mean(tries: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.mean([float(each[name]) for each in tries]))


def _costs(
    units: dict[str, UnitResult], arm: str, tries: dict[str, Tries], success: dict[str, list[float]]
) -> dict[str, Any]:
    tokens = [n for unit in units.values() for n in unit["arms"][arm]["tokens"]]
    lessons = [n for unit in units.values() for n in unit["arms"][arm]["lessons"]]
    played = [each for of_task in tries[arm].values() for each in of_task]
    bare = [each for of_task in tries["none"].values() for each in of_task]
    cost, base = _mean(played, "cost_usd"), _mean(bare, "cost_usd")
    gained = float(np.mean(success[arm])) - float(np.mean(success["none"]))
    scores = [each["score"] for each in played if each["score"] is not None]
    return {
        "tokens_mean": rounded(np.mean(tokens)),
        "tokens_p95": rounded(np.percentile(tokens, 95)),
        "lessons_mean": rounded(np.mean(lessons)),
        "abstained": rounded(np.mean([n == 0 for n in lessons])),
        "score_mean": rounded(np.mean(scores)) if scores else None,
        "turns_mean": rounded(_mean(played, "turns")),
        "input_tokens_mean": rounded(_mean(played, "input_tokens")),
        "output_tokens_mean": rounded(_mean(played, "output_tokens")),
        "cost_usd_mean": round(cost, 6),
        "tokens_per_gained_success": price_gain(float(np.mean(tokens)), gained),
        "cost_usd_per_gained_success": price_gain(cost - base, gained),
        "errors": sum(bool(each["error"]) for each in played),
    }


def _passes(arm: str, tries: Tries, seed: int) -> list[dict[str, Any]]:
    """Return pass^k and pass@k for every k up to the number of tries that each task has."""
    counts = [(len(each), sum(bool(one["success"]) for one in each)) for each in tries.values()]
    most = min((n for n, _ in counts), default=0)
    rows = []
    for k in range(1, most + 1) if most > 1 else ():
        for label, formula in ((f"pass^{k}", pass_hat_k), (f"pass@{k}", pass_at_k)):
            estimate = bootstrap_mean([formula(n, c, k) for n, c in counts], seed=seed)
            rows.append({"arm": arm, "name": label, **estimate_json(estimate)})
    return rows


def _spent(arm: str, tries: Tries, seed: int) -> list[dict[str, Any]]:
    """Return what a try took, of whatever the environment counts; tries of a task are averaged first."""
    rows = []
    for name, member in (("turns", "turns"), ("tokens read", "input_tokens"), ("cost in $", "cost_usd")):
        values = [_mean(each, member) for each in tries.values()]
        if any(values):
            rows.append({"arm": arm, "name": name, **estimate_json(bootstrap_mean(values, seed=seed))})
    return rows


def _curve(
    units: dict[str, UnitResult], success: dict[str, list[float]], main: str, options: Options
) -> list[dict[str, Any]]:
    first = next(iter(units.values()))
    if not first["curve"]:
        return []
    points = {0: success["none"]}
    for stop in first["curve"]:
        points[int(stop)] = [value for unit in units.values() for value in unit["curve"][stop]]
    points[first["learned"]["runs"]] = success[main]
    return [
        {
            "x": stop,
            "success": estimate_json(bootstrap_mean(values, seed=options.seed)),
            "uplift": estimate_json(paired_difference(values, success["none"], seed=options.seed))
            if len(values) == len(success["none"])
            else {"n": 0},
        }
        for stop, values in sorted(points.items())
    ]


def _checks(units: dict[str, UnitResult], main: str) -> list[dict[str, Any]]:
    arms = next(iter(units.values()))["arms"]
    if "poison-unapproved" not in arms or main not in arms:
        return []
    # Each arm has a project of its own, so that the labels of the same lessons differ, but not their length.
    same = all(unit["arms"]["poison-unapproved"]["tokens"] == unit["arms"][main]["tokens"] for unit in units.values())
    says = (
        f"With wrong lessons proposed and not approved, the blocks are {'' if same else 'NOT '}as long, task by task, "
        f"as those of {main}."
    )
    return [{"name": "unapproved lessons change nothing", "passed": same, "says": says}]


def _notes(units: dict[str, UnitResult], tries: dict[str, Tries]) -> list[str]:
    notes = ["Lessons are approved by the policy “evaluation”, unread, inside the sandbox."]
    cut = sum(unit["cut"] for unit in units.values())
    if cut:
        notes.append(f"A limit on calls or cost forbade {cut} tries. Only tasks that every arm could try are counted.")
    for name, unit in units.items():
        told = unit["learned"]
        lessons = told["proposed"] + told["repeated"]
        notes.append(
            f"{name}: {told['runs']} runs, {told['solved']} of them solved, gave {lessons} lessons, of which "
            f"{told['repeated']} were repeats; {told['without_lesson']} runs gave none and {told['failed']} "
            f"reflections failed. {told['quotes_found']} of {told['quotes']} quotes stand in their run. Reflecting "
            f"took {told['input_tokens']:,} + {told['output_tokens']:,} tokens, ${told['cost_usd']:.4f}."
        )
    errors = sum(bool(each["error"]) for arm in tries.values() for of_task in arm.values() for each in of_task)
    if errors:
        notes.append(f"{errors} tries ended in an error of the provider and count as not solved.")
    return notes
