"""Fill a store through the product itself: record, reflect and approve under a named policy."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evaluation.arms import EVALUATION
from evaluation.suites.loop.store import WRONG_JUDGEMENTS, approve_unread, reflect_on
from evaluation.suites.loop.store import approve_all as approve_proposed
from evaluation.suites.timing import milliseconds_since
from evaluation.suites.toolchoice.agent import ACCEPTED, AVOID, REJECTED, USE, ToolAgent
from evaluation.suites.toolchoice.data import Request
from evaluation.suites.toolchoice.reflector import ToolChoiceReflector, write_lesson
from memory.curation.decisions import retire_heuristic
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from reflection.jobs.execution import Outcome

TRIES = 3


@dataclass(kw_only=True, slots=True)
class LearningRecord:
    """What a number of runs led to, and how long each step took."""

    runs: int = 0
    solved_at_once: int = 0
    solved: int = 0
    proposed: int = 0
    supported: int = 0
    without_lesson: int = 0
    approved: int = 0
    record_ms: list[float] = field(default_factory=list)
    reflect_ms: list[float] = field(default_factory=list)
    approve_ms: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, int]:
        names = ("runs", "solved_at_once", "solved", "proposed", "supported", "without_lesson", "approved")
        return {name: getattr(self, name) for name in names}


Judge = Callable[[Request, str, bool], bool]  # takes request, tool and truth, returns what the agent is told


def tell_truth(request: Request, tool: str, right: bool) -> bool:
    return right


def flip_all(request: Request, tool: str, right: bool) -> bool:
    return not right


def err_sometimes(request: Request, tool: str, right: bool) -> bool:
    """Be wrong about 30% of the tries, always the same ones (ERL's self-judgement was right in 70%)."""
    return right != (random.Random(f"{request.id}:{tool}").random() < WRONG_JUDGEMENTS)  # noqa: S311 - repeatable


def predict_lesson_texts(agent: ToolAgent, requests: tuple[Request, ...]) -> list[str]:
    """Return the texts of the lessons these requests will lead to, so that they can be embedded in batches.

    They are known because an agent without lessons always tries the same tools.
    """
    texts = [f"{USE}{tool}." for tool in agent.tools] + [f"{AVOID}{tool}" for tool in agent.tools]
    for request in requests:
        tried = agent.choose(request.text, tries=TRIES)
        right = tried.index(request.tool) if request.tool in tried else len(tried)
        lesson = write_lesson(request.text, use="".join(tried[right : right + 1]), avoid=tried[:right])
        texts += [request.text, lesson.trigger, *filter(None, [lesson.avoid])]
    return texts


def learn(
    project: Project,
    agent: ToolAgent,
    requests: tuple[Request, ...],
    record: LearningRecord,
    *,
    judge: Judge = tell_truth,
    guided_k: int = 0,
) -> None:
    """Let the agent try each request, told only accepted or rejected, and let the product learn from each run.

    Args:
        guided_k: how many of the lessons approved so far each run is given (iterative ERL).
    """
    for request in requests:
        given = None
        if guided_k:
            given = retrieve(
                Question(
                    project=project,
                    task=request.text,
                    top_k=guided_k,
                    budget_tokens=4000,
                    record=False,
                    by=EVALUATION,
                )
            )
        tools = agent.choose(request.text, context=given.context if given else "", tries=TRIES)
        data = _try_tools(request, tools, judge=judge)
        if given:
            data["retrieval_id"] = given.retrieval_id
        _learn_from(project, data, record)
        if guided_k:
            approve_all(project, record)


def approve_all(project: Project, record: LearningRecord) -> None:
    """Approve everything proposed, oldest first."""
    spent = approve_proposed(project)
    record.approve_ms += spent
    record.approved += len(spent)


def propose_wrong(project: Project, tools: list[str], *, seed: str) -> list[Heuristic]:
    """Propose a wrong counterpart to every lesson: one that says to use another tool and avoid the right one."""
    # The next one in a shuffled circle, so that no tool is its own wrong counterpart.
    shuffled = random.Random(seed).sample(tools, len(tools))  # noqa: S311 - repeatable
    wrong = {name: shuffled[(shuffled.index(name) + 1) % len(shuffled)] for name in tools}
    proposed = []
    for heuristic in Heuristic.objects.with_text().filter(project=project).order_by("id"):
        text = heuristic.current_revision.as_text() if heuristic.current_revision else None
        used = _read_tool(text) if text else ""
        if text is not None and used in wrong:
            swapped = write_lesson(text.source_task, use=wrong[used], avoid=[used])
            proposed.append(propose_heuristic(project, text=swapped, by=EVALUATION))
    return proposed


def replace_with(project: Project, wrong: list[Heuristic]) -> None:
    """Approve the wrong lessons and retire all others."""
    for heuristic in Heuristic.objects.filter(project=project, status=Heuristic.Status.APPROVED).order_by("id"):
        retire_heuristic(heuristic, by=EVALUATION)
    for heuristic in wrong:
        approve_unread(heuristic, reason="Approved to measure the harm it does.")
    count_terms(project.pk)


def approve_shuffled(project: Project, source: Project, *, seed: str) -> None:
    """Approve the lessons of `source` in `project`, each with another one's advice: a negative control."""
    texts = [
        revision.as_text()
        for heuristic in Heuristic.objects.with_text().filter(project=source).order_by("id")
        if (revision := heuristic.current_revision)
    ]
    others = random.Random(seed).sample(texts, len(texts))  # noqa: S311 - repeatable
    for text, other in zip(texts, others, strict=True):
        lesson = write_lesson(text.source_task, use=_read_tool(other), avoid=[])
        heuristic = propose_heuristic(project, text=lesson, by=EVALUATION)
        approve_unread(heuristic, reason="A negative control.")
    count_terms(project.pk)


def _read_tool(text: HeuristicText) -> str:
    return text.guideline.removeprefix(USE).rstrip(".") if text.guideline.startswith(USE) else ""


def _try_tools(request: Request, tools: list[str], *, judge: Judge) -> dict[str, Any]:
    steps = []
    verdicts = []
    for tool in tools:
        accepted = judge(request, tool, tool == request.tool)
        verdicts.append(accepted)
        observation = ACCEPTED if accepted else REJECTED
        steps.append({"action": {"name": "choose_tool", "arguments": {"tool": tool}}, "observation": observation})
        if accepted:
            break
    return {
        "task": request.text,
        "steps": steps,
        "outcome": "success" if verdicts[0] else "failure",
        "score": 1 / len(verdicts) if verdicts[-1] else 0.0,
        "outcome_source": "environment",
        "agent": "toolchoice",
        "external_id": request.id,
    }


def _learn_from(project: Project, data: dict[str, Any], record: LearningRecord) -> None:
    started = time.perf_counter()
    trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
    record.record_ms.append(milliseconds_since(started))
    started = time.perf_counter()
    reflection, attempt = reflect_on(trajectory, make_reflector=lambda *, ask: ToolChoiceReflector())
    record.reflect_ms.append(milliseconds_since(started))
    if attempt.outcome != Outcome.DONE:
        reflection.refresh_from_db()
        raise RuntimeError(f"A reflection did not finish ({attempt.outcome}): {reflection.last_error}")
    record.runs += 1
    record.solved_at_once += data["outcome"] == "success"
    record.solved += data["score"] > 0
    record.proposed += attempt.proposed
    record.supported += attempt.supported
    record.without_lesson += attempt.proposed + attempt.supported == 0
