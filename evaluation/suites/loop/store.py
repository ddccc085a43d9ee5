"""From runs to lessons, for any environment: the product's own record, reflect and approve."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Exists, OuterRef

from evaluation.arms import EVALUATION
from evaluation.environments.base import Played, Task
from evaluation.suites.embedding_memory import embed_ahead
from memory.curation.decisions import approve_heuristic
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.reviewed import ReviewedQuerySet
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from reflection.jobs.execution import Outcome
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import ReflectorFactory, run_reflection

WRONG_JUDGEMENTS = 0.3
Tell = Callable[[Task, bool], bool]  # whether it succeeded → what the record says


@dataclass(kw_only=True, slots=True)
class Learned:
    """What came of a number of runs."""

    runs: int = 0
    solved: int = 0
    with_trigger: int = 0
    proposed: int = 0
    repeated: int = 0  # lessons that an earlier run had given already
    without_lesson: int = 0
    failed: int = 0  # reflections that did not come to an end
    approved: int = 0
    quotes: int = 0
    quotes_found: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def counts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def tell_truth(task: Task, success: bool) -> bool:
    return success


def tell_opposite(task: Task, success: bool) -> bool:
    return not success


def err_sometimes(task: Task, success: bool) -> bool:
    """Be wrong about 30 % of the runs, and always about the same ones."""
    return success != (random.Random(f"judge:{task.id}").random() < WRONG_JUDGEMENTS)  # noqa: S311 - repeatable


def learn_from(
    project: Project,
    runs: Sequence[tuple[Task, Played]],
    learned: Learned,
    *,
    agent: str,
    make_reflector: ReflectorFactory | None,
    tell: Tell = tell_truth,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Record runs and reflect on each.

    Args:
        make_reflector: the environment's own; None takes the one of the settings.
    """
    for number, (task, played) in enumerate(runs, 1):
        said = tell(task, played.success)
        is_true = said == played.success
        data = {
            "task": task.text,
            "task_id": task.family,
            "steps": list(played.steps),
            "outcome": "success" if said else "failure",
            "score": played.score if is_true and played.score is not None else float(said),
            "outcome_source": "environment" if tell is tell_truth else "judge",
            "agent": agent,
            "external_id": task.id,
        }
        trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
        reflection = Reflection.objects.get(trajectory=trajectory)
        chosen: dict[str, Any] = {"make_reflector": make_reflector} if make_reflector else {}
        attempt = run_reflection(reflection.pk, owner="evaluation", **chosen)
        learned.runs += 1
        learned.solved += played.success
        count_reflection(reflection, attempt.outcome, learned)
        progress(number)


def approve_all(project: Project, learned: Learned) -> None:
    """Approve what is proposed, oldest first. The policy is named in every review: nobody read these lessons."""
    for heuristic in Heuristic.objects.filter(project=project, status=Heuristic.Status.PROPOSED).order_by("id"):
        approve_heuristic(heuristic, by=EVALUATION, reason="Approved unread, in an evaluation's sandbox.")
        learned.approved += 1
    count_terms(project.pk)  # the sweeper does it in a running system


def furnish(project: Project, texts: Sequence[HeuristicText], *, progress: Callable[[int], None]) -> None:
    """Approve lessons that were not learnt here, so that the search has something to be wrong about."""
    embed_ahead(part for text in texts for part in (text.trigger, text.guideline))
    for number, text in enumerate(texts, 1):
        heuristic = propose_heuristic(project, text=text, by=EVALUATION)
        approve_heuristic(heuristic, by=EVALUATION, reason="About other work: it stands beside what is learnt.")
        progress(number)


def find_learnt(project: Project) -> ReviewedQuerySet[Heuristic]:
    """Return the lessons that runs of this project gave, oldest first."""
    learnt = Evidence.objects.filter(heuristic=OuterRef("pk"))
    return Heuristic.objects.filter(Exists(learnt), project=project).order_by("id")


def read_lessons(project: Project) -> list[HeuristicText]:
    """Return what was learnt in a project, oldest first."""
    heuristics = find_learnt(project).with_text()
    return [revision.as_text() for heuristic in heuristics if (revision := heuristic.current_revision)]


def propose_dealt(project: Project, texts: Sequence[HeuristicText], *, seed: str) -> None:
    """Propose lessons whose advice is that of another lesson: right words at the wrong condition."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)  # noqa: S311 - repeatable by design
    for place, one in enumerate(order):
        other = texts[order[(place + 1) % len(order)]]
        dealt = replace(
            texts[one], guideline=other.guideline, avoid=other.avoid, not_when=other.not_when, polarity=other.polarity
        )
        propose_heuristic(project, text=dealt, by=EVALUATION)


def count_reflection(reflection: Reflection, outcome: Outcome, learned: Learned) -> None:
    """Add what came of one reflection."""
    reflection.refresh_from_db()
    learned.input_tokens += reflection.input_tokens or 0
    learned.output_tokens += reflection.output_tokens or 0
    learned.cost_usd += float(reflection.cost_usd or 0)
    if outcome != Outcome.DONE:
        learned.failed += 1
        return
    proposals = list(reflection.proposals.select_related("heuristic__current_revision"))
    repeated = sum(proposal.effect == Proposal.Effect.SUPPORT for proposal in proposals)
    learned.repeated += repeated
    learned.proposed += len(proposals) - repeated
    learned.without_lesson += not proposals
    heard = "\n".join(map(str, reflection.trajectory.steps)) if proposals else ""
    for proposal in proposals:
        revision = proposal.heuristic.current_revision
        learned.with_trigger += revision is not None and bool(revision.trigger.strip())
        for evidence in proposal.heuristic.evidence.filter(trajectory=reflection.trajectory_id).exclude(quote=""):
            learned.quotes += 1
            learned.quotes_found += evidence.quote in heard
