"""The arms of an evaluation: ways in which the product chooses lessons, and controls."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation.errors import EvaluationError
from memory.heuristics.models import Evidence
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.context import build_context, count_tokens
from memory.retrieval.question import Filters, Question
from memory.retrieval.safe_text import clean
from memory.runs.models import Trajectory
from reflection.llm.registry import find_config

EVALUATION = Actor.policy("evaluation")
MAX_LESSONS = 1000  # more than fit any token budget
_ARM = re.compile(
    r"^(?P<kind>random|embedding|lexical|hybrid|erl|fewshot)(?::(?P<k>\d{1,9}))?"
    r"(?::(?P<part>failures|successes|guideline-only|record))?$"
)
_PARTS = {"failures": ("mixed", "avoid"), "successes": ("works",)}


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteArm:
    """How an arm asks the product. `store` names the contents of the store it asks."""

    name: str
    mode: str
    about: str
    top_k: int | None = None  # None: all lessons, as many as fit the budget
    polarities: tuple[str, ...] = ()
    store: str = "clean"
    draw: str = ""  # for mode "random": seeds one draw for all tasks; empty draws again for each task
    cheats: bool = False  # knows the answer: an upper bound, not a method
    record: bool = False  # the block begins with the record of earlier runs
    shape: str = "lessons"  # "guidelines": without "avoid" and "not when"; "runs": raw runs instead of lessons

    @property
    def needs_provider(self) -> bool:
        """Whether a language model chooses the lessons."""
        return self.mode == "erl"

    @property
    def ignores_task(self) -> bool:
        """Whether every task gets the same answer, so asking once is enough."""
        return self.mode == "none" or bool(self.draw)


_CONTROLS = (
    SuiteArm(name="none", mode="none", about="no lessons: every uplift is measured against this"),
    SuiteArm(name="all", mode="random", draw="all", about="all lessons in one fixed order, cut to the token budget"),
    SuiteArm(
        name="oracle", mode="hybrid", cheats=True, about="only lessons that name the right answer: an upper bound"
    ),
    SuiteArm(
        name="poison-unapproved",
        mode="hybrid",
        store="poison-unapproved",
        about="wrong lessons proposed but not approved: must equal the same mode without them",
    ),
    SuiteArm(
        name="poison-approved",
        mode="hybrid",
        store="poison-approved",
        about="wrong lessons approved, right ones retired: must do worse, which shows that the suite detects harm",
    ),
    SuiteArm(
        name="noreward", mode="hybrid", store="noreward", about="learnt from a judge that is wrong in 30% of cases"
    ),
    SuiteArm(
        name="iterative", mode="hybrid", store="iterative", about="learnt from runs that were themselves given lessons"
    ),
    SuiteArm(
        name="flipped",
        mode="hybrid",
        store="flipped",
        about="learnt with accepted and rejected swapped, or the advice turned round: must not help",
    ),
    SuiteArm(
        name="shuffled", mode="hybrid", store="shuffled", about="conditions swapped between lessons: must not help"
    ),
    SuiteArm(
        name="candidate",
        mode="hybrid",
        store="candidate",
        about="proposed lessons count as approved: what would change if they were",
    ),
)
_ABOUT = {
    "random": "lessons drawn at random for each task",
    "embedding": "the product's retrieval by meaning alone",
    "lexical": "the product's retrieval by words alone",
    "hybrid": "the product's default retrieval",
    "erl": "lessons ranked by a language model, as in the ERL paper",
    "fewshot": "instead of the retrieved lessons, the raw runs they come from",
}
_WITH = {
    "guideline-only": ", without what to avoid and when not to apply them",
    "record": ", after the record of earlier runs",
}


def find_arm(name: str, *, k: int) -> SuiteArm:
    """Return the arm named, for example, `hybrid:5:failures`; without a number it retrieves `k` lessons.

    Raises:
        EvaluationError: there is no such arm.
    """
    for control in _CONTROLS:
        if control.name == name:
            # Only arms that retrieve have a number of lessons.
            return replace(control, top_k=k) if control.mode == "hybrid" else control
    match = _ARM.match(name)
    if match is None:
        names = ", ".join([*(f"{kind}:N" for kind in _ABOUT), *(candidate.name for candidate in _CONTROLS)])
        raise EvaluationError(
            f"There is no arm {name!r}. The arms are {names}. Retrieving arms can end in :failures, :successes, "
            ":guideline-only or :record, as in hybrid:5:failures."
        )
    if match["k"] and not 1 <= int(match["k"]) <= MAX_LESSONS:
        raise EvaluationError(f"The arm {name!r} is out of range: an arm retrieves 1 to {MAX_LESSONS} lessons.")
    kind, part = match["kind"], match["part"] or ""
    only = f", only lessons from {part}" if part in _PARTS else _WITH.get(part, "")
    return SuiteArm(
        name=name,
        mode="hybrid" if kind == "fewshot" else kind,
        top_k=int(match["k"] or k),
        polarities=_PARTS.get(part, ()),
        record=part == "record",
        shape="runs" if kind == "fewshot" else "guidelines" if part == "guideline-only" else "lessons",
        about=_ABOUT[kind] + only,
    )


def find_arms(names: Iterable[str], *, k: int) -> list[SuiteArm]:
    """Return `none`, which every uplift is measured against, and the named arms, each once.

    Raises:
        EvaluationError: an arm is unknown, or needs a language model and none is configured.
    """
    # `none` in any case: every uplift is measured against it.
    arms = [find_arm(name, k=k) for name in dict.fromkeys(("none", *names))]
    for arm in arms:
        if arm.needs_provider and find_config() is None:
            raise EvaluationError(
                f"The arm {arm.name} uses a language model to choose lessons, but none is configured. Set "
                "ERL_LLM_PROVIDER (docs/language-models.md), or leave the arm out."
            )
    return arms


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmQuestion:
    """One task for which an arm asks for lessons.

    `draw` tells tasks with the same text apart when lessons are drawn at random. `pool` is the number of lessons, for
    arms that take all of them. `answer_tag` is the tag of lessons with the right answer, for arms that cheat.
    """

    task: str
    task_id: str = ""
    seed: str
    draw: str = ""
    budget_tokens: int
    pool: int
    answer_tag: str = ""


def ask(arm: SuiteArm, project: Project, question: ArmQuestion) -> RetrievalAnswer:
    """Ask the product for lessons, as an agent of this arm would."""
    answer = retrieve(
        Question(
            project=project,
            task=question.task,
            task_id=question.task_id,
            top_k=question.pool if arm.top_k is None else arm.top_k,
            mode=arm.mode,
            budget_tokens=question.budget_tokens,
            filters=Filters(polarities=arm.polarities, tags=(question.answer_tag,) if arm.cheats else ()),
            seed=f"{question.seed}:{arm.draw or question.draw or question.task}",
            record=arm.record,
            by=EVALUATION,
        )
    )
    # A figure of the wrong arm would be worse than none.
    if arm.needs_provider and "language model" in answer.degraded:
        raise EvaluationError(
            f"The arm {arm.name} was answered without the language model, so it only repeats hybrid. Leave it out."
        )
    return _shape(answer, arm, project, budget_tokens=question.budget_tokens)


def _shape(answer: RetrievalAnswer, arm: SuiteArm, project: Project, *, budget_tokens: int) -> RetrievalAnswer:
    """Return the answer with its block in the arm's shape."""
    injected = [item for item in answer.items if item["injected"]]
    if arm.shape == "guidelines":
        block = build_context([item | {"avoid": "", "not_when": ""} for item in injected], budget_tokens=budget_tokens)
        return replace(answer, context=block.text, context_sha256=block.sha256, tokens=block.tokens)
    if arm.shape == "runs":
        text, tokens = write_runs(project, [item["id"] for item in injected], budget_tokens=budget_tokens)
        return replace(answer, context=text, tokens=tokens)
    return answer


