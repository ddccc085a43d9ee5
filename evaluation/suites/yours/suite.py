"""Your own runs, by time: what was learnt before, held against what came after. Or your own tasks and agent."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.arms import EVALUATION, Arm, ask, find_arms
from evaluation.environments.base import Environment, load_environment
from evaluation.errors import EvaluationError
from evaluation.reports.figures import estimate_json, power_note, rounded
from evaluation.reports.statistics import bootstrap_mean, paired_difference
from evaluation.suites.base import About, Options, Progress, UnitResult
from evaluation.suites.loop.suite import ClosedLoop
from evaluation.suites.timing import percentiles
from evaluation.suites.yours.collection import collect_project
from memory.curation.decisions import approve_heuristic
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from reflection.llm.registry import find_config
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.rules import RulesReflector

LEARNT_SHARE = 0.7  # of the runs, the oldest; the others are tested on
FEWEST_RUNS = 10
RECORDED_ARMS = ("none", "random:{k}", "lexical:{k}", "embedding:{k}", "hybrid:{k}", "approved", "candidate")
UNIT = "recorded"


class Yours(ClosedLoop):
    """Without --environment one unit of recorded runs; with it a closed loop, one unit a seed."""

    about = About(
        name="yours",
        title="Your own runs: would what was learnt before have been there for what came after?",
        data="The project's recorded runs, or the tasks of --environment",
        licence="yours",
        splits="By time: the older 70 % of the runs are learnt from, the newer 30 % asked about. Never the other way.",
        seeds="The seed draws random lessons and the resamples of the intervals.",
        proves=(
            "It proves how often lessons would have been at hand, and for which tasks; a recorded run cannot react to "
            "a lesson, so it claims no uplift. With --environment your agent does react, and the uplift is measured."
        ),
        reflector="rules (recorded runs), the configured one (--environment)",
    )
    default_arms = ("none", "random:{k}", "hybrid:{k}", "all")

    def asks_model(self, options: Options) -> bool:
        return bool(options.environment) and find_config() is not None

    def check(self, options: Options) -> None:
        if options.environment:
            load_environment(options.environment)

    def units(self, options: Options) -> list[str]:
        return super().units(options) if options.environment else [UNIT]

    def arms(self, options: Options) -> list[Arm]:
        if options.environment:
            return super().arms(options)
        names = options.arms or tuple(name.format(k=options.k) for name in RECORDED_ARMS)
        arms = find_arms((name for name in names if name != "approved"), k=options.k)
        if any(arm.cheats or arm.store not in ("clean", "candidate") for arm in arms):
            raise EvaluationError("Recorded runs have the arms " + ", ".join(RECORDED_ARMS).format(k=options.k) + ".")
        return arms

    def open(self, options: Options) -> Environment:
        return load_environment(options.environment)

    def collect(self, unit: str, options: Options) -> Any:
        return None if options.environment else collect_project(options.project)

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        if options.environment:
            return super().run_unit(unit, options, progress)
        return _Recorded(options, progress).run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        if options.environment:
            return super().summarise(units, options)
        return _summarise(self.about, units[UNIT], options)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Store:
    """A project in the sandbox and, for each of its lessons, the families it was learnt from."""

    project: Project
    families: dict[str, set[str]]
    lessons: int


class _Recorded:
    """The recorded runs of one project, learnt from and asked about."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options, self.progress = options, progress
        material = options.material
        runs = material["runs"]
        if len(runs) < FEWEST_RUNS:
            raise EvaluationError(
                f"The project {material['project']} has {len(runs)} runs; this needs {FEWEST_RUNS} at least. "
                "Record more first."
            )
        split = round(len(runs) * LEARNT_SHARE)
        self.before = runs[:split][-options.experience :] if options.experience else runs[:split]
        self.after = runs[split:][: options.limit]
        self.lessons = material["lessons"]
        self.by_id = {run["id"]: run for run in runs}

    def run(self, arms: list[Arm]) -> UnitResult:
        learnt, counts = self._learn()
        known = {run["id"] for run in self.before}
        approved = self._import("approved", [each for each in self.lessons if each["served"]], known, newest=False)
        candidate = self._import("candidate", self.lessons, known, newest=True)
        figures: dict[str, Any] = {}
        timing: dict[str, Any] = {}
        asked = [(arm.name, arm, candidate if arm.store == "candidate" else learnt) for arm in arms]
        if any(arm.name == "candidate" for arm in arms):
            asked.append(("approved", find_arms([f"hybrid:{self.options.k}"], k=self.options.k)[1], approved))
        for name, arm, place in asked:
            figures[name], timing[name] = self._measure(name, arm, place)
        return {
            "tasks": [run["id"] for run in self.after],
            "before": len(self.before),
            "learned": counts,
            "stores": {"approved": approved.lessons, "candidate": candidate.lessons},
            "arms": figures,
            "outcomes": [[run["outcome"], run["given"], run["is_control"]] for run in self.before + self.after],
            "failed": [run["outcome"] == "failure" for run in self.after],
            "gaps": self._find_gaps(figures),
            "timing": {"retrieve_ms": timing},
        }

    def _learn(self) -> tuple[_Store, dict[str, int]]:
        project = Project.objects.create(slug="yours-learnt", name="What the older runs teach")
        counts = Counter[str]()
        for number, run in enumerate(self.before, 1):
            data = {name: value for name, value in run.items() if name not in ("id", "given", "is_control")}
            trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
            reflection = Reflection.objects.get(trajectory=trajectory)
            attempt = run_reflection(
                reflection.pk, owner="evaluation", make_reflector=lambda *, ask: RulesReflector(max_lessons=1)
            )
            counts["proposed"] += attempt.proposed
            counts["repeated"] += attempt.supported
            counts["without_lesson"] += attempt.proposed + attempt.supported == 0
            self.progress("learning from the older runs", number, len(self.before))
        for heuristic in Heuristic.objects.filter(project=project, status="proposed").order_by("id"):
            approve_heuristic(heuristic, by=EVALUATION, reason="Approved unread, in an evaluation's sandbox.")
        count_terms(project.pk)
        rows = Heuristic.objects.filter(project=project).values_list("id", "evidence__trajectory__task_id")
        families: dict[str, set[str]] = {}
        for heuristic_id, family in rows:
            families.setdefault(str(heuristic_id), set()).add(family or "")
        return _Store(project=project, families=families, lessons=len(families)), dict(counts)

    def _import(self, name: str, lessons: Sequence[dict[str, Any]], known: set[str], *, newest: bool) -> _Store:
        """Approve, in a project of its own, lessons that were learnt from older runs only, or from none."""
        project = Project.objects.create(slug=f"yours-{name}", name=name)
        families: dict[str, set[str]] = {}
        for lesson in lessons:
            if not known.issuperset(lesson["runs"]):
                continue  # it knows what comes after
            text = lesson["newest"] if newest or lesson["served"] is None else lesson["served"]
            heuristic = propose_heuristic(
                project, text=HeuristicText(**text | {"tags": tuple(text["tags"])}), by=EVALUATION
            )
            approve_heuristic(heuristic, by=EVALUATION, reason="To see what would change.")
            of_runs = {self.by_id[run]["task_id"] for run in lesson["runs"]}
            families[str(heuristic.pk)] = of_runs | {text["task_id"]}
        count_terms(project.pk)
        return _Store(project=project, families=families, lessons=len(families))

    def _measure(self, name: str, arm: Arm, place: _Store) -> tuple[dict[str, Any], dict[str, float]]:
        rows: dict[str, list[Any]] = {"tokens": [], "lessons": [], "same_family": [], "served": []}
        spent = []
        for number, run in enumerate(self.after, 1):
            started = time.perf_counter()
            answer = ask(
                arm,
                place.project,
                task=run["task"],
                task_id=run["task_id"],
                seed=f"{self.options.seed}",
                budget_tokens=self.options.budget_tokens,
                pool=max(place.lessons, 1),
            )
            spent.append((time.perf_counter() - started) * 1000)
            injected = [item["id"] for item in answer.items if item["injected"]]
            family = run["task_id"]
            hits = [family in place.families.get(each, ()) for each in injected]
            rows["tokens"].append(answer.tokens)
            rows["lessons"].append(len(injected))
            rows["same_family"].append(sum(hits) / len(hits) if family and hits else None)
            # Not the block: it names the lessons, and the same lesson has another name in another store.
            rows["served"].append([item["content_sha256"] for item in answer.items if item["injected"]])
            self.progress(name, number, len(self.after))
        return rows, percentiles(spent)

    def _find_gaps(self, figures: dict[str, Any]) -> list[list[Any]]:
        """Return the families whose later runs failed most while there was no lesson for them."""
        lessons = figures.get(f"hybrid:{self.options.k}", {}).get("lessons", [])
        gaps = Counter(
            run["task_id"] or "(no family)"
            for run, count in zip(self.after, lessons, strict=False)
            if not count and run["outcome"] == "failure"
        )
        return [[family, count] for family, count in gaps.most_common(10)]


