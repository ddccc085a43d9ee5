"""Turn the tries of a closed loop into the report. Needs no database."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.arms import SuiteArm
from evaluation.reports.controls import check_controls
from evaluation.reports.figures import (
    compare_arm,
    describe_blocks,
    estimate_json,
    power_note,
    price_gain,
    rounded,
)
from evaluation.reports.metrics import pass_at_k, pass_hat_k
from evaluation.reports.statistics import bootstrap_mean
from evaluation.suites.base import APPROVED_UNREAD, About, Options, UnitResult

MAX_NAMED = 20  # tries without an answer that a report names
Tries = dict[str, list[dict[str, Any]]]  # by task, over all seeds


def summarise_loop(
    about: About, units: dict[str, UnitResult], arms: list[SuiteArm], options: Options
) -> dict[str, Any]:
    """Combine the seeds. The task is the unit of the statistics; its tries are averaged first."""
    tries = {arm.name: _collect(units, arm.name) for arm in arms}
    tasks = list(tries["none"])
    success = {name: [_mean(attempts[task], "success") for task in tasks] for name, attempts in tries.items()}
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
        "curve": [],
        "learned": {name: unit["learned"] for name, unit in units.items()},
        "checks": [*_checks(units, main), *check_controls(success, main, seed=options.seed)],
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
    return float(np.mean([float(attempt[name]) for attempt in tries]))


def _costs(
    units: dict[str, UnitResult], arm: str, tries: dict[str, Tries], success: dict[str, list[float]]
) -> dict[str, Any]:
    tokens = [n for unit in units.values() for n in unit["arms"][arm]["tokens"]]
    lessons = [n for unit in units.values() for n in unit["arms"][arm]["lessons"]]
    played = [attempt for of_task in tries[arm].values() for attempt in of_task]
    bare = [attempt for of_task in tries["none"].values() for attempt in of_task]
    cost, base = _mean(played, "cost_usd"), _mean(bare, "cost_usd")
    gained = float(np.mean(success[arm])) - float(np.mean(success["none"]))
    scores = [attempt["score"] for attempt in played if attempt["score"] is not None]
    return {
        **describe_blocks(tokens, lessons),
        "score_mean": rounded(np.mean(scores)) if scores else None,
        "turns_mean": rounded(_mean(played, "turns")),
        "input_tokens_mean": rounded(_mean(played, "input_tokens")),
        "output_tokens_mean": rounded(_mean(played, "output_tokens")),
        "cost_usd_mean": round(cost, 6),
        "tokens_per_gained_success": price_gain(float(np.mean(tokens)), gained),
        "cost_usd_per_gained_success": price_gain(cost - base, gained),
        "errors": sum(bool(attempt["error"]) for attempt in played),
    }


def _passes(arm: str, tries: Tries, seed: int) -> list[dict[str, Any]]:
    """Return pass^k and pass@k for every k up to the number of tries that each task has."""
    counts = [(len(attempts), sum(bool(attempt["success"]) for attempt in attempts)) for attempts in tries.values()]
    most = min((n for n, _ in counts), default=0)
    rows = []
    # With one try each, both figures are the success itself.
    for k in range(1, most + 1) if most > 1 else ():
        for label, formula in ((f"pass^{k}", pass_hat_k), (f"pass@{k}", pass_at_k)):
            estimate = bootstrap_mean([formula(n, c, k) for n, c in counts], seed=seed, bounds=(0, 1))
            rows.append({"arm": arm, "name": label, **estimate_json(estimate)})
    return rows


def _spent(arm: str, tries: Tries, seed: int) -> list[dict[str, Any]]:
    """Return the mean turns, tokens and cost of a try, where the environment counts them."""
    rows = []
    for name, member in (("turns", "turns"), ("tokens read", "input_tokens"), ("cost in $", "cost_usd")):
        values = [_mean(attempts, member) for attempts in tries.values()]
        if any(values):
            rows.append({"arm": arm, "name": name, **estimate_json(bootstrap_mean(values, seed=seed))})
    return rows


def _checks(units: dict[str, UnitResult], main: str) -> list[dict[str, Any]]:
    arms = next(iter(units.values()))["arms"]
    if "poison-unapproved" not in arms or main not in arms:
        return []
    # Each arm has a project of its own, so that the labels of the same lessons differ, but not their length.
    same = all(unit["arms"]["poison-unapproved"]["tokens"] == unit["arms"][main]["tokens"] for unit in units.values())
    says = (
        f"With wrong lessons proposed but not approved, the blocks are {'' if same else 'NOT '}as long as those of "
        f"{main}, task by task."
    )
    return [{"name": "unapproved lessons change nothing", "passed": same, "says": says}]


def _notes(units: dict[str, UnitResult], tries: dict[str, Tries]) -> list[str]:
    notes = [APPROVED_UNREAD]
    cut = sum(unit["cut"] for unit in units.values())
    if cut:
        notes.append(
            f"A limit on calls or cost prevented {cut} tries. Only tasks that every arm could try are counted."
        )
    for name, unit in units.items():
        counts = unit["learned"]
        lessons = counts["proposed"] + counts["repeated"]
        notes.append(
            f"{name}: {counts['runs']} runs, {counts['solved']} of them solved, gave {lessons} lessons, of which "
            f"{counts['repeated']} were repeats; {counts['without_lesson']} runs gave none and {counts['failed']} "
            f"reflections failed. {counts['quotes_found']} of {counts['quotes']} quotes are in their run. Reflection "
            f"used {counts['input_tokens']:,} + {counts['output_tokens']:,} tokens, ${counts['cost_usd']:.4f}."
        )
    lost = [f"{task}, to learn from: {note}" for unit in units.values() for task, note in unit.get("lost", [])]
    if lost:
        notes.append(f"{len(lost)} first tries gave no run and taught nothing: {_list(lost)}")
    errors = [
        f"{task}, {arm}, try {number}: {attempt['error']}"
        for arm, by_task in tries.items()
        for task, of_task in by_task.items()
        for number, attempt in enumerate(of_task, 1)
        if attempt["error"]
    ]
    if errors:
        notes.append(f"{len(errors)} tries failed without an answer and count as not solved: {_list(errors)}")
    return notes


def _list(named: Sequence[str]) -> str:
    more = f"; and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"{'; '.join(named[:MAX_NAMED])}{more}."
