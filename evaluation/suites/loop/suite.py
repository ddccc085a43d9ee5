"""A closed loop over any environment: try, record, reflect, approve, and try other tasks with what was learnt."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from evaluation.arms import EVALUATION, Arm, ask, find_arm, find_arms
from evaluation.environments.base import Environment, Played, Task
from evaluation.errors import EvaluationError, LabelIndexed
from evaluation.ledger import CAP_REACHED
from evaluation.suites.base import Options, Progress, Suite, UnitResult
from evaluation.suites.embedding_memory import time_embedding
from evaluation.suites.loop import store
from evaluation.suites.loop.store import Learned, approve_all, furnish, learn_from, propose_dealt, read_lessons
from evaluation.suites.loop.summary import summarise_loop
from evaluation.suites.timing import EMBEDDED, percentiles, time_block
from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.question import Question
from reflection.llm.base import ProviderError
from reflection.reflectors.reflections import ReflectorFactory

ARMS = ("none", "random:{k}", "hybrid:{k}", "all")
# In this order, since the last ones change what is in the first's store
STORES = ("clean", "shuffled", "flipped", "noreward", "iterative", "poison-unapproved", "poison-approved")
Try = tuple[Task, Arm, int]  # which task, with which lessons, for the how manyth time


class ClosedLoop(Suite):
    """One unit a seed. Subclasses say which environment, and which reflector if it is not the product's."""

    default_arms: tuple[str, ...] = ARMS
    curve: tuple[int, ...] = ()  # after so many earlier tasks the main arm is tested
    same_words_same_task = True  # two tasks with the same text are the same task

    def check(self, options: Options) -> None:
        """Refuse what cannot run here, before anything runs.

        Raises:
            EvaluationError: the message says what to do.
        """

    def open(self, options: Options) -> Environment:
        """Return the environment, in the process that plays it."""
        raise NotImplementedError

    def make_reflector(self, options: Options) -> ReflectorFactory | None:
        """Return the suite's own reflector; None for the one of the settings."""
        return None

    def furnishings(self, options: Options) -> Sequence[HeuristicText]:
        """Return lessons that stand approved in every store beside what is learnt."""
        return ()

    def count_trials(self, options: Options) -> int:
        return options.trials

    def units(self, options: Options) -> list[str]:
        self.check(options)
        return [f"seed-{options.seed + number}" for number in range(options.seeds)]

    def arms(self, options: Options) -> list[Arm]:
        arms = find_arms(options.arms or [name.format(k=options.k) for name in self.default_arms], k=options.k)
        for arm in arms:
            if arm.cheats or arm.store not in STORES:
                raise EvaluationError(f"The suite {self.about.name} has no arm {arm.name}.")
        return arms

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        environment = self.open(options)
        seed = int(unit.rpartition("-")[2])
        experience = list(environment.tasks("source", seed=seed))[: options.experience]
        tests = list(environment.tasks("test", seed=seed))[: options.limit]
        refuse_shared_tasks(experience, tests, by_text=self.same_words_same_task)
        run = _Run(self, environment, unit, options, progress, experience, tests)
        return run.run(self.arms(options))

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        return summarise_loop(self.about, units, self.arms(options), options)


def refuse_shared_tasks(experience: Sequence[Task], tests: Sequence[Task], *, by_text: bool = True) -> None:
    """Refuse to test on what was learnt from.

    Raises:
        LabelIndexed: a task is in both splits.
    """
    if not experience or not tests:
        raise EvaluationError("There are no tasks to learn from, or none to test on. Both splits need some.")
    known = {task.id for task in experience}
    texts = {task.text.strip() for task in experience} if by_text else set()
    shared = [task.id for task in tests if task.id in known or task.text.strip() in texts]
    if shared:
        raise LabelIndexed(
            f"{len(shared)} tasks are both learnt from and tested on, {shared[0]!r} for one: a figure would mean "
            "nothing. Make the splits disjoint."
        )


