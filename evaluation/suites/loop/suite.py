"""A closed loop over any environment: try, record, reflect, approve, then try new tasks with the lessons learnt."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.template.defaultfilters import pluralize

from evaluation.arms import EVALUATION, ArmQuestion, SuiteArm, ask, find_arm, find_arms
from evaluation.environments.base import Environment, Task, TryResult
from evaluation.errors import EvaluationError, LabelIndexed
from evaluation.ledger import CAP_REACHED
from evaluation.suites.base import About, Options, Progress, Suite, UnitResult
from evaluation.suites.loop import store
from evaluation.suites.loop.store import (
    Learner,
    LearningCounts,
    approve_all,
    propose_shuffled,
    read_lessons,
)
from evaluation.suites.loop.summary import summarise_loop
from evaluation.suites.timing import milliseconds_since, percentiles, time_block, time_embedding
from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.question import Question
from reflection.llm.base import ProviderError
from reflection.reflectors.reflections import ReflectorFactory

ARMS = ("none", "random:{k}", "hybrid:{k}", "all")
# In this order: the last two change the contents of the clean store
STORES = ("clean", "shuffled", "flipped", "noreward", "iterative", "poison-unapproved", "poison-approved")
Try = tuple[Task, SuiteArm, int]  # the number of the trial, from 0
TryKey = tuple[str, str, int]  # the same by id of the task and name of the arm


class ClosedLoop(Suite):
    """One unit per seed. Subclasses name the environment, and a reflector if it is not the configured one."""

    default_arms: tuple[str, ...] = ARMS
    flips_advice = False  # the arm "flipped" turns the lessons round, rather than the outcomes they are learnt from

    def describe(self, options: Options) -> About:
        """Return what is printed with the results."""
        return self.about

    def check(self, options: Options) -> None:
        """Check that the suite can run here.

        Raises:
            EvaluationError: it cannot; the message says what to do.
        """

    def open(self, options: Options) -> Environment:
        """Return the environment. Called in the sandbox process."""
        raise NotImplementedError

    def make_reflector(self, options: Options) -> ReflectorFactory | None:
        """Return the suite's own reflector, or None for the configured one."""
        return None

    def count_trials(self, options: Options) -> int:
        return options.trials

    def units(self, options: Options) -> list[str]:
        self.check(options)
        return [f"seed-{options.seed + number}" for number in range(options.seeds)]

    def arms(self, options: Options) -> list[SuiteArm]:
        arms = find_arms(options.arms or [name.format(k=options.k) for name in self.default_arms], k=options.k)
        for arm in arms:
            if arm.cheats or arm.store not in STORES:
                raise EvaluationError(f"The suite {self.about.name} has no arm {arm.name}.")
        return arms

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        return _SeedRun(self, unit, options, progress).run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        return summarise_loop(self.describe(options), units, self.arms(options), options)


def refuse_shared_tasks(experience: Sequence[Task], tests: Sequence[Task]) -> None:
    """Refuse splits that overlap.

    Raises:
        LabelIndexed: a task is in both splits.
        EvaluationError: a split is empty.
    """
    if not experience or not tests:
        raise EvaluationError("Both splits need tasks: there are none to learn from, or none to test on.")
    experience_ids = {task.id for task in experience}
    texts = {task.text.strip() for task in experience}
    shared = [task.id for task in tests if task.id in experience_ids or task.text.strip() in texts]
    if shared:
        raise LabelIndexed(
            f"The splits share {len(shared):,} task{pluralize(len(shared))}, for example {shared[0]!r}, so the figures "
            "would mean nothing. Make the splits disjoint."
        )


