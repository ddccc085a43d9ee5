"""Run a reflection: claim, read, ask, check, and write everything that comes of it in one transaction."""

import random
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models.functions import Now

from memory.curation.proposals import has_room
from memory.failpoints import failpoint
from memory.redaction import redact
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import Episode
from memory.runs.models import Trajectory
from memory.tracing import span
from reflection.errors import BudgetExhausted, CircuitOpen, LostClaim, OutcomeChanged, ReflectionError
from reflection.jobs.doorbell import doorbell
from reflection.jobs.heartbeat import Heartbeat
from reflection.jobs.queue import claim, fail, finish, postpone
from reflection.llm.budget import NextUtcDay, defer_project
from reflection.llm.calls import RememberedAsk
from reflection.models import Proposal, Reflection
from reflection.reflectors.base import ReflectionResult, Reflector
from reflection.reflectors.checks import Finding, is_rejected, verify
from reflection.reflectors.llm import Ask
from reflection.reflectors.nearest import embed_lesson, find_near_heuristics
from reflection.reflectors.proposals import CheckedLesson, store_lessons
from reflection.reflectors.registry import ask_provider, get_reflector

log = structlog.get_logger(__name__)

MAX_ERROR_CHARACTERS = 500
CIRCUIT_SPREAD_SECONDS = 5.0
NO_ROOM = (
    "As many lessons of this client wait for a reviewer as ERL_PENDING_PROPOSALS_PER_CLIENT allows. The run is kept; "
    "reflect on it again when some of them are decided."
)


class Outcome(StrEnum):
    """What became of an attempt."""

    NOTHING = "nothing"  # nothing could be claimed
    DONE = "done"
    RETRY = "retry"
    DEFERRED_BUDGET = "deferred_budget"
    DEAD = "dead"
    LOST = "lost"  # somebody else holds it now; nothing was written


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
    reflection = claim(reflection_id, owner=owner)
    if reflection is None:
        return Attempt(outcome=Outcome.NOTHING, reflection_id=reflection_id)
    context = {"reflection_id": str(reflection.pk), "request_id": reflection.request_id}
    if reflection.traceparent:
        context["traceparent"] = reflection.traceparent
    with structlog.contextvars.bound_contextvars(**context):
        log.info("reflection_started", attempts=reflection.attempts, owner=owner)
        failpoint("reflection.claimed")
        about = {"erl.reflection_id": str(reflection.pk), "erl.attempts": reflection.attempts}
        with span("reflection", parent=reflection.traceparent, **about):
            attempt = _attempt(reflection, make_reflector=make_reflector, ask_model=ask_model)
        log.info(
            "reflection_finished",
            outcome=attempt.outcome.value,
            proposed=attempt.proposed,
            supported=attempt.supported,
        )
    return attempt


def _attempt(reflection: Reflection, *, make_reflector: ReflectorFactory, ask_model: Ask) -> Attempt:
    try:
        with Heartbeat(reflection) as heartbeat:
            try:
                proposals = _reflect(reflection, heartbeat, make_reflector=make_reflector, ask_model=ask_model)
            except Exception as error:  # whatever it is, the row says so and the next reflection goes on
                return _give_back(reflection, error)
            except BaseException:
                with suppress(LostClaim, DatabaseError, InterfaceError):
                    postpone(reflection, code="interrupted", message="The worker was stopped. The reflection goes on.")
                raise
    except (LostClaim, DatabaseError, InterfaceError) as error:
        # Without the database nothing can be written: the lease ends and somebody else takes it.
        log.warning("reflection_lost", error=type(error).__name__)
        return Attempt(outcome=Outcome.LOST, reflection_id=reflection.pk)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    return Attempt(
        outcome=Outcome.DONE,
        reflection_id=reflection.pk,
        proposed=proposed,
        supported=len(proposals) - proposed,
    )


def _reflect(
    reflection: Reflection, heartbeat: Heartbeat, *, make_reflector: ReflectorFactory, ask_model: Ask
) -> list[Proposal]:
    trajectory = _get_trajectory(reflection)
    if not has_room(reflection.project_id, trajectory.client):
        return _store(reflection, trajectory, lessons=[], skip_reason=NO_ROOM)  # nothing is asked and nothing spent
    episode = trajectory.as_episode(injected=_injected_texts(trajectory))
    provider = settings.ERL_LLM_PROVIDER
    ask = RememberedAsk(reflection, heartbeat, ask_model=ask_model, provider=provider)
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
        raise OutcomeChanged("The outcome of the run was reported anew. It is reflected on again.")
    proposals = store_lessons(reflection, trajectory, lessons=lessons)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    reason = "" if proposals else NO_ROOM if lessons else skip_reason
    finish(reflection, heuristics_proposed=proposed, skip_reason=reason)
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
    reflection.reflector = reflector.name
    reflection.reflector_version = reflector.version
    prompt_version: Callable[[Episode], str] | None = getattr(reflector, "prompt_version", None)
    reflection.prompt_version = prompt_version(episode) if prompt_version else ""


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


def _give_back(reflection: Reflection, error: Exception) -> Attempt:
    """Write on the row what went wrong, and return what becomes of it.

    Raises:
        LostClaim: somebody else holds it.
    """
    match error:
        case LostClaim():
            raise error
        case BudgetExhausted():
            status = postpone(reflection, until=NextUtcDay(), code=error.code, message=str(error))
            deferred = 1 + defer_project(reflection.project)
            log.warning("project_out_of_budget", project_id=str(reflection.project_id), deferred=deferred)
        case CircuitOpen():
            # Not all at once when the rest is over.
            wait = timedelta(seconds=error.wait_seconds + random.uniform(0, CIRCUIT_SPREAD_SECONDS))  # noqa: S311
            until = Now() + wait
            status = postpone(reflection, until=until, for_budget=False, code=error.code, message=str(error))
        case OutcomeChanged():
            status = postpone(reflection, code=error.code, message=str(error))
            doorbell.ring(reflection.pk)
        case ReflectionError():
            message = redact(str(error)).value[:MAX_ERROR_CHARACTERS]
            retry_after = getattr(error, "retry_after_seconds", None)
            status = fail(
                reflection,
                code=error.code,
                message=message,
                transient=error.transient,
                retry_after_seconds=retry_after,
            )
        case SoftTimeLimitExceeded():
            message = f"It took longer than {settings.CELERY_TASK_SOFT_TIME_LIMIT} seconds and was stopped."
            status = fail(reflection, code="time_limit", message=message, transient=True)
        case _:
            status = _fail_unexpectedly(reflection, error)
    return Attempt(outcome=Outcome(status), reflection_id=reflection.pk)


def _fail_unexpectedly(reflection: Reflection, error: Exception) -> str:
    """Record an error nobody foresaw: its kind and place, not its words, which may repeat the run."""
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    ours = [place for place, frame in zip(where, frames, strict=True) if "site-packages" not in frame.filename]
    kind = type(error).__name__
    log.error("reflection_crashed", error=kind, where=where[-8:])
    message = f"An unexpected {kind} stopped it at {ours[-1]}. The worker's log has more at reflection_crashed."
    return fail(reflection, code="unexpected_error", message=message, transient=True)
