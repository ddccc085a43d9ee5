"""The job that rehearses a change: it asks the agent's model, so it takes as long as runs do."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import UUID

from django.db import transaction

from memory.failpoints import failpoint
from memory.projects.actors import Actor
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, enqueue, finish, hold
from reflection.llm.base import Provider
from reflection.llm.calls import RememberedChat
from runtime.changes.ladder import record_shadow
from runtime.changes.regression import rehearse_runs
from runtime.changes.rehearsals import choose_runs
from runtime.changes.trials import name_answers
from runtime.errors import NotOnRung
from runtime.loop.execution import find_provider
from runtime.models.changes import Change

KIND = "agent_change"


def request_shadow(change: Change, *, by: Actor) -> Job:
    """Queue the shadow runs of a change.

    Raises:
        NotOnRung: it has not passed its checks, or there are no recorded runs.
    """
    if change.rung not in (Change.Rung.CHECKED, Change.Rung.SHADOWED):
        raise NotOnRung(
            f"The {change} is {change.get_rung_display().lower()}. Check it first: shadow comes after that."
        )
    if obstacle := find_nothing_to_rehearse(change):
        raise NotOnRung(obstacle)
    return enqueue(Job(kind=KIND, project_id=change.project_id, subject=str(change.pk), requested_by=by.label))


def find_nothing_to_rehearse(change: Change) -> str:
    """Return why a change cannot be rehearsed at this moment, or nothing."""
    if choose_runs(change.agent_id, most=1):
        return ""
    return (
        f"The agent {change.agent.name} has no recorded run that went well, so there is nothing to rehearse. Let it "
        "work first."
    )


def run_shadow(job_id: UUID | None = None, *, owner: str, find: Callable[[str], Provider] = find_provider) -> Outcome:
    """Claim the shadow of a change, or the one that is due longest, and carry it out."""
    job = claim(KIND, job_id, owner=owner)
    if job is None:
        return Outcome.NOTHING
    return carry_out(job, partial(_rehearse, job, find=find))[0]


def _rehearse(job: Job, heartbeat: Heartbeat, *, find: Callable[[str], Provider]) -> None:
    change = Change.objects.select_related("agent__project", "target", "base").filter(pk=UUID(job.subject)).first()
    rehearsed = None
    if change is not None and change.rung in (Change.Rung.CHECKED, Change.Rung.SHADOWED):
        # After a crash the number is the same, so the answers that were paid for are found again.
        attempt = 1 + (change.rehearsals.order_by("-attempt").values_list("attempt", flat=True).first() or 0)
        chat = RememberedChat(job, heartbeat, provider=find(change.target.model), subject=f"change:{change.pk}")
        ask_for = name_answers(chat, heartbeat, f"shadow:{attempt}:")
        if runs := choose_runs(change.agent_id):
            rehearsed = rehearse_runs(change, runs, ask_for, attempt=attempt, by=job.requested_by)
    failpoint("change.rehearsed")
    with transaction.atomic():
        hold(job)
        if change is not None and rehearsed is not None:
            with suppress(NotOnRung):  # it was rejected meanwhile
                record_shadow(change, rehearsed, by=Actor(label=job.requested_by))
        finish(job)
