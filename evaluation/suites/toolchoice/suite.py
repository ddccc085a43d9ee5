"""The closed loop: an agent learns from its own tries, through the product, and is then asked something new."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from evaluation.arms import Arm, ask, find_arm, find_arms
from evaluation.errors import EvaluationError
from evaluation.suites.base import About, ArmFigures, Options, Progress, Suite, UnitResult
from evaluation.suites.embedding_memory import embed_ahead, time_embedding
from evaluation.suites.timing import EMBEDDED, percentiles, time_block
from evaluation.suites.toolchoice.agent import ToolAgent
from evaluation.suites.toolchoice.data import Request, load, sample, shuffle
from evaluation.suites.toolchoice.reflector import get_tag
from evaluation.suites.toolchoice.similarity import Ears
from evaluation.suites.toolchoice.store import (
    Learned,
    approve_all,
    deal_out,
    err_sometimes,
    flip_all,
    foresee,
    learn,
    propose_wrong,
    replace_with,
)
from evaluation.suites.toolchoice.summary import summarise_units
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer

CURVE = (0, 50, 100, 200, 400)
DEFAULT_ARMS = (
    "none", "random:{k}", "all", "hybrid:1", "hybrid:{k}", "oracle", "poison-unapproved", "poison-approved",
)  # fmt: skip
AT_ONCE = 100
THREADS = 2  # one asks the database while the other thinks
# In this order, since the later ones change what is in the store
STORES = ("clean", "shuffled", "flipped", "noreward", "iterative", "poison-unapproved", "poison-approved")


class ToolChoice(Suite):
    """One unit a seed; a seed is the order in which the earlier tasks come."""

    about = About(
        name="toolchoice",
        title="Tool choice on real requests: does what was learnt help with new requests?",
        data="MetaTool: 1,200 new and 800 earlier requests, 199 tools (HowieHwong/MetaTool at 35e81bb)",
        licence="MIT",
        splits="No request is both learnt from and tested on. The agent hears accepted or rejected, never the truth.",
        seeds="A seed is the order in which the earlier requests come; a task's figure is the mean over the seeds.",
        proves=(
            "It proves that recording, reflecting, approving and retrieving together make an agent choose better on "
            "real requests it has not seen; it cannot prove how much a language model gains, since this agent is a "
            "fixed rule that takes one step a task."
        ),
        reflector="toolchoice, version 1: a deterministic rule of this suite, no language model",
    )

    def units(self, options: Options) -> list[str]:
        return [f"seed-{options.seed + number}" for number in range(options.seeds)]

    def arms(self, options: Options) -> list[Arm]:
        names = options.arms or tuple(name.format(k=options.k) for name in DEFAULT_ARMS)
        arms = find_arms(names, k=options.k)
        if any(arm.store == "candidate" for arm in arms):
            raise EvaluationError(
                "toolchoice approves all it learns, so it has no candidates: the arm candidate is for the suite yours."
            )
        return arms

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        data = load()
        tests = sample(data.tests, options.limit)
        experience = sample(data.experience, options.experience)
        ears = _get_ears()
        progress(f"{unit}, reading", 0, 1)
        ears.listen_ahead([*data.tools.values(), *(request.text for request in (*tests, *experience))])
        agent = ToolAgent(ears, data.tools)
        embed_ahead([*(request.text for request in tests), *foresee(agent, experience, list(data.tools))])
        run = _Run(
            unit=unit,
            options=options,
            progress=progress,
            agent=agent,
            tools=list(data.tools),
            experience=shuffle(experience, seed=unit),
            tests=tests,
        )
        return run.run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        tests = sample(load().tests, options.limit)
        return summarise_units(self.about, units, self.arms(options), [request.id for request in tests], options)


@cache
def _get_ears() -> Ears:
    return Ears()


@cache
def _get_threads() -> ThreadPoolExecutor:
    """Threads with a connection each, for as long as the process lives."""
    return ThreadPoolExecutor(THREADS)


class _Run:
    """One seed, from an empty store to the last arm."""

    def __init__(
        self,
        *,
        unit: str,
        options: Options,
        progress: Progress,
        agent: ToolAgent,
        tools: list[str],
        experience: tuple[Request, ...],
        tests: tuple[Request, ...],
    ) -> None:
        self.unit, self.options, self.progress = unit, options, progress
        self.agent, self.tools, self.experience, self.tests = agent, tools, experience, tests
        self.learned = Learned()
        self.block_ms: list[float] = []
        self.arm_figures: dict[str, ArmFigures] = {}
        self.project = self._make_project("clean")

    def run(self, arms: list[Arm]) -> UnitResult:
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
            "learned": self.learned.counts(),
            "timing": {
                "record_ms": percentiles(self.learned.record_ms),
                "reflect_ms": percentiles(self.learned.reflect_ms),
                "approve_ms": percentiles(self.learned.approve_ms),
                "embed_ms": percentiles(time_embedding([request.text for request in self.tests[:EMBEDDED]])),
                "block_ms": percentiles(self.block_ms),
                "retrieve_ms": {name: percentiles(each.retrieve_ms) for name, each in self.arm_figures.items()},
            },
        }

    def _learn_along_curve(self) -> dict[str, list[float]]:
        """Learn from the earlier tasks and test in between; return the successes by number of earlier tasks."""
        main = find_arm(f"hybrid:{self.options.k}", k=self.options.k)
        curve: dict[str, list[float]] = {}
        done = 0
        for stop in (*(point for point in CURVE if point < len(self.experience)), len(self.experience)):
            for start in range(done, stop, 50):
                learn(self.project, self.agent, self.experience[start : min(start + 50, stop)], self.learned)
                self.progress(f"{self.unit}, learning", min(start + 50, stop), len(self.experience))
            done = stop
            approve_all(self.project, self.learned)
            if stop == 0:  # nothing is approved: every answer is empty
                nothing = find_arm("none", k=self.options.k)
                curve["0"] = self._measure(nothing, self.project, f"{self.unit}, before").success
            elif stop < len(self.experience):
                curve[str(stop)] = self._measure(main, self.project, f"{self.unit}, after {stop} tasks").success
        return curve

    def _prepare(self, store: str, arms: list[Arm]) -> Project:
        """Return the project that holds a store, having filled it."""
        match store:
            case "shuffled":
                project = self._make_project(store)
                deal_out(project, self.project, seed=self.unit)
                return project
            case "noreward" | "flipped":
                project = self._make_project(store)
                judge = err_sometimes if store == "noreward" else flip_all
                learn(project, self.agent, self.experience, Learned(), judge=judge)
                approve_all(project, Learned())
                return project
            case "iterative":
                project = self._make_project(store)
                learn(project, self.agent, self.experience, Learned(), guided_k=self.options.k)
                return project
            case "poison-unapproved":
                self.wrong = propose_wrong(self.project, self.tools, seed=self.unit)
            case "poison-approved":
                if not any(arm.store == "poison-unapproved" for arm in arms):
                    self.wrong = propose_wrong(self.project, self.tools, seed=self.unit)
                replace_with(self.project, self.wrong)
        return self.project

    def _measure(self, arm: Arm, project: Project, title: str) -> ArmFigures:
        figures = ArmFigures()
        if arm.ignores_task:
            answer, figures.retrieve_ms = self._ask(arm, project, self.tests[0])
            answers = [answer] * len(self.tests)
            self._note(figures, self.tests, answers)
            self.progress(title, len(self.tests), len(self.tests))
            return figures
        for start in range(0, len(self.tests), AT_ONCE):
            part = self.tests[start : start + AT_ONCE]
            asked = list(_get_threads().map(lambda request: self._ask(arm, project, request), part))
            self._note(figures, part, [answer for answer, _ in asked])
            figures.retrieve_ms += [spent for _, milliseconds in asked for spent in milliseconds]
            self.progress(title, start + len(part), len(self.tests))
        return figures

    def _ask(self, arm: Arm, project: Project, request: Request) -> tuple[RetrievalAnswer, list[float]]:
        started = time.perf_counter()
        answer = ask(
            arm,
            project,
            task=request.text,
            seed=self.unit,
            budget_tokens=self.options.budget_tokens,
            pool=len(self.experience),
            answer_tag=get_tag(request.tool) if arm.cheats else "",
        )
        spent = (time.perf_counter() - started) * 1000
        if answer.context:
            self.block_ms.append(time_block(answer.items, budget_tokens=self.options.budget_tokens))
        return answer, [spent]

    def _note(self, figures: ArmFigures, requests: tuple[Request, ...], answers: list[RetrievalAnswer]) -> None:
        for request, answer in zip(requests, answers, strict=True):
            chosen = self.agent.choose(request.text, context=answer.context)
            figures.success.append(float(chosen[0] == request.tool))
            figures.tokens.append(answer.tokens)
            figures.lessons.append(answer.context.count("[H-") + answer.context.count("[R-"))

    def _make_project(self, store: str) -> Project:
        return Project.objects.create(slug=f"{self.unit}-{store}", name=f"{self.unit}, {store}")
