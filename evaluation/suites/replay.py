"""Recompute published figures from recorded runs with known outcomes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from evaluation.reports.figures import compare_arm, estimate_json, power_note, rounded
from evaluation.reports.metrics import pass_at_k, pass_hat_k
from evaluation.reports.statistics import bootstrap_mean, paired_difference
from evaluation.suites.base import About, Options, Progress, Suite, UnitResult
from evaluation.suites.loop.store import LearningCounts, count_reflection, record_and_reflect
from evaluation.suites.own_runs import count_tries, read_own_runs, summarise_own
from memory.projects.models import Project
from reflection.reflectors.rules import RulesReflector

FOLDER = Path(__file__).resolve().parents[1] / "data" / "recorded"
SOURCES = ("alfworld", "mbpp-py", "tau-airline", "webshop")
REFLECTOR = "reflector"  # the unit that reflects on complete runs
SECONDS = 10.0  # on an idle processor; most of it reflecting on the complete runs
OWN = "own"  # the only unit where the user's own runs are counted
RUNS = settings.BASE_DIR / "memory" / "sample_data" / "trajectories.jsonl"


class Replay(Suite):
    """One unit per source. A unit only returns the recorded data; `summarise` computes the figures."""

    about = About(
        name="replay",
        title="Recorded runs: published results with and without reflection, recomputed",
        data="Reflexion (ALFWorld 134 tasks, MBPP 397), tau-bench airline (25 tasks, 4 trials), WebShop (250 episodes)",
        licence="MIT",
        splits="None: this suite learns nothing.",
        seeds="The seed selects the bootstrap samples of the intervals.",
        proves=(
            "This shows that our counting, pairing and intervals reproduce the published figures, including where "
            "reflection did harm. A recorded run cannot react to a lesson, so this says nothing about the product."
        ),
    )

    is_heavy = False

    def units(self, options: Options) -> list[str]:
        if options.data_file:
            read_own_runs(options.data_file)
            return [OWN]
        return [*SOURCES, REFLECTOR]

    def foresee_seconds(self, options: Options) -> float:
        return SECONDS

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        if unit == OWN:
            assert options.data_file is not None
            own = read_own_runs(options.data_file)
            with_steps = [run.data for run in own if run.data.get("steps")][: options.experience]
            return count_tries(own) | {"learned": _reflect(with_steps, progress), "timing": {}}
        if unit != REFLECTOR:
            progress(unit, 1, 1)
        match unit:
            case "tau-airline":
                return {"runs": _read("tau_airline.jsonl"), "timing": {}}
            case "webshop":
                return {"runs": _read("webshop.jsonl"), "timing": {}}
            case "reflector":
                runs = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
                return {"learned": _reflect(runs, progress), "timing": {}}
        return {"runs": [row for row in _read("reflexion.jsonl") if row["suite"] == unit], "timing": {}}

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        if OWN in units:
            own, counts = summarise_own(units[OWN], options), units[OWN]["learned"]
            own["figures"] += _reflection_figures(counts)
            own["notes"] += [_write_counts(counts)] if counts["runs"] else []
            return own | {"units": [OWN]}
        parts = {
            name: _summarise(name, unit["runs"], options.seed) for name, unit in units.items() if name != REFLECTOR
        }
        learned = units[REFLECTOR]["learned"] if REFLECTOR in units else None
        return {
            **self.about.as_json(),
            "units": list(units),
            "n": sum(part["n"] for part in parts.values()),
            "arms": [arm for part in parts.values() for arm in part["arms"]],
            "figures": [
                *(figure for part in parts.values() for figure in part["figures"]),
                *(_reflection_figures(learned) if learned else ()),
            ],
            "checks": [],
            "curve": [],
            "notes": [
                *(note for part in parts.values() for note in part["notes"]),
                *([_reflection_note(learned)] if learned else []),
            ],
            "power": " ".join(f"{name}: {power_note(part['n'])}" for name, part in parts.items()),
            "tasks": {name: part["tasks"] for name, part in parts.items()},
            "per_task": {arm: values for part in parts.values() for arm, values in part["per_task"].items()},
        }


def _summarise(name: str, runs: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    if name == "webshop":
        return _summarise_scores(name, runs, seed)
    if name == "tau-airline":
        return _summarise_trials(name, runs, seed)
    return _summarise_pair(name, runs, seed)


def _summarise_pair(name: str, runs: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Compare the same tasks without and with reflection: at the last trial, and at an equal number of trials."""
    by_arm = {
        arm: {row["task"]: row["successes"] for row in runs if row["arm"] == arm} for arm in ("baseline", "reflection")
    }
    tasks = list(by_arm["baseline"])
    without = [float(by_arm["baseline"][task][-1]) for task in tasks]
    reflected = [float(by_arm["reflection"][task][-1]) for task in tasks]
    trials = len(by_arm["baseline"][tasks[0]])
    # With as many trials as the baseline had: more trials help even without reflection.
    equal = [float(by_arm["reflection"][task][trials - 1]) for task in tasks]
    arms = [
        compare_arm(
            f"{name}/none", about="without reflection, last trial", treated=without, control=without, seed=seed
        ),
        compare_arm(
            f"{name}/reflection", about="with reflection, last trial", treated=reflected, control=without, seed=seed
        ),
    ]
    figures = []
    if trials > 1:
        first = [float(by_arm["baseline"][task][0]) for task in tasks]
        figures.append(_figure(f"{name}/none", "success at the first trial", bootstrap_mean(first, seed=seed)))
        figures.append(
            _figure(f"{name}/reflection", f"uplift at trial {trials}", paired_difference(equal, without, seed=seed))
            | {"paired": True}
        )
    harm = arms[1]["uplift"]["mean"] < 0
    return {
        "n": len(tasks),
        "arms": arms,
        "figures": figures,
        "tasks": tasks,
        "notes": [f"{name}: in these recorded runs, reflection made results worse."] if harm else [],
        "per_task": {f"{name}/none": without, f"{name}/reflection": reflected},
    }


