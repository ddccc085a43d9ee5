"""Your own runs: lessons from the older ones, asked for with the newer ones. Or your own tasks and agent."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.arms import EVALUATION, ArmQuestion, SuiteArm, ask, find_arms
from evaluation.environments.base import Environment, load_environment
from evaluation.environments.command import CommandAgent, read_command
from evaluation.errors import EvaluationError
from evaluation.reports.figures import estimate_json, power_note, rounded
from evaluation.reports.statistics import Estimate, bootstrap_mean, estimate_share, paired_difference
from evaluation.suites.base import About, Options, Progress, UnitResult
from evaluation.suites.loop.store import approve_all, approve_unread, record_and_reflect
from evaluation.suites.loop.suite import ClosedLoop
from evaluation.suites.timing import milliseconds_since, percentiles
from evaluation.suites.yours.collection import collect_project
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.projects.models import Project
from reflection.llm.registry import find_config
from reflection.reflectors.rules import RulesReflector

LEARNT_SHARE = 0.7  # share of the runs, oldest first, to learn from; the rest are tested on
MIN_RUNS = 10
RECORDED_ARMS = ("none", "random:{k}", "lexical:{k}", "embedding:{k}", "hybrid:{k}", "approved", "candidate")
UNIT = "recorded"
_AS_CLASS = {
    "splits": "the class draws the line",
    "seeds": "The class is given each seed and may make other tasks of it.",
}
_AS_FILE = {
    "source": "the file of --tasks",
    "splits": "the file says which, or else each seed draws one half to learn from",
    "seeds": "A seed draws the halves where the file names no splits.",
}


class Yours(ClosedLoop):
    """One unit of recorded runs; with --environment or --agent a closed loop with one unit per seed."""

    about = About(
        name="yours",
        title="Your own runs: would earlier lessons have been available for later tasks?",
        data="The project's recorded runs, or the tasks of --environment",
        licence="your own",
        splits="By time: lessons come from the older 70% of the runs, tasks from the newer 30%.",
        seeds="The seed selects random lessons and the bootstrap samples of the intervals.",
        proves=(
            "This shows how often lessons would have been available, and for which tasks. A recorded run cannot react "
            "to a lesson, so no uplift is claimed. With --environment or --agent your agent does react, and uplift is "
            "measured."
        ),
        reflector="rules",
    )
    about_agent = About(
        name="yours",
        title="Your own tasks: does your agent do better with lessons?",
        data="The tasks of {source}",
        licence="your own",
        splits="The tasks to learn from and the tasks to test on are different ones; {splits}.",
        seeds="{seeds} The first seed also selects the bootstrap samples of the intervals.",
        proves=(
            "This shows what lessons from your agent's own earlier tasks are worth to it on these new tasks. It says "
            "nothing about another agent, or about tasks of another kind."
        ),
        reflector="the configured reflector",
    )
    default_arms = ("none", "random:{k}", "hybrid:{k}", "all")

    def describe(self, options: Options) -> About:
        if not _has_agent(options):
            return self.about
        description = _AS_FILE if options.agent else _AS_CLASS | {"source": options.environment}
        words = {name: getattr(self.about_agent, name).format(**description) for name in ("data", "splits", "seeds")}
        return replace(self.about_agent, **words)

    def asks_model(self, options: Options) -> bool:
        return _has_agent(options) and find_config() is not None

    def check(self, options: Options) -> None:
        if bool(options.agent) != bool(options.tasks):
            raise EvaluationError("Name both: --agent, the command of your agent, and --tasks, the file of its tasks.")
        if options.agent and options.environment:
            raise EvaluationError("Name either --environment, a class, or --agent, a command, not both.")
        if _has_agent(options):
            self.open(options)

    def units(self, options: Options) -> list[str]:
        self.check(options)
        return super().units(options) if _has_agent(options) else [UNIT]

    def arms(self, options: Options) -> list[SuiteArm]:
        if _has_agent(options):
            return super().arms(options)
        names = options.arms or tuple(name.format(k=options.k) for name in RECORDED_ARMS)
        arms = find_arms((name for name in names if name != "approved"), k=options.k)
        if any(arm.cheats or arm.store not in ("clean", "candidate") for arm in arms):
            raise EvaluationError(
                "The arms for recorded runs are " + ", ".join(RECORDED_ARMS).format(k=options.k) + "."
            )
        return arms

    def open(self, options: Options) -> Environment:
        if options.environment:
            return load_environment(options.environment)
        command = read_command(options.agent, folder=Path(options.folder), timeout_seconds=options.agent_timeout)
        return CommandAgent(command, tasks=Path(options.tasks))

    def collect(self, unit: str, options: Options) -> Any:
        return None if _has_agent(options) else collect_project(options.project)

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        if _has_agent(options):
            return super().run_unit(unit, options, progress)
        return _Recorded(options, progress).run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        if _has_agent(options):
            return super().summarise(units, options)
        return _summarise(self.about, units[UNIT], options)


def _has_agent(options: Options) -> bool:
    """Tell whether an agent tries tasks, rather than recorded runs being looked at."""
    return bool(options.environment or options.agent)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Store:
    """A project in the sandbox and, for each of its lessons, the task families it was learnt from."""

    project: Project
    families: dict[str, set[str]]
    lessons: int


class _Recorded:
    """Learns from the older recorded runs of a project and asks for lessons for the newer ones."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options, self.progress = options, progress
        material = options.material
        runs = material["runs"]
        if len(runs) < MIN_RUNS:
            raise EvaluationError(
                f"The project {material['project']} has {len(runs)} runs; this suite needs at least {MIN_RUNS}. "
                "Record more first."
            )
        # By time: lessons may come only from runs that were there before the task.
        split = round(len(runs) * LEARNT_SHARE)
        self.before = runs[:split][-options.experience :] if options.experience else runs[:split]
        self.after = runs[split:][: options.limit]
        self.lessons = material["lessons"]
        self.by_id = {run["id"]: run for run in runs}

    def run(self, arms: list[SuiteArm]) -> UnitResult:
        learnt, counts = self._learn()
        ids = {run["id"] for run in self.before}
        approved = self._import("approved", [lesson for lesson in self.lessons if lesson["served"]], ids, newest=False)
        candidate = self._import("candidate", self.lessons, ids, newest=True)
        figures: dict[str, Any] = {}
        timing: dict[str, Any] = {}
        asked = [(arm.name, arm, candidate if arm.store == "candidate" else learnt) for arm in arms]
        if any(arm.name == "candidate" for arm in arms):
            asked.append(("approved", find_arms([f"hybrid:{self.options.k}"], k=self.options.k)[1], approved))
        for name, arm, store in asked:
            figures[name], timing[name] = self._measure(name, arm, store)
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
            # These members are about the run and no part of it.
            data = {name: value for name, value in run.items() if name not in ("id", "given", "is_control")}
            _, attempt = record_and_reflect(project, data, make_reflector=lambda *, ask: RulesReflector(max_lessons=1))
            counts["proposed"] += attempt.proposed
            counts["repeated"] += attempt.supported
            counts["without_lesson"] += attempt.proposed + attempt.supported == 0
            self.progress("learning from the older runs", number, len(self.before))
        approve_all(project)
        rows = Heuristic.objects.filter(project=project).values_list("id", "evidence__trajectory__task_id")
        families: dict[str, set[str]] = {}
        for heuristic_id, family in rows:
            families.setdefault(str(heuristic_id), set()).add(family or "")
        return _Store(project=project, families=families, lessons=len(families)), dict(counts)

    def _import(self, name: str, lessons: Sequence[dict[str, Any]], known: set[str], *, newest: bool) -> _Store:
        """Approve the lessons that no newer run contributed to, in a new project."""
        project = Project.objects.create(slug=f"yours-{name}", name=name)
        families: dict[str, set[str]] = {}
        for lesson in lessons:
            if not known.issuperset(lesson["runs"]):
                # It was learnt from a run to be tested on.
                continue
            text = lesson["newest"] if newest or lesson["served"] is None else lesson["served"]
            heuristic = propose_heuristic(
                project, text=HeuristicText(**text | {"tags": tuple(text["tags"])}), by=EVALUATION
            )
            approve_unread(heuristic, reason="To see what would change.")
            of_runs = {self.by_id[run]["task_id"] for run in lesson["runs"]}
            families[str(heuristic.pk)] = of_runs | {text["task_id"]}
        count_terms(project.pk)
        return _Store(project=project, families=families, lessons=len(families))

    def _measure(self, name: str, arm: SuiteArm, store: _Store) -> tuple[dict[str, Any], dict[str, float]]:
        rows: dict[str, list[Any]] = {"tokens": [], "lessons": [], "same_family": [], "served": []}
        spent = []
        for number, run in enumerate(self.after, 1):
            started = time.perf_counter()
            question = ArmQuestion(
                task=run["task"],
                task_id=run["task_id"],
                seed=f"{self.options.seed}",
                budget_tokens=self.options.budget_tokens,
                pool=max(store.lessons, 1),
            )
            answer = ask(arm, store.project, question)
            spent.append(milliseconds_since(started))
            injected = [item["id"] for item in answer.items if item["injected"]]
            family = run["task_id"]
            hits = [family in store.families.get(lesson, ()) for lesson in injected]
            rows["tokens"].append(answer.tokens)
            rows["lessons"].append(len(injected))
            # Where there is no family or no lesson there is no share, which is not the same as 0.
            rows["same_family"].append(sum(hits) / len(hits) if family and hits else None)
            # Hashes, not the block: a lesson has another label in another store.
            rows["served"].append([item["content_sha256"] for item in answer.items if item["injected"]])
            self.progress(name, number, len(self.after))
        return rows, percentiles(spent)

    def _find_gaps(self, figures: dict[str, Any]) -> list[list[Any]]:
        """Return the task families with the most later failures for which there was no lesson."""
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
        figures.append(_figure(name, "tasks with a lesson", estimate_share(covered)))
        if failed.any():
            later = [value for value, is_failed in zip(covered, failed, strict=True) if is_failed]
            figures.append(_figure(name, "failed tasks with a lesson", estimate_share(later)))
        same = [value for value in rows["same_family"] if value is not None]
        if same:
            share = bootstrap_mean(same, seed=options.seed, bounds=(0, 1))
            figures.append(_figure(name, "lessons of the same family", share))
        figures.append(_figure(name, "tokens", bootstrap_mean(rows["tokens"], seed=options.seed)))
    if {"candidate", "approved"} <= unit["arms"].keys():
        candidate, approved = unit["arms"]["candidate"], unit["arms"]["approved"]
        changed = [
            float(of_candidate != other)
            for of_candidate, other in zip(candidate["served"], approved["served"], strict=True)
        ]
        figures.append(_figure("candidate", "tasks whose lessons would change", estimate_share(changed)))
        more = paired_difference(per_task["candidate"], per_task["approved"], seed=options.seed, bounds=(-1, 1))
        figures.append({"paired": True} | _figure("candidate", "more tasks with a lesson", more))
        notes.append(
            f"The arm approved has the {unit['stores']['approved']} lessons in use that were learnt before the split. "
            f"candidate adds the proposed ones, {unit['stores']['candidate']} in total, as if they were approved."
        )
    counts = unit["learned"]
    notes.append(
        f"The rules found {counts.get('proposed', 0)} lessons in {unit['before']} older runs; "
        f"{counts.get('repeated', 0)} more were repeats, {counts.get('without_lesson', 0)} runs gave none."
    )
    notes.append(_observe(unit["outcomes"]))
    if unit["gaps"]:
        gaps = ", ".join(f"{family} ({count})" for family, count in unit["gaps"])
        notes.append(f"Failed tasks without any lesson, by family: {gaps}.")
    return {
        **about.as_json(),
        "headline": _write_headline(unit["arms"]),
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


def _figure(arm: str, name: str, estimate: Estimate) -> dict[str, Any]:
    return {"arm": arm, "name": name, **estimate_json(estimate)}


def _write_headline(arms: dict[str, dict[str, list[Any]]]) -> str:
    """Say in a sentence what the figures mean, of the arm that retrieves as agents are served."""
    name = next((arm for arm in arms if arm.startswith("hybrid")), "approved")
    if name not in arms:
        return ""
    covered = estimate_share([float(count > 0) for count in arms[name]["lessons"]])
    by_chance = [rows["lessons"] for arm, rows in arms.items() if arm.startswith("random")]
    if any(sum(count > 0 for count in lessons) >= covered.mean * covered.n for lessons in by_chance):
        meaning = "random lessons reach as many, so this shows only that there are lessons"
    else:
        meaning = "this shows how often a lesson would have been at hand, not whether it would have helped"
    return (
        f"Of {covered.n:,} newer tasks, {covered.mean:.1%} would have been given a lesson ({name}; 95% between "
        f"{covered.low:.1%} and {covered.high:.1%}); {meaning}."
    )


def _observe(outcomes: Sequence[Sequence[Any]]) -> str:
    """Compare how runs with lessons and runs of the control group ended, as recorded."""
    known_outcomes = [pair for pair in outcomes if pair[0] in ("success", "failure")]
    groups = {
        "with lessons": [float(outcome == "success") for outcome, given, _ in known_outcomes if given == "lessons"],
        "in the control group": [
            float(outcome == "success") for outcome, _, is_control in known_outcomes if is_control
        ],
    }
    if any(len(values) < 2 for values in groups.values()):
        return "Too few runs record whether they were given lessons (retrieval_id) to compare their outcomes."
    parts = []
    for name, values in groups.items():
        estimate = estimate_share(values)
        parts.append(f"{name} {estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}], n = {estimate.n}")
    return f"Recorded success, as observed: {'; '.join(parts)}. The groups may differ in more than the lessons."