class _Run:
    """One seed, from an empty store to the last try."""

    def __init__(
        self,
        suite: ClosedLoop,
        environment: Environment,
        unit: str,
        options: Options,
        progress: Progress,
        experience: list[Task],
        tests: list[Task],
    ) -> None:
        self.suite, self.environment, self.unit = suite, environment, unit
        self.options, self.progress, self.experience, self.tests = options, progress, experience, tests
        self.learned = Learned()
        self.furnishings = suite.furnishings(options)
        self.cut = 0  # tries that a limit forbade
        self.projects: dict[str, Project] = {}
        self.retrieve_ms: dict[str, list[float]] = {}
        self.block_ms: list[float] = []

    def run(self, arms: list[Arm]) -> UnitResult:
        started = time.perf_counter()
        nothing = find_arm("none", k=self.options.k)
        first = {(task.id, nothing.name, 0): "" for task in self.experience}
        runs = self._play([(task, nothing, 0) for task in self.experience], first, "first tries")
        pairs = [(task, runs[task.id, nothing.name, 0]) for task in self.experience if (task.id, "none", 0) in runs]
        curve = self._learn_along_curve(pairs)
        answers: dict[tuple[str, str, int], str] = {}
        figures: dict[str, dict[str, Any]] = {arm.name: {"tokens": [], "lessons": []} for arm in arms}
        for name in STORES:
            asked = [arm for arm in arms if arm.store == name]
            project = self._prepare(name, pairs) if asked else None
            for arm in asked:
                assert project is not None
                for task in self.tests:
                    answer = self._ask(arm, project, task)
                    figures[arm.name]["tokens"].append(answer.tokens)
                    figures[arm.name]["lessons"].append(answer.context.count("[H-") + answer.context.count("[R-"))
                    for trial in range(self.suite.count_trials(self.options)):
                        answers[task.id, arm.name, trial] = answer.context
        trials = range(self.suite.count_trials(self.options))
        tries = [(task, arm, trial) for task in self.tests for arm in arms for trial in trials]
        played = self._play(tries, answers, "tests")
        whole = [task for task in self.tests if all((task.id, arm.name, n) in played for arm in arms for n in trials)]
        for arm in arms:
            figures[arm.name]["tries"] = {
                task.id: [_as_json(played[task.id, arm.name, n]) for n in trials] for task in whole
            }
        return {
            "tasks": [task.id for task in whole],
            "families": {task.id: task.family for task in whole if task.family},
            "arms": figures,
            "curve": curve,
            "learned": self.learned.counts(),
            "cut": self.cut,
            "timing": {
                "seconds": round(time.perf_counter() - started, 1),
                "embed_ms": percentiles(time_embedding([task.text for task in self.tests[:EMBEDDED]])),
                "block_ms": percentiles(self.block_ms),
                "retrieve_ms": {name: percentiles(spent) for name, spent in self.retrieve_ms.items()},
            },
        }

    def _learn_along_curve(self, pairs: list[tuple[Task, Played]]) -> dict[str, list[float]]:
        project = self._make_project("clean")
        main = find_arm(f"hybrid:{self.options.k}", k=self.options.k)
        curve: dict[str, list[float]] = {}
        done = 0
        for stop in (*(point for point in self.suite.curve if 0 < point < len(pairs)), len(pairs)):
            self._learn(project, pairs[done:stop], self.learned)
            done = stop
            approve_all(project, self.learned)
            if stop < len(pairs):
                contexts = {(task.id, main.name, 0): self._ask(main, project, task).context for task in self.tests}
                played = self._play([(task, main, 0) for task in self.tests], contexts, f"after {stop} tasks")
                curve[str(stop)] = [float(run.success) for run in played.values()]
        return curve

    def _prepare(self, name: str, pairs: list[tuple[Task, Played]]) -> Project:
        """Return the project that holds a store, having filled it."""
        clean = self.projects["clean"]
        match name:
            case "noreward" | "flipped":
                project = self._make_project(name)
                tell = store.err_sometimes if name == "noreward" else store.tell_opposite
                self._learn(project, pairs, Learned(), tell=tell)
                approve_all(project, Learned())
                return project
            case "iterative":
                return self._learn_guided(self._make_project(name))
            case "shuffled":
                project = self._make_project(name)
                propose_dealt(project, read_lessons(clean), seed=self.unit)
                approve_all(project, Learned())
                return project
            case "poison-unapproved":
                propose_dealt(clean, read_lessons(clean), seed=self.unit)
            case "poison-approved":
                if not Heuristic.objects.filter(project=clean, status=Heuristic.Status.PROPOSED).exists():
                    propose_dealt(clean, read_lessons(clean), seed=self.unit)
                for heuristic in store.find_learnt(clean).filter(status=Heuristic.Status.APPROVED):
                    retire_heuristic(heuristic, by=EVALUATION)
                approve_all(clean, Learned())
        return clean

    def _learn(self, project: Project, pairs: Sequence[tuple[Task, Played]], learned: Learned, **options: Any) -> None:
        learn_from(
            project,
            pairs,
            learned,
            agent=self.environment.name,
            make_reflector=self.suite.make_reflector(self.options),
            progress=lambda done: self.progress(f"{self.unit}, learning", done, len(pairs)),
            **options,
        )

    def _learn_guided(self, project: Project) -> Project:
        """Try each task with what the ones before it have taught (iterative ERL)."""
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
                self._learn(project, [(task, played[task.id, arm.name, 0])], Learned())
                approve_all(project, Learned())
            self.progress(f"{self.unit}, guided tries", number, len(self.experience))
        return project

    def _ask(self, arm: Arm, project: Project, task: Task) -> RetrievalAnswer:
        started = time.perf_counter()
        answer = ask(
            arm,
            project,
            task=task.text,
            task_id=task.family,
            seed=self.unit,
            draw=task.id,
            budget_tokens=self.options.budget_tokens,
            pool=max(self.learned.approved + len(self.furnishings), 1),
        )
        self.retrieve_ms.setdefault(arm.name, []).append((time.perf_counter() - started) * 1000)
        if answer.context:
            self.block_ms.append(time_block(answer.items, budget_tokens=self.options.budget_tokens))
        return answer

    def _play(
        self, tries: Sequence[Try], contexts: dict[tuple[str, str, int], str], title: str
    ) -> dict[tuple[str, str, int], Played]:
        """Let the agent try, several tries at once; return those that came to an end.

        Where a limit is reached, no more are begun. Tries with the same lessons as one that is there are not repeated
        for arms that were answered with nothing: they are other tries all the same, and chance is part of the figure.
        """
        with ThreadPoolExecutor(max(1, self.options.concurrency)) as pool:
            begun: list[tuple[tuple[str, str, int], Future[Played]]] = [
                ((task.id, arm.name, trial), pool.submit(self._try, task, contexts[task.id, arm.name, trial], trial))
                for task, arm, trial in tries
            ]
            played = {}
            for number, (key, future) in enumerate(begun, 1):
                try:
                    played[key] = future.result()
                except ProviderError as error:
                    if error.code != CAP_REACHED:
                        raise
                    self.cut += 1
                if title:
                    self.progress(f"{self.unit}, {title}", number, len(begun))
        return played

    def _try(self, task: Task, lessons: str, trial: int) -> Played:
        return self.environment.run(task, lessons=lessons, trial=trial)

    def _make_project(self, name: str) -> Project:
        project = Project.objects.create(slug=f"{self.unit}-{name}", name=f"{self.unit}, {name}")
        self.projects[name] = project
        furnish(
            project,
            self.furnishings,
            progress=lambda done: self.progress(f"{self.unit}, furnishing", done, len(self.furnishings)),
        )
        return project


def _as_json(played: Played) -> dict[str, Any]:
    names = ("success", "score", "turns", "calls", "input_tokens", "output_tokens", "cost_usd", "error")
    return {name: getattr(played, name) for name in names}
