"""Queue a reflection for every run that is recorded with the wish for one."""

from typing import Any

import structlog

from memory.models import Trajectory
from memory.values import Actor
from reflection.queue import enqueue_reflection


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