OPEN, CLOSE = "<earlier-runs>", "</earlier-runs>"
HEADER = "Earlier runs of like tasks, as they went:"
MAX_OBSERVATION_CHARACTERS = 400


def write_runs(project: Project, heuristic_ids: Sequence[str], *, budget_tokens: int) -> tuple[str, int]:
    """Return a block of the runs that lessons were learnt from, in the order of the lessons, and its tokens.

    Each lesson contributes its newest run; repeats and runs that do not fit the budget are left out.
    """
    newest: dict[str, Trajectory] = {}
    evidence = Evidence.objects.filter(project=project, heuristic__in=heuristic_ids).select_related("trajectory")
    for row in evidence.order_by("heuristic_id", "-created_at", "-id"):
        # The rows come with the newest first, so the first of each lesson stays.
        newest.setdefault(str(row.heuristic_id), row.trajectory)
    # Two lessons of one run show it once.
    runs = dict.fromkeys(newest[heuristic_id] for heuristic_id in heuristic_ids if heuristic_id in newest)
    spent = count_tokens(f"{OPEN}\n{HEADER}\n{CLOSE}") + 1
    lines: list[str] = []
    for run in runs:
        line = f"{len(lines) + 1}. {write_run(run)}"
        if spent + count_tokens(line + "\n") <= budget_tokens:
            lines.append(line)
            spent += count_tokens(line + "\n")
    text = "\n".join([OPEN, HEADER, *lines, CLOSE]) if lines else ""
    return text, count_tokens(text)


def write_run(run: Trajectory) -> str:
    """Write a run on one line: its task, each action with its result, and the outcome."""
    steps = []
    for step in run.as_episode().steps:
        action = (
            f"{step.action.name}({json.dumps(step.action.arguments, ensure_ascii=False)})" if step.action else "say"
        )
        result = clean(step.observation or step.error)[:MAX_OBSERVATION_CHARACTERS]
        steps.append(f"{clean(action)} → {result}")
    return f"[R-{str(run.pk).replace('-', '')[-8:]}] {clean(run.task)} ⇒ {'; '.join(steps)} (it ended in {run.outcome})"
