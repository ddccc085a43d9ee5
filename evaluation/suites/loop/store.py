"""Turn runs into lessons through the product itself: record, reflect, approve."""

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Exists, OuterRef

from evaluation.arms import EVALUATION
from evaluation.environments.base import Task, TryResult
from evaluation.suites.timing import milliseconds_since
from evaluation.suites.vector_cache import prefetch_vectors
from memory.curation.decision_steps import get_current_revision
from memory.curation.decisions import approve_heuristic, confirm_evidence
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Evidence, Heuristic, ReviewedQuerySet
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.jobs.execution import Outcome
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import Attempt, ReflectorFactory, run_reflection

WRONG_JUDGEMENTS = 0.3
Judge = Callable[[Task, bool], bool]  # takes the true outcome, returns the recorded one


@dataclass(kw_only=True, slots=True)
class LearningCounts:
    """What a number of runs led to."""

    runs: int = 0
    solved: int = 0
    with_trigger: int = 0
    proposed: int = 0
    repeated: int = 0  # lessons that an earlier run had already given
    without_lesson: int = 0
    failed: int = 0  # reflections that did not finish
    approved: int = 0
    quotes: int = 0
    quotes_found: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def tell_truth(task: Task, success: bool) -> bool:
    return success


def tell_opposite(task: Task, success: bool) -> bool:
    return not success


def err_sometimes(task: Task, success: bool) -> bool:
    """Be wrong about 30% of the runs, always the same ones."""
    return success != (random.Random(f"judge:{task.id}").random() < WRONG_JUDGEMENTS)  # noqa: S311 - repeatable


