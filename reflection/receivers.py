"""Queue a reflection for every run that is recorded with the wish for one."""

from typing import Any

import structlog

from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.jobs.queue import enqueue_reflection


def queue_reflection(*, trajectory: Trajectory, reflect: bool, actor: Actor, **_: Any) -> None:
    """Queue in the transaction that records the run, with the ids of the request that caused it."""
    if not reflect:
        return
    context = structlog.contextvars.get_contextvars()
    enqueue_reflection(
        trajectory,
        by=actor,
        request_id=context.get("request_id", trajectory.request_id),
        traceparent=context.get("traceparent", ""),
    )
