"""How a store comes about: through the product's own record, reflect and approve, with a policy that has a name."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evaluation.arms import EVALUATION
from evaluation.suites.toolchoice.agent import ACCEPTED, AVOID, REJECTED, USE, ToolAgent
from evaluation.suites.toolchoice.data import Request
from evaluation.suites.toolchoice.reflector import ToolChoiceReflector, write_lesson
from memory.curation.decisions import approve_heuristic, retire_heuristic
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import count_terms
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from reflection.jobs.execution import Outcome
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection

TRIES = 3
WRONG_JUDGEMENTS = 0.3
_OWNER = "evaluation"


@dataclass(kw_only=True, slots=True)
class Learned:
    """What came of a number of runs."""

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

    def counts(self) -> dict[str, int]:
        names = ("runs", "solved_at_once", "solved", "proposed", "supported", "without_lesson", "approved")
        return {name: getattr(self, name) for name in names}


Judge = Callable[[Request, str, bool], bool]  # request, tool, whether it was right → what the agent hears


def tell_truth(request: Request, tool: str, right: bool) -> bool:
    return right


def flip_all(request: Request, tool: str, right: bool) -> bool:
    return not right


def err_sometimes(request: Request, tool: str, right: bool) -> bool:
    """Be wrong about 30 % of the tries, and always about the same ones (ERL's self-judgement was right in 70 %)."""
    return right != (random.Random(f"{request.id}:{tool}").random() < WRONG_JUDGEMENTS)  # noqa: S311 - repeatable


def foresee(agent: ToolAgent, requests: tuple[Request, ...], tools: list[str]) -> list[str]:
    """Return what lessons about these requests will say, so that it can be embedded at once.

    An agent without lessons always tries the same tools. What it tries with lessons is embedded when it comes.
    """
    texts = [f"{USE}{tool}." for tool in tools] + [f"{AVOID}{tool}" for tool in tools]
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
    learned: Learned,
    *,
    judge: Judge = tell_truth,
    guided_k: int = 0,
    budget_tokens: int = 4000,
) -> None:
    """Let the agent try each request, hearing only accepted or rejected, and let the product learn from each run.

    Args:
        guided_k: give each run that many lessons of what is approved so far (iterative ERL); 0 gives none.
    """
    for request in requests:
        given = None
        if guided_k:
            given = retrieve(
                Question(
                    project=project,
                    task=request.text,
                    top_k=guided_k,
                    budget_tokens=budget_tokens,
                    record=False,
                    by=EVALUATION,
                )
            )
        tools = agent.choose(request.text, context=given.context if given else "", tries=TRIES)
        data = _try_tools(request, tools, judge=judge)
        if given:
            data["retrieval_id"] = given.retrieval_id
        _learn_from(project, data, learned)
        if guided_k:
            approve_all(project, learned)


def approve_all(project: Project, learned: Learned) -> None:
    """Approve what is proposed, oldest first. The policy is named in every review: nobody read these lessons."""
    for heuristic in Heuristic.objects.filter(project=project, status=Heuristic.Status.PROPOSED).order_by("id"):
        started = time.perf_counter()
        approve_heuristic(heuristic, by=EVALUATION, reason="Approved unread, in an evaluation's sandbox.")
        learned.approve_ms.append(_since(started))
        learned.approved += 1
    count_terms(project.pk)  # the sweeper does it in a running system


def propose_wrong(project: Project, tools: list[str], *, seed: str) -> list[Heuristic]:
    """Propose, for every lesson there is, one that says to use another tool and to avoid the right one."""
    turned = random.Random(seed).sample(tools, len(tools))  # noqa: S311 - repeatable
    wrong = {name: turned[(turned.index(name) + 1) % len(turned)] for name in tools}
    proposed = []
    for heuristic in Heuristic.objects.with_text().filter(project=project).order_by("id"):
        text = heuristic.current_revision.as_text() if heuristic.current_revision else None
        used = text.guideline.removeprefix("Use the tool ").rstrip(".") if text else ""
        if text is not None and used in wrong:
            swapped = write_lesson(text.source_task, use=wrong[used], avoid=[used])
            proposed.append(propose_heuristic(project, text=swapped, by=EVALUATION))
    return proposed


def replace_with(project: Project, wrong: list[Heuristic]) -> None:
    """Approve the wrong lessons and retire all others."""
    for heuristic in Heuristic.objects.filter(project=project, status=Heuristic.Status.APPROVED).order_by("id"):
        retire_heuristic(heuristic, by=EVALUATION)
    for heuristic in wrong:
        approve_heuristic(heuristic, by=EVALUATION, reason="Approved to measure the harm it does.")
    count_terms(project.pk)


def deal_out(project: Project, source: Project, *, seed: str) -> None:
    """Approve lessons in `project` whose conditions are those of other lessons of `source`: a negative control."""
    texts = [
        revision.as_text()
        for heuristic in Heuristic.objects.with_text().filter(project=source).order_by("id")
        if (revision := heuristic.current_revision)
    ]
    others = random.Random(seed).sample(texts, len(texts))  # noqa: S311 - repeatable
    for text, other in zip(texts, others, strict=True):
        use = other.guideline.removeprefix("Use the tool ").rstrip(".") if other.guideline.startswith("Use ") else ""
        dealt = write_lesson(text.source_task, use=use, avoid=[])
        heuristic = propose_heuristic(project, text=dealt, by=EVALUATION)
        approve_heuristic(heuristic, by=EVALUATION, reason="A negative control.")
    count_terms(project.pk)


def _try_tools(request: Request, tools: list[str], *, judge: Judge) -> dict[str, Any]:
    steps = []
    heard = []
    for tool in tools:
        accepted = judge(request, tool, tool == request.tool)
        heard.append(accepted)
        observation = ACCEPTED if accepted else REJECTED
        steps.append({"action": {"name": "choose_tool", "arguments": {"tool": tool}}, "observation": observation})
        if accepted:
            break
    return {
        "task": request.text,
        "steps": steps,
        "outcome": "success" if heard[0] else "failure",
        "score": 1 / len(heard) if heard[-1] else 0.0,
        "outcome_source": "environment",
        "agent": "toolchoice",
        "external_id": request.id,
    }


def _learn_from(project: Project, data: dict[str, Any], learned: Learned) -> None:
    started = time.perf_counter()
    trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
    learned.record_ms.append(_since(started))
    started = time.perf_counter()
    reflection = Reflection.objects.get(trajectory=trajectory)
    attempt = run_reflection(reflection.pk, owner=_OWNER, make_reflector=lambda *, ask: ToolChoiceReflector())
    learned.reflect_ms.append(_since(started))
    if attempt.outcome != Outcome.DONE:
        reflection.refresh_from_db()
        raise RuntimeError(f"A reflection ended as {attempt.outcome}: {reflection.last_error}")
    learned.runs += 1
    learned.solved_at_once += data["outcome"] == "success"
    learned.solved += data["score"] > 0
    learned.proposed += attempt.proposed
    learned.supported += attempt.supported
    learned.without_lesson += attempt.proposed + attempt.supported == 0


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
