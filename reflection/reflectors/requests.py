"""Queue reflections: for a run that is recorded, at a client's request, and again at an operator's."""

import time
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from memory.errors import NoRunToReflectOn, QueueFull, RunIsOpen
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.errors import StillQueued
from reflection.jobs.models import Job
from reflection.jobs.queue import enqueue
from reflection.reflectors.models import KIND, Reflection

log = structlog.get_logger(__name__)

MAX_WAITING = 10_000  # reflections of a project, before its clients get 429
COUNTED_FOR_SECONDS = 1.0  # after which a process counts them again: it takes a millisecond where thousands wait
_counted_at: dict[UUID, float] = {}  # projects that had room


def enqueue_reflection(trajectory: Trajectory, *, by: Actor, request_id: str = "", traceparent: str = "") -> Reflection:
    """Queue a reflection of a run in the caller's transaction, or return the one that is queued or running.

    Runs that were given lessons go last: what the others show is not an effect of lessons.

    Raises:
        QueueFull: an API client asks, and too many reflections of the project wait (reliability B11).
    """
    if trajectory.is_open:
        raise RunIsOpen("Finish this run first: it is reflected on as a whole.")
    if by.api_key_id is not None:
        _refuse_if_full(trajectory)
    return enqueue(
        Reflection(
            kind=KIND,
            project_id=trajectory.project_id,
            subject=str(trajectory.pk),
            trajectory=trajectory,
            goes_last=_was_given_lessons(trajectory),
            requested_by=by.label,
            request_id=request_id,
            traceparent=traceparent,
        )
    )


def queue_reflection(*, trajectory: Trajectory, reflect: bool, actor: Actor, **_: Any) -> None:
    """Queue a reflection in the transaction that records a run, if the run is to have one."""
    if not reflect:
        return
    context = structlog.contextvars.get_contextvars()
    enqueue_reflection(
        trajectory,
        by=actor,
        request_id=context.get("request_id", trajectory.request_id),
        traceparent=context.get("traceparent", ""),
    )


@transaction.atomic
def requeue_reflection(reflection: Reflection, *, by: Actor) -> Reflection:
    """Reflect on the run of a finished or dead reflection again, as a new row; the old one stays as it is.

    Raises:
        StillQueued: it is not finished.
    """
    reflection = Reflection.objects.select_related("trajectory").get(pk=reflection.pk)
    if reflection.status in Reflection.LIVE:
        raise StillQueued("This reflection is still queued or running. Wait until it is finished.")
    new = enqueue_reflection(
        reflection.trajectory, by=by, request_id=reflection.request_id, traceparent=reflection.traceparent
    )
    log.info("reflection_requeued", reflection_id=str(new.pk), after=str(reflection.pk), by=by.label)
    return new


def reflect_on_run_again(heuristic: Heuristic, by: Actor) -> str:
    """Queue a reflection of the newest run a heuristic is drawn from.

    Raises:
        NoRunToReflectOn: a person wrote it by hand.
    """
    newest = heuristic.evidence.select_related("trajectory").order_by("-created_at", "-id").first()
    if newest is None:
        raise NoRunToReflectOn("No run is linked to this heuristic, so there is nothing to reflect on again.")
    enqueue_reflection(newest.trajectory, by=by)
    return "Its newest run is queued for another reflection. What it finds will be a separate proposal."


def _was_given_lessons(trajectory: Trajectory) -> bool:
    return trajectory.retrieval is not None and bool(trajectory.retrieval.injected_ids)


def _refuse_if_full(trajectory: Trajectory) -> None:
    project_id, limit, now = trajectory.project_id, MAX_WAITING, time.monotonic()
    if now - _counted_at.get(project_id, -COUNTED_FOR_SECONDS) < COUNTED_FOR_SECONDS:
        return
    waiting = Job.objects.live().filter(project_id=project_id, kind=KIND).order_by("subject")
    if waiting.values_list("subject")[limit - 1 : limit]:
        raise QueueFull(
            f"{limit} reflections of this project are already waiting. Send the run with reflect: false, or try "
            "again later."
        )
    _counted_at[project_id] = now
