"""Run a reflection: claim, read, ask, check, and write everything that comes of it in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memory.curation.proposals import has_room
from memory.failpoints import failpoint
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import Episode
from memory.runs.models import Trajectory
from reflection.errors import LostClaim, OutcomeChanged
from reflection.jobs.execution import Outcome, carry_out
from reflection.jobs.heartbeat import Heartbeat
from reflection.jobs.queue import claim, finish, get_claimed
from reflection.llm.calls import Ask, RememberedAsk, ask_provider
from reflection.reflectors.base import ReflectionResult, Reflector
from reflection.reflectors.checks import Finding, is_rejected, verify
from reflection.reflectors.models import KIND, Proposal, Reflection
from reflection.reflectors.nearest import embed_lesson, find_near_heuristics
from reflection.reflectors.proposals import CheckedLesson, store_lessons
from reflection.reflectors.registry import get_reflector

NO_ROOM = (
    "As many lessons of this client wait for a reviewer as ERL_PENDING_PROPOSALS_PER_CLIENT allows. The run is kept; "
    "reflect on it again when some of them are decided."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt at one reflection."""

    outcome: Outcome
    reflection_id: UUID | None = None
    proposed: int = 0
    supported: int = 0


class ReflectorFactory(Protocol):
    def __call__(self, *, ask: Ask) -> Reflector: ...


def run_reflection(
    reflection_id: UUID | None = None,
    *,
    owner: str,
    make_reflector: ReflectorFactory = get_reflector,
    ask_model: Ask = ask_provider,
) -> Attempt:
    """Claim one reflection, or the one due longest, and see it through. What goes wrong is written on the row.

    Raises only what stops the process, after giving the reflection back, and what the database raises at the claim.
    """
    job = claim(KIND, reflection_id, owner=owner)
    reflection = get_claimed(Reflection, job) if job else None
    if reflection is None:
        return Attempt(outcome=Outcome.NOTHING, reflection_id=reflection_id)
    proposals: list[Proposal] = []

    def work(heartbeat: Heartbeat) -> None:
        proposals.extend(_reflect(reflection, heartbeat, make_reflector=make_reflector, ask_model=ask_model))

    outcome = carry_out(reflection, work)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    return Attempt(outcome=outcome, reflection_id=reflection.pk, proposed=proposed, supported=len(proposals) - proposed)


def _reflect(
    reflection: Reflection, heartbeat: Heartbeat, *, make_reflector: ReflectorFactory, ask_model: Ask
) -> list[Proposal]:
    trajectory = _get_trajectory(reflection)
    if not has_room(reflection.project_id, trajectory.client):
        return _store(reflection, trajectory, lessons=[], skip_reason=NO_ROOM)  # nothing is asked and nothing spent
    episode = trajectory.as_episode(injected=_injected_texts(trajectory))
    ask = RememberedAsk(reflection, heartbeat, ask_model=ask_model, provider=settings.ERL_LLM_PROVIDER)
    reflector = make_reflector(ask=ask)
    _name_author(reflection, reflector, episode)
    near = find_near_heuristics(reflection.project, episode) if reflector.reads_near else ()
    result = reflector.reflect(episode, near=near)
    failpoint("reflection.asked")
    lessons, dropped = _check(result, episode)
    heartbeat.ensure_held()
    failpoint("reflection.before_write")
    proposals = _store(reflection, trajectory, lessons=lessons, skip_reason=result.skip_reason or dropped)
    failpoint("reflection.after_commit")
    return proposals


@transaction.atomic
def _store(
    reflection: Reflection, trajectory: Trajectory, *, lessons: list[CheckedLesson], skip_reason: str
) -> list[Proposal]:
    """Write the effect and the end of the reflection together, or nothing."""
    # Held until the end: an outcome reported meanwhile is either seen here, or comes later and queues a reflection.
    now = Trajectory.objects.select_for_update(no_key=True).filter(pk=trajectory.pk).first()
    if now is None:
        raise LostClaim("The run was erased.")
    if (now.outcome, now.score, now.outcome_source) != (
        trajectory.outcome,
        trajectory.score,
        trajectory.outcome_source,
    ):
        raise OutcomeChanged("The outcome of the run was reported again. The reflection is repeated.")
    proposals = store_lessons(reflection, trajectory, lessons=lessons)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    reason = "" if proposals else NO_ROOM if lessons else skip_reason
    finish(reflection)
    Reflection.objects.filter(pk=reflection.pk).update(heuristics_proposed=proposed, skip_reason=reason)
    failpoint("reflection.before_commit")
    return proposals


def _get_trajectory(reflection: Reflection) -> Trajectory:
    try:
        return Trajectory.objects.select_related("retrieval").get(pk=reflection.trajectory_id)
    except Trajectory.DoesNotExist:
        raise LostClaim("The run was erased.") from None


def _injected_texts(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the lessons this run was given, which prove nothing when they come back as its own."""
    if trajectory.retrieval is None:
        return ()
    given = find_injected_wordings([trajectory.retrieval])[trajectory.retrieval.pk]
    return tuple(f"{revision.trigger} {revision.guideline}" for revision in given)


def _name_author(reflection: Reflection, reflector: Reflector, episode: Episode) -> None:
    """Note on the row what reflects, so that a failure names it too."""
    prompt_version: Callable[[Episode], str] | None = getattr(reflector, "prompt_version", None)
    reflection.reflector, reflection.reflector_version = reflector.name, reflector.version
    reflection.prompt_version = prompt_version(episode) if prompt_version else ""
    Reflection.objects.filter(pk=reflection.pk, attempts=reflection.attempts).update(
        reflector=reflection.reflector,
        reflector_version=reflection.reflector_version,
        prompt_version=reflection.prompt_version,
    )


def _check(result: ReflectionResult, episode: Episode) -> tuple[list[CheckedLesson], str]:
    """Return the lessons that may go before a reviewer, and a sentence about those that may not."""
    kept: list[CheckedLesson] = []
    dropped: list[Finding] = []
    for lesson in result.lessons:
        findings = verify(lesson, episode)
        if is_rejected(findings):
            dropped += findings
            continue
        noted = tuple({"code": finding.code, "message": finding.message} for finding in findings)
        vectors = embed_lesson(lesson.text) if lesson.covers_existing is None else None
        kept.append(CheckedLesson(lesson=lesson, findings=noted, vectors=vectors))
    codes = sorted({finding.code for finding in dropped if is_rejected([finding])})
    reason = f"What the reflector proposed did not pass the checks: {', '.join(codes)}." if codes else ""
    return kept, reason