def _summarise(about: About, unit: UnitResult, options: Options) -> dict[str, Any]:
    figures, notes = [], []
    tasks, per_task = unit["tasks"], {}
    failed = np.array(unit["failed"], dtype=bool)
    for name, rows in unit["arms"].items():
        covered = [float(count > 0) for count in rows["lessons"]]
        per_task[name] = covered
        if name == "none":
            continue
        figures.append(_figure(name, "tasks with a lesson", covered, options))
        if failed.any():
            later = [value for value, is_failed in zip(covered, failed, strict=True) if is_failed]
            figures.append(_figure(name, "failed tasks with a lesson", later, options))
        same = [value for value in rows["same_family"] if value is not None]
        if same:
            figures.append(_figure(name, "lessons of the same family", same, options))
        figures.append(_figure(name, "tokens", rows["tokens"], options))
    if {"candidate", "approved"} <= unit["arms"].keys():
        candidate, approved = unit["arms"]["candidate"], unit["arms"]["approved"]
        changed = [float(one != other) for one, other in zip(candidate["served"], approved["served"], strict=True)]
        figures.append(_figure("candidate", "tasks whose block would change", changed, options))
        more = paired_difference(per_task["candidate"], per_task["approved"], seed=options.seed)
        figures.append({"arm": "candidate", "name": "more tasks with a lesson", "paired": True} | estimate_json(more))
        notes.append(
            f"approved are the {unit['stores']['approved']} lessons in use that were learnt before the split; "
            f"candidate adds what is proposed, {unit['stores']['candidate']} in all, as if all of it were approved."
        )
    told = unit["learned"]
    notes.append(
        f"{unit['before']} older runs gave {told.get('proposed', 0)} lessons by the rules; "
        f"{told.get('repeated', 0)} more were repeats, {told.get('without_lesson', 0)} runs gave none."
    )
    notes += [_observe(unit["outcomes"], options)]
    if unit["gaps"]:
        gaps = ", ".join(f"{family} ({count})" for family, count in unit["gaps"])
        notes.append(f"Failed without any lesson, by family: {gaps}.")
    return {
        **about.as_json(),
        "units": [UNIT],
        "n": len(tasks),
        "arms": [],
        "figures": figures,
        "checks": [],
        "curve": [],
        "notes": notes,
        "power": power_note(len(tasks)),
        "tasks": tasks,
        "per_task": {name: [rounded(value) for value in values] for name, values in per_task.items()},
    }


def _figure(arm: str, name: str, values: Sequence[float], options: Options) -> dict[str, Any]:
    return {"arm": arm, "name": name, **estimate_json(bootstrap_mean(values, seed=options.seed))}


def _observe(outcomes: Sequence[Sequence[Any]], options: Options) -> str:
    """Say how runs with lessons ended beside those of the control group, which is no experiment of ours."""
    known = [each for each in outcomes if each[0] in ("success", "failure")]
    groups = {
        "with lessons": [float(outcome == "success") for outcome, given, _ in known if given == "lessons"],
        "in the control group": [float(outcome == "success") for outcome, _, is_control in known if is_control],
    }
    if any(len(values) < 2 for values in groups.values()):
        return (
            "Too few runs say whether they were given lessons (retrieval_id), so nothing is said about their outcomes."
        )
    parts = []
    for name, values in groups.items():
        estimate = bootstrap_mean(values, seed=options.seed)
        parts.append(f"{name} {estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}], n = {estimate.n}")
    return f"Recorded success, as observed: {'; '.join(parts)}. The groups may differ in more than the lessons."