class _SeedRun:
    """One seed, from an empty store to the last try."""

    def __init__(self, suite: ClosedLoop, unit: str, options: Options, progress: Progress) -> None:
        self.suite, self.unit, self.options, self.progress = suite, unit, options, progress
        self.environment = suite.open(options)
        seed = int(unit.rpartition("-")[2])
        self.experience = list(self.environment.tasks("source", seed=seed))[: options.experience]
        self.tests = list(self.environment.tasks("test", seed=seed))[: options.limit]
        refuse_shared_tasks(self.experience, self.tests)
        self.learner = Learner(agent=self.environment.name, make_reflector=suite.make_reflector(options))
        self.counts = LearningCounts()
        # Tries that a limit prevented.
        self.cut = 0
        self.projects: dict[str, Project] = {}
        self.retrieve_ms: dict[str, list[float]] = {}
        self.block_ms: list[float] = []

    def run(self, arms: list[SuiteArm]) -> UnitResult:
        started = time.perf_counter()
        nothing = find_arm("none", k=self.options.k)
        first = {(task.id, nothing.name, 0): "" for task in self.experience}
        runs = self._play([(task, nothing, 0) for task in self.experience], first, "first tries")
        tried = [(task, runs[task.id, nothing.name, 0]) for task in self.experience if (task.id, "none", 0) in runs]
        # A try without a run taught nothing; one that failed later may still teach.
        lost = [(task, run) for task, run in tried if run.error and not run.steps]
        if tried and len(lost) == len(tried):
            raise EvaluationError(
                f"The agent gave no run in any of its {len(tried)} first tries, so there is nothing to learn from. The "
                f"first, of task {lost[0][0].id}: {lost[0][1].error}."
            )
        pairs = [(task, run) for task, run in tried if run.steps or not run.error]
        clean = self._make_project("clean")
        self._learn(clean, pairs, self.counts)
        self.counts.approved += len(approve_all(clean))
        contexts: dict[TryKey, str] = {}
        figures: dict[str, dict[str, Any]] = {arm.name: {"tokens": [], "lessons": []} for arm in arms}
        for name in STORES:
            asked = [arm for arm in arms if arm.store == name]
            project = self._prepare(name, pairs) if asked else None
            for arm in asked:
                assert project is not None
                for task in self.tests:
                    answer = self._ask(arm, project, task)
                    figures[arm.name]["tokens"].append(answer.tokens)
                    # Counted in the block itself: what does not fit the budget was not given.
                    figures[arm.name]["lessons"].append(answer.context.count("[H-") + answer.context.count("[R-"))
                    for trial in range(self.suite.count_trials(self.options)):
                        contexts[task.id, arm.name, trial] = answer.context
        trials = range(self.suite.count_trials(self.options))
        tries = [(task, arm, trial) for task in self.tests for arm in arms for trial in trials]
        played = self._play(tries, contexts, "tests")
        # Only tasks that every arm played: arms are compared in pairs, task by task.
        whole = [task for task in self.tests if all((task.id, arm.name, n) in played for arm in arms for n in trials)]
        for arm in arms:
            figures[arm.name]["tries"] = {
                task.id: [_as_json(played[task.id, arm.name, n]) for n in trials] for task in whole
            }
        return {
            "tasks": [task.id for task in whole],
            "families": {task.id: task.family for task in whole if task.family},
            "arms": figures,
            "learned": self.counts.as_json(),
            "cut": self.cut,
            "lost": [[task.id, run.error] for task, run in lost],
            "timing": {
                "seconds": round(time.perf_counter() - started, 1),
                "embed_ms": percentiles(time_embedding([task.text for task in self.tests])),
                "block_ms": percentiles(self.block_ms),
                "retrieve_ms": {name: percentiles(spent) for name, spent in self.retrieve_ms.items()},
            },
        }

    def _prepare(self, name: str, pairs: list[tuple[Task, TryResult]]) -> Project:
        """Fill a store and return its project."""
        clean = self.projects["clean"]
        match name:
            case "flipped" if self.suite.flips_advice:
                project = self._make_project(name)
                store.propose_flipped(project, read_lessons(clean))
                approve_all(project)
                return project
            case "noreward" | "flipped":
                project = self._make_project(name)
                judge = store.err_sometimes if name == "noreward" else store.tell_opposite
                self._learn(project, pairs, LearningCounts(), judge=judge)
                approve_all(project)
                return project
            case "iterative":
                return self._learn_guided(self._make_project(name))
            case "shuffled":
                project = self._make_project(name)
                propose_shuffled(project, read_lessons(clean), seed=self.unit)
                approve_all(project)
                return project
            case "poison-unapproved":
                propose_shuffled(clean, read_lessons(clean), seed=self.unit)
            case "poison-approved":
                # The arm before may have proposed them already, where it was asked for.
                if not Heuristic.objects.filter(project=clean, status=Heuristic.Status.PROPOSED).exists():
                    propose_shuffled(clean, read_lessons(clean), seed=self.unit)
                for heuristic in store.find_learnt(clean).filter(status=Heuristic.Status.APPROVED):
                    retire_heuristic(heuristic, by=EVALUATION)
                approve_all(clean)
        return clean

    def _learn(
        self,
        project: Project,
        pairs: Sequence[tuple[Task, TryResult]],
        counts: LearningCounts,
        *,
        judge: store.Judge = store.tell_truth,
    ) -> None:
        self.learner.learn(
            project,
            pairs,
            counts,
            judge=judge,
            progress=lambda done: self.progress(f"{self.unit}, learning", done, len(pairs)),
        )

    def _learn_guided(self, project: Project) -> Project:
        """Try each task with the lessons of the tasks before it (iterative ERL)."""
        for number, task in enumerate(self.experience, 1):
            given = retrieve(
                Question(
                    project=project,
                    task=task.text,
                    task_id=task.family,
                    top_k=self.options.k,
                    record=False,
                    by=EVALUATION,
                )
            )
            arm = find_arm(f"hybrid:{self.options.k}", k=self.options.k)
            played = self._play([(task, arm, 0)], {(task.id, arm.name, 0): given.context}, "")
            if played:
                self._learn(project, [(task, played[task.id, arm.name, 0])], LearningCounts())
                approve_all(project)
            self.progress(f"{self.unit}, guided tries", number, len(self.experience))
        return project

    def _ask(self, arm: SuiteArm, project: Project, task: Task) -> RetrievalAnswer:
        started = time.perf_counter()
        question = ArmQuestion(
            task=task.text,
            task_id=task.family,
            seed=self.unit,
            draw=task.id,
            budget_tokens=self.options.budget_tokens,
            pool=max(self.counts.approved, 1),
        )
        answer = ask(arm, project, question)
        self.retrieve_ms.setdefault(arm.name, []).append(milliseconds_since(started))
        if answer.context:
            self.block_ms.append(time_block(answer.items, budget_tokens=self.options.budget_tokens))
        return answer

    def _play(self, tries: Sequence[Try], contexts: dict[TryKey, str], title: str) -> dict[TryKey, TryResult]:
        """Run tries concurrently and return those that finished; once a limit is reached, no more are started.

        Two tries with the same lessons are both run: chance is part of the figure.
        """
        with ThreadPoolExecutor(max(1, self.options.concurrency)) as pool:
            futures: list[tuple[TryKey, Future[TryResult]]] = [
                (key, pool.submit(self.environment.run, task, lessons=contexts[key], trial=key[2]))
                for task, arm, trial in tries
                for key in [(task.id, arm.name, trial)]
            ]
            played = {}
            for number, (key, future) in enumerate(futures, 1):
                try:
                    played[key] = future.result()
                except ProviderError as error:
                    # The limit was set by a person and is no failure; anything else is one.
                    if error.code != CAP_REACHED:
                        raise
                    self.cut += 1
                if title:
                    self.progress(f"{self.unit}, {title}", number, len(futures))
        return played

    def _make_project(self, name: str) -> Project:
        project = Project.objects.create(slug=f"{self.unit}-{name}", name=f"{self.unit}, {name}")
        self.projects[name] = project
        return project


def _as_json(played: TryResult) -> dict[str, Any]:
    names = ("success", "score", "turns", "calls", "input_tokens", "output_tokens", "cost_usd", "error")
    return {name: getattr(played, name) for name in names}
