"""The closed loop: an agent learns from its own tries through the product, then gets requests it has not seen."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from evaluation.arms import ArmQuestion, SuiteArm, ask, find_arm, find_arms
from evaluation.environments.base import Task, TryResult
from evaluation.errors import EvaluationError
from evaluation.suites.base import About, ArmFigures, Options, Progress, Suite, UnitResult
from evaluation.suites.loop.store import add_background
from evaluation.suites.staging import (
    MOST_UNITS,
    STAGED,
    USELESS,
    Traffic,
    make_stages,
    stage_releases,
    summarise_stages,
)
from evaluation.suites.timing import milliseconds_since, percentiles, time_block, time_embedding
from evaluation.suites.toolchoice.agent import AgentVectors, ToolAgent
from evaluation.suites.toolchoice.data import Request, load, read_background, sample, shuffle
from evaluation.suites.toolchoice.reflector import get_tag
from evaluation.suites.toolchoice.store import (
    LearningRecord,
    approve_all,
    approve_shuffled,
    err_sometimes,
    flip_all,
    learn,
    predict_lesson_texts,
    propose_wrong,
    replace_with,
)
from evaluation.suites.toolchoice.summary import summarise_units
from evaluation.suites.vector_cache import prefetch_vectors
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer

TESTS, EXPERIENCE = 900, 600  # of 1,200 and 800; all of them take four minutes
CURVE = (0, 50, 200)
DEFAULT_ARMS = (
    "none", "random:{k}", "all", "hybrid:1", "hybrid:{k}", "oracle", "poison-unapproved", "poison-approved",
)  # fmt: skip
BATCH_SIZE = 100
# Measured on two idle processors, to say in advance how long a run takes
START_SECONDS, SECONDS_PER_TEXT, SECONDS_PER_RUN, SECONDS_PER_ANSWER = 20.0, 0.01, 0.03, 0.01
SECONDS_PER_UNIT = 0.05  # of a staged release
THREADS = 2  # one waits for the database while the other computes
# In this order: the last two change the contents of the clean store
STORES = ("clean", "shuffled", "flipped", "noreward", "iterative", "poison-unapproved", "poison-approved")


class ToolChoice(Suite):
    """One unit per seed; a seed is an order of the earlier tasks."""

    about = About(
        name="toolchoice",
        title="Tool choice on real requests: do lessons from earlier requests help with new ones?",
        data="MetaTool: up to 1,200 new and 800 earlier requests, 199 tools (HowieHwong/MetaTool at 35e81bb)",
        licence="MIT",
        splits="No request is in both splits. The agent is told accepted or rejected, never the right answer.",
        seeds="A seed is an order of the earlier requests; a task's figure is its mean over the seeds.",
        proves=(
            "This shows whether recording, reflecting, approving and retrieving together make an agent choose better "
            "on real requests it has not seen. It does not show how much a language model gains: this agent is a "
            "fixed rule that takes one step per task."
        ),
        reflector="toolchoice, version 1: a deterministic rule that is part of this suite; no language model",
    )

    can_stage = True

    def units(self, options: Options) -> list[str]:
        return [f"seed-{options.seed + number}" for number in range(options.seeds)]

    def arms(self, options: Options) -> list[SuiteArm]:
        names = options.arms or tuple(name.format(k=options.k) for name in DEFAULT_ARMS)
        arms = find_arms(names, k=options.k)
        if any(arm.store == "candidate" for arm in arms):
            raise EvaluationError(
                "The arm candidate is for the suite yours: toolchoice approves every lesson, so it has no candidates."
            )
        return arms

    def foresee_seconds(self, options: Options) -> float:
        tests, experience = map(len, _choose_requests(options))
        if options.stage:
            asked = options.seeds * MOST_UNITS * 2 * SECONDS_PER_UNIT
            return asked + options.seeds * experience * SECONDS_PER_RUN + START_SECONDS
        arms = self.arms(options)
        asked = sum(not arm.ignores_task for arm in arms) + sum(0 < point < experience for point in CURVE)
        stores = len({arm.store for arm in arms} - {"clean"})
        seconds = asked * tests * SECONDS_PER_ANSWER + (1 + stores) * experience * SECONDS_PER_RUN
        return options.seeds * seconds + (tests + experience) * SECONDS_PER_TEXT + START_SECONDS

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        data = load()
        tests, experience = _choose_requests(options)
        vectors = _get_vectors()
        progress(f"{unit}, reading", 0, 1)
        # All texts at once: in batches embedding takes half the time.
        vectors.prefetch([*data.tools.values(), *(request.text for request in (*tests, *experience))])
        agent = ToolAgent(vectors, data.tools)
        prefetch_vectors([*(request.text for request in tests), *predict_lesson_texts(agent, experience)])
        if options.stage:
            return _stage(unit, options, progress, agent=agent, experience=shuffle(experience, seed=unit), tests=tests)
        run = _ToolChoiceRun(
            unit=unit,
            options=options,
            progress=progress,
            agent=agent,
            experience=shuffle(experience, seed=unit),
            tests=tests,
        )
        return run.run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        tests, _ = _choose_requests(options)
        if options.stage:
            return summarise_stages(self.about, units, STAGED)
        return summarise_units(self.about, units, self.arms(options), [request.id for request in tests], options)


def _choose_requests(options: Options) -> tuple[tuple[Request, ...], tuple[Request, ...]]:
    """Return the new and the earlier requests; without a limit three quarters of them, so that a run ends in time."""
    data = load()
    return sample(data.tests, options.limit or TESTS), sample(data.experience, options.experience or EXPERIENCE)


def _stage(
    unit: str,
    options: Options,
    progress: Progress,
    *,
    agent: ToolAgent,
    experience: tuple[Request, ...],
    tests: tuple[Request, ...],
) -> UnitResult:
    """Stage what was learnt from the earlier requests, then lessons about other work, then wrong lessons."""
    project = Project.objects.create(slug=f"{unit}-staged", name=f"{unit}, staged")
    record, right = LearningRecord(), {request.id: request.tool for request in tests}

    def learn_all() -> None:
        for start in range(0, len(experience), 50):
            learn(project, agent, experience[start : start + 50], record)
            progress(f"{unit}, learning", min(start + 50, len(experience)), len(experience))
        approve_all(project, record)

    def attempt(task: Task, lessons: str) -> TryResult:
        return TryResult(success=agent.choose(task.text, context=lessons)[0] == right[task.id])

    def add_useless() -> None:
        add_background(project, read_background()[:USELESS])

    def poison() -> None:
        replace_with(project, propose_wrong(project, agent.tools, seed=unit))

    return stage_releases(
        project,
        make_stages(learn_all, add_useless, poison),
        traffic=Traffic(
            tasks=[Task(id=request.id, text=request.text) for request in tests],
            attempt=attempt,
            options=options,
            seed=unit,
            progress=progress,
        ),
    )


@cache
def _get_vectors() -> AgentVectors:
    return AgentVectors()


@cache
def _get_threads() -> ThreadPoolExecutor:
    """Return threads with a connection each, kept for the life of the process."""
    return ThreadPoolExecutor(THREADS)


class _ToolChoiceRun:
    """One seed, from an empty store to the last arm."""

    def __init__(
        self,
        *,
        unit: str,
        options: Options,
        progress: Progress,
        agent: ToolAgent,
        experience: tuple[Request, ...],
        tests: tuple[Request, ...],
    ) -> None:
        self.unit, self.options, self.progress = unit, options, progress
        self.agent, self.experience, self.tests = agent, experience, tests
        self.record = LearningRecord()
        self.block_ms: list[float] = []
        self.arm_figures: dict[str, ArmFigures] = {}
        self.project = self._make_project("clean")

    def run(self, arms: list[SuiteArm]) -> UnitResult:
        curve = self._learn_along_curve()
        for store in STORES:
            asked = [arm for arm in arms if arm.store == store]
            if asked:
                project = self._prepare(store, arms)
                for arm in asked:
                    self.arm_figures[arm.name] = self._measure(arm, project, f"{self.unit}, {arm.name}")
        return {
            "arms": {
                name: {"success": figures.success, "tokens": figures.tokens, "lessons": figures.lessons}
                for name, figures in self.arm_figures.items()
            },
            "curve": curve,
            "learned": self.record.as_json(),
            "timing": {
                "record_ms": percentiles(self.record.record_ms),
                "reflect_ms": percentiles(self.record.reflect_ms),
                "approve_ms": percentiles(self.record.approve_ms),
                "embed_ms": percentiles(time_embedding([request.text for request in self.tests])),
                "block_ms": percentiles(self.block_ms),
                "retrieve_ms": {name: percentiles(of_arm.retrieve_ms) for name, of_arm in self.arm_figures.items()},
            },
        }

    def _learn_along_curve(self) -> dict[str, list[float]]:
        """Learn from the earlier tasks, testing in between; return the successes by number of earlier tasks."""
        main = find_arm(f"hybrid:{self.options.k}", k=self.options.k)
        curve: dict[str, list[float]] = {}
        done = 0
        for stop in (*(point for point in CURVE if point < len(self.experience)), len(self.experience)):
            for start in range(done, stop, 50):
                learn(self.project, self.agent, self.experience[start : min(start + 50, stop)], self.record)
                self.progress(f"{self.unit}, learning", min(start + 50, stop), len(self.experience))
            done = stop
            approve_all(self.project, self.record)
            # Nothing is approved yet, so every answer is empty.
            if stop == 0:
                none = find_arm("none", k=self.options.k)
                curve["0"] = self._measure(none, self.project, f"{self.unit}, before").success
            elif stop < len(self.experience):
                curve[str(stop)] = self._measure(main, self.project, f"{self.unit}, after {stop} tasks").success
        return curve

    def _prepare(self, store: str, arms: list[SuiteArm]) -> Project:
        """Fill a store and return its project."""
        match store:
            case "shuffled":
                project = self._make_project(store)
                approve_shuffled(project, self.project, seed=self.unit)
                return project
            case "noreward" | "flipped":
                project = self._make_project(store)
                judge = err_sometimes if store == "noreward" else flip_all
                learn(project, self.agent, self.experience, LearningRecord(), judge=judge)
                approve_all(project, LearningRecord())
                return project
            case "iterative":
                project = self._make_project(store)
                learn(project, self.agent, self.experience, LearningRecord(), guided_k=self.options.k)
                return project
            case "poison-unapproved":
                self.wrong = propose_wrong(self.project, self.agent.tools, seed=self.unit)
            case "poison-approved":
                if not any(arm.store == "poison-unapproved" for arm in arms):
                    self.wrong = propose_wrong(self.project, self.agent.tools, seed=self.unit)
                replace_with(self.project, self.wrong)
        return self.project

    def _measure(self, arm: SuiteArm, project: Project, title: str) -> ArmFigures:
        figures = ArmFigures()
        if arm.ignores_task:
            answer, spent_ms = self._ask(arm, project, self.tests[0])
            figures.retrieve_ms.append(spent_ms)
            self._add(figures, self.tests, [answer] * len(self.tests))
            self.progress(title, len(self.tests), len(self.tests))
            return figures
        for start in range(0, len(self.tests), BATCH_SIZE):
            part = self.tests[start : start + BATCH_SIZE]
            # In parallel, but kept in order: the figures of a task belong to its position.
            asked = list(_get_threads().map(lambda request: self._ask(arm, project, request), part))
            self._add(figures, part, [answer for answer, _ in asked])
            figures.retrieve_ms += [spent_ms for _, spent_ms in asked]
            self.progress(title, start + len(part), len(self.tests))
        return figures

    def _ask(self, arm: SuiteArm, project: Project, request: Request) -> tuple[RetrievalAnswer, float]:
        started = time.perf_counter()
        question = ArmQuestion(
            task=request.text,
            seed=self.unit,
            budget_tokens=self.options.budget_tokens,
            pool=len(self.experience),
            # Only the arm that may cheat is told the right answer.
            answer_tag=get_tag(request.tool) if arm.cheats else "",
        )
        answer = ask(arm, project, question)
        spent_ms = milliseconds_since(started)
        if answer.context:
            self.block_ms.append(time_block(answer.items, budget_tokens=self.options.budget_tokens))
        return answer, spent_ms

    def _add(self, figures: ArmFigures, requests: tuple[Request, ...], answers: list[RetrievalAnswer]) -> None:
        for request, answer in zip(requests, answers, strict=True):
            chosen = self.agent.choose(request.text, context=answer.context)
            figures.success.append(float(chosen[0] == request.tool))
            figures.tokens.append(answer.tokens)
            figures.lessons.append(answer.context.count("[H-") + answer.context.count("[R-"))

    def _make_project(self, store: str) -> Project:
        return Project.objects.create(slug=f"{self.unit}-{store}", name=f"{self.unit}, {store}")