def _summarise_trials(name: str, runs: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Return success, pass^k and pass@k of repeated trials; the trials of a task are averaged first."""
    rates = [sum(row["successes"]) / len(row["successes"]) for row in runs]
    trials = min(len(row["successes"]) for row in runs)
    figures = []
    for k in range(1, trials + 1):
        counts = [(len(row["successes"]), sum(row["successes"])) for row in runs]
        for label, formula in ((f"pass^{k}", pass_hat_k), (f"pass@{k}", pass_at_k)):
            values = [formula(n, successes, k) for n, successes in counts]
            figures.append(_figure(f"{name}/recorded", label, bootstrap_mean(values, seed=seed)))
    return _single(name, "recorded runs of gpt-4o", rates, runs, seed, figures)


def _summarise_scores(name: str, runs: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    scores = [row["score"] for row in runs]
    figures = [_figure(f"{name}/recorded", "score", bootstrap_mean(scores, seed=seed))]
    return _single(name, "recorded ReAct runs", [float(score == 1) for score in scores], runs, seed, figures)


def _single(
    name: str,
    about: str,
    success: Sequence[float],
    runs: list[dict[str, Any]],
    seed: int,
    figures: list[dict[str, Any]],
) -> dict[str, Any]:
    arm = compare_arm(f"{name}/recorded", about=about, treated=success, control=success, seed=seed)
    return {
        "n": len(runs),
        # There is no second arm to compare with.
        "arms": [arm | {"uplift": {"n": 0}}],
        "figures": figures,
        "tasks": [row["task"] for row in runs],
        "notes": [],
        "per_task": {f"{name}/recorded": [rounded(value) for value in success]},
    }


def _reflect(runs: Sequence[dict[str, Any]], progress: Progress) -> dict[str, Any]:
    """Reflect by rules on complete runs."""
    project = Project.objects.create(slug="replay", name="Recorded runs")
    counts = LearningCounts()
    for number, run in enumerate(runs, 1):
        reflection, attempt = record_and_reflect(
            project, run, make_reflector=lambda *, ask: RulesReflector(max_lessons=3)
        )
        counts.runs += 1
        count_reflection(reflection, attempt.outcome, counts)
        progress(REFLECTOR, number, len(runs))
    return counts.as_json()


def _reflection_figures(learned: dict[str, Any]) -> list[dict[str, Any]]:
    lessons = learned["proposed"] + learned["repeated"]
    shares = {
        "lessons per run": (lessons, learned["runs"]),
        "share of repeated lessons": (learned["repeated"], lessons),
        "lessons with a condition": (learned["with_trigger"], lessons),
        "quotes found in the run": (learned["quotes_found"], learned["quotes"]),
    }
    return [
        {"arm": "rules", "name": name, "n": of, **dict.fromkeys(("mean", "low", "high"), rounded(count / of))}
        for name, (count, of) in shares.items()
        if of
    ]


def _reflection_note(learned: dict[str, Any]) -> str:
    return f"{_write_counts(learned, ' of tau-bench airline and WebShop')} The suite live reports the same for a model."


def _write_counts(learned: dict[str, Any], of: str = "") -> str:
    return (
        f"rules: {learned['runs']} complete runs{of} gave {learned['proposed']} different lessons at no cost; "
        f"{learned['without_lesson']} runs gave none. These are counts, so they have no interval."
    )


def _figure(arm: str, name: str, estimate: Any) -> dict[str, Any]:
    return {"arm": arm, "name": name, **estimate_json(estimate)}


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
