"""End a run: close what is open, and record it as a trajectory, in one transaction."""

from typing import Any

import structlog
from django.db.models import F
from django.utils import timezone

from memory.blocks.decisions import propose_overlays
from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.projects.actors import Actor, name_actor
from runtime.conversations import add_message
from runtime.loop.journal import ask_people, end_effect
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run, RunStatus, StopReason
from runtime.streaming.events import append_event
from runtime.trajectories import record_run

log = structlog.get_logger(__name__)

NOT_CALLED = "The run ended before this call."
BEGUN = "The run ended while this call went on, so it may have happened."
UNKNOWN = "The run ended, and it is not known whether this call happened."
UNDECIDED = Actor.policy("run-ended")


def finish_run(run: Run, *, status: RunStatus, reason: StopReason, error: str = "") -> Run:
    """End a run that is locked, in the caller's transaction. Open questions about unknown calls stay open.

    Everything that was said and done is recorded as a trajectory and reflected on like any other, unless the run was
    cancelled.
    """
    # Before the trajectory is recorded, which shows how each call ended.
    _close_calls(run)
    now = database_now()
    # A run can end while it waits for people; that wait counts as well.
    waited = (now - run.waiting_since).total_seconds() if run.waiting_since else 0.0
    run.status, run.stop_reason, run.error, run.finished_at = status, reason, error[:2000], now
    trajectory = record_run(run, by=Actor(label=run.created_by, api_key_id=run.api_key_id))
    Run.objects.filter(pk=run.pk).update(
        status=run.status,
        stop_reason=run.stop_reason,
        error=run.error,
        finished_at=now,
        waiting_since=None,
        waited_seconds=F("waited_seconds") + waited,
        trajectory=trajectory,
    )
    run.waiting_since, run.trajectory = None, trajectory
    _propose_views(run)
    append_event(run.pk, "run", status=status, stop_reason=reason, **_figures(run))
    return run


def _propose_views(run: Run) -> None:
    """Propose what the conversation has made of blocks that take edits in one conversation only."""
    by = Actor(label=f"agent:{run.agent.name}", api_key_id=run.api_key_id)
    try:
        propose_overlays(run.project_id, conversation=run.conversation_id, by=by)
    except MemoryAppError as refusal:  # a run ends all the same
        log.info("views_not_proposed", run=str(run.pk), reason=type(refusal).__name__)


def _close_calls(run: Run) -> None:
    """End the calls that are still open, so that each has an answer in the conversation."""
    related = ("step", "run__revision", "run__conversation")
    for effect in run.effects.filter(status__in=Effect.OPEN).select_related(*related):
        match effect.status:
            # It may have happened. The run ends all the same, and the question to people stays open.
            case Effect.Status.STARTED if effect.kind == Effect.Kind.UNSAFE:
                Effect.objects.filter(pk=effect.pk).update(status=Effect.Status.UNKNOWN)
                ask_people(effect, about_unknown=True)
                _answer_unknown(effect)
            case Effect.Status.UNKNOWN:
                _answer_unknown(effect)
            case Effect.Status.STARTED:
                end_effect(effect, status=Effect.Status.FAILED, error=BEGUN)
            case _:
                end_effect(effect, status=Effect.Status.CANCELLED, error=NOT_CALLED)
    if run.approvals.filter(status=Approval.Status.PENDING, about_unknown=False).update(
        status=Approval.Status.CANCELLED, decided_at=timezone.now(), decided_by=UNDECIDED.label
    ):
        name_actor(UNDECIDED)
    run.steps.filter(status="asking").update(status="answered", finish_reason="none", finished_at=timezone.now())


def _answer_unknown(effect: Effect) -> None:
    """Give a call an answer in the conversation, though a person may still say how it ended."""
    if effect.parent_id is None:
        add_message(effect.run, role="tool", content=f"Error: {UNKNOWN}", tool_call_id=effect.call_id, effect=effect)


def _figures(run: Run) -> dict[str, Any]:
    names = ("steps_taken", "input_tokens", "output_tokens", "cost_usd")
    return {name: getattr(run, name) for name in names} | {"trajectory": run.trajectory_id}