@dataclass(frozen=True, kw_only=True, slots=True)
class Learner:
    """Records an agent's runs and reflects on them. Without `make_reflector`, the configured reflector is used."""

    agent: str
    make_reflector: ReflectorFactory | None

    def learn(
        self,
        project: Project,
        runs: Sequence[tuple[Task, TryResult]],
        counts: LearningCounts,
        *,
        judge: Judge = tell_truth,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        for number, (task, played) in enumerate(runs, 1):
            verdict = judge(task, played.success)
            is_true = verdict == played.success
            data = {
                "steps": list(played.steps),
                **played.members,
                "task": task.text,
                "task_id": task.family,
                "outcome": "success" if verdict else "failure",
                "score": played.score if is_true and played.score is not None else float(verdict),
                # A judge that errs is told as what it is: the product trusts it less than an environment.
                "outcome_source": "environment" if judge is tell_truth else "judge",
                "agent": self.agent,
                "external_id": task.id,
            }
            reflection, attempt = record_and_reflect(project, data, make_reflector=self.make_reflector)
            counts.runs += 1
            counts.solved += played.success
            count_reflection(reflection, attempt.outcome, counts)
            progress(number)


def record_and_reflect(
    project: Project, data: dict[str, Any], *, make_reflector: ReflectorFactory | None = None
) -> tuple[Reflection, Attempt]:
    """Record a run and reflect on it at once, with the configured reflector unless another is given."""
    trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
    return reflect_on(trajectory, make_reflector=make_reflector)


def reflect_on(trajectory: Trajectory, *, make_reflector: ReflectorFactory | None = None) -> tuple[Reflection, Attempt]:
    """Run the reflection that waits for a recorded run."""
    reflection = Reflection.objects.get(trajectory=trajectory)
    chosen: dict[str, Any] = {"make_reflector": make_reflector} if make_reflector else {}
    return reflection, run_reflection(reflection.pk, owner="evaluation", **chosen)


def approve_all(project: Project) -> list[float]:
    """Approve everything proposed, oldest first; return the milliseconds each approval took.

    The actor of each review is a policy, since no person read these lessons.
    """
    spent = []
    for heuristic in Heuristic.objects.for_project(project).proposed().leading().order_by("id"):
        started = time.perf_counter()
        approve_unread(heuristic, reason="Approved unread, in an evaluation's sandbox.")
        spent.append(milliseconds_since(started))
    # Runs that support an approved lesson count only once a person has confirmed them.
    later = Evidence.objects.filter(heuristic=OuterRef("pk"), approved_at__isnull=True)
    approved = Heuristic.objects.filter(project=project, status=Heuristic.Status.APPROVED)
    for heuristic in approved.filter(Exists(later)).order_by("id"):
        confirm_unread_evidence(heuristic)
    # In a running system the periodic work does this.
    count_terms(project.pk)
    return spent


def approve_unread(heuristic: Heuristic, *, reason: str) -> Heuristic:
    """Approve the present wording, whatever it is, in the name of the policy."""
    sha256 = get_current_revision(heuristic, content_sha256=None).content_sha256
    return approve_heuristic(heuristic, by=EVALUATION, content_sha256=sha256, reason=reason)


def confirm_unread_evidence(heuristic: Heuristic) -> Heuristic:
    """Let all evidence of an approved lesson count, in the name of the policy."""
    sha256 = get_current_revision(heuristic, content_sha256=None).content_sha256
    return confirm_evidence(heuristic, by=EVALUATION, content_sha256=sha256)


def add_background(project: Project, texts: Sequence[HeuristicText]) -> None:
    """Approve lessons that were not learnt here, so that the search can find the wrong ones."""
    # In batches, which takes half the time of embedding them one by one.
    prefetch_vectors(part for text in texts for part in (text.trigger, text.guideline))
    for text in texts:
        heuristic = propose_heuristic(project, text=text, by=EVALUATION)
        approve_unread(heuristic, reason="A background lesson about other work.")


def find_learnt(project: Project) -> ReviewedQuerySet[Heuristic]:
    """Return the lessons learnt from runs of this project, oldest first."""
    learnt = Evidence.objects.filter(heuristic=OuterRef("pk"))
    return Heuristic.objects.filter(Exists(learnt), project=project).order_by("id")


def read_lessons(project: Project) -> list[HeuristicText]:
    """Return what was learnt in a project, oldest first."""
    heuristics = find_learnt(project).with_text()
    return [revision.as_text() for heuristic in heuristics if (revision := heuristic.current_revision)]


def propose_shuffled(project: Project, texts: Sequence[HeuristicText], *, seed: str) -> None:
    """Propose lessons that combine the condition of one lesson with the advice of another."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)  # noqa: S311 - repeatable by design
    for position, source in enumerate(order):
        # Its neighbour in a shuffled circle, so that no lesson keeps its own advice.
        other = texts[order[(position + 1) % len(order)]]
        shuffled = replace(
            texts[source],
            guideline=other.guideline,
            avoid=other.avoid,
            not_when=other.not_when,
            polarity=other.polarity,
        )
        propose_heuristic(project, text=shuffled, by=EVALUATION)


def propose_flipped(project: Project, texts: Sequence[HeuristicText]) -> None:
    """Propose each lesson with its advice turned into its opposite."""
    for text in texts:
        sentences = re.split(r"(?<=[.!?]) +", text.guideline)
        guideline = " ".join(f"Do not {sentence[:1].lower()}{sentence[1:]}" for sentence in sentences)
        propose_heuristic(
            project, text=replace(text, guideline=guideline, avoid=text.guideline, polarity="avoid"), by=EVALUATION
        )


def count_reflection(reflection: Reflection, outcome: Outcome, counts: LearningCounts) -> None:
    """Add the result of one reflection."""
    reflection.refresh_from_db()
    counts.input_tokens += reflection.input_tokens or 0
    counts.output_tokens += reflection.output_tokens or 0
    counts.cost_usd += float(reflection.cost_usd or 0)
    if outcome != Outcome.DONE:
        counts.failed += 1
        return
    proposals = list(reflection.proposals.select_related("heuristic__current_revision"))
    repeated = sum(proposal.effect == Proposal.Effect.SUPPORT for proposal in proposals)
    counts.repeated += repeated
    counts.proposed += len(proposals) - repeated
    counts.without_lesson += not proposals
    transcript = "\n".join(map(str, reflection.trajectory.steps)) if proposals else ""
    for proposal in proposals:
        revision = proposal.heuristic.current_revision
        counts.with_trigger += revision is not None and bool(revision.trigger.strip())
        for evidence in proposal.heuristic.evidence.filter(trajectory=reflection.trajectory_id).exclude(quote=""):
            counts.quotes += 1
            counts.quotes_found += evidence.quote in transcript
