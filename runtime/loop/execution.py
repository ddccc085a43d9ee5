"""Go on with a run: look at its rows, take one action, commit, and look again."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from memory.database_clock import database_now
from reflection.errors import NotNow
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, finish
from reflection.llm.base import Provider
from reflection.llm.registry import get_chat_provider
from runtime.loop.actions import (
    Action,
    AskModel,
    Compact,
    ExecuteEffect,
    Finish,
    MarkUnknown,
    Note,
    Prepare,
    Remind,
    Wait,
    next_action,
)
from runtime.loop.asking import ask_model, prepare_run, remind
from runtime.loop.compacting import compact
from runtime.loop.effects import execute_effect, mark_unknown
from runtime.loop.fence import Claimed, lock_run
from runtime.loop.finishing import finish_run
from runtime.loop.rows import REMINDER, RunRows, load_rows
from runtime.models.runs import KIND, Run, RunStatus, StopReason
from runtime.streaming.events import append_event

TURN_SECONDS = 60.0  # then other work has its turn, and the run goes on after it
_Find = Callable[[str], Provider]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAttempt:
    """One attempt at one run, and how many actions it took."""

    outcome: Outcome
    actions: int = 0


def find_provider(model: str) -> Provider:
    """Return the provider for an agent's model."""
    return get_chat_provider(model)


def run_agent(job_id: UUID | None = None, *, owner: str, find: _Find = find_provider) -> RunAttempt:
    """Claim the job of a run, or the one that is due longest, and go on with the run until it ends or has to wait.

    Raises only what stops the process, after giving the job back, and what the database raises at the claim.
    """
    job = claim(KIND, job_id, owner=owner)
    if job is None:
        return RunAttempt(outcome=Outcome.NOTHING)
    outcome, actions = carry_out(job, partial(_go_on, job, find=find))
    return RunAttempt(outcome=outcome, actions=actions or 0)


def _go_on(job: Job, heartbeat: Heartbeat, *, find: _Find) -> int:
    claimed = Claimed(UUID(job.subject), job, heartbeat)
    ends_at = time.monotonic() + TURN_SECONDS
    actions = 0
    while True:
        # A process that was suspended may have lost the job, and must not act on rows that another one writes now.
        heartbeat.ensure_held()
        rows = load_rows(claimed.run_id)
        action = next_action(rows)
        if action is None or isinstance(action, Wait | Finish):
            if _stop(claimed, rows):
                return actions
            continue
        _take(action, claimed, rows, find=find)
        actions += 1
        # Everything is committed between two actions, so the run can be put down here.
        if time.monotonic() > ends_at:
            raise NotNow("Other work has its turn.")


def _take(action: Action, claimed: Claimed, rows: RunRows, *, find: _Find) -> None:
    run = rows.run
    match action:
        case Prepare():
            prepare_run(claimed, run)
        case AskModel(again=again, more_room=more_room):
            assert rows.shown is not None  # read from the database
            ask_model(claimed, rows.shown, again=again, more_room=more_room, find_provider=find)
        case ExecuteEffect(effect=effect):
            execute_effect(claimed, run, effect.pk, kind=effect.kind)
        case MarkUnknown(effect=effect):
            mark_unknown(claimed, effect.pk)
        case Compact():
            compact(claimed, run, find_provider=find)
        case Remind(tool=tool):
            remind(claimed, f"{REMINDER} {tool}.")
        case Note(text=text):
            remind(claimed, text)


def _stop(claimed: Claimed, rows: RunRows) -> bool:
    """End the run, or let it wait, where that is still what comes next; False where it goes on after all."""
    with claimed.writing(also_ended=True) as run:
        # Meanwhile people may have decided about its calls. All else is written by the worker that holds the job.
        action = next_action(load_rows(run.pk) if rows.open_effects else replace(rows, run=run))
        match action:
            case None:
                pass
            case Finish(status=status, reason=reason, error=error):
                finish_run(run, status=status, reason=reason, error=error)
            case Wait(effect=effect):
                Run.objects.filter(pk=run.pk).update(
                    status=RunStatus.WAITING, waiting_since=run.waiting_since or database_now()
                )
                append_event(run.pk, "run", status=RunStatus.WAITING, effect=effect.pk)
            case _:
                return False
        finish(claimed.job)
    return True


def give_up(job: Job) -> None:
    """End the run of a job that is dead, in the transaction that marks it so."""
    run = lock_run(UUID(job.subject))
    if run is None or not run.is_live:
        return
    code, message = Job.objects.values_list("last_error_code", "last_error").get(pk=job.pk)
    reasons = {"worker_lost": StopReason.WORKER_LOST, "unexpected_error": StopReason.ERROR}
    finish_run(run, status=RunStatus.FAILED, reason=reasons.get(code, StopReason.MODEL_FAILED), error=message)
