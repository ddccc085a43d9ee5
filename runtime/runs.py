"""Start runs, cancel them and resume them. The workers do the rest."""

from dataclasses import dataclass
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from memory.errors import InvalidInput
from memory.ids import uuid7
from memory.projects.actors import Actor
from memory.projects.models import ApiKey
from memory.redaction import redact_text
from memory.transcripts.lesson_blocks import read_task
from reflection.jobs.models import Job
from reflection.jobs.queue import enqueue
from runtime.conversations import add_message, lock_conversation, refuse_open_run
from runtime.errors import AgentArchived, ConversationBusy, RunNotResumable
from runtime.limits import Limits
from runtime.loop.fence import lock_run
from runtime.loop.finishing import finish_run
from runtime.models.agents import Agent
from runtime.models.conversations import Conversation, Message
from runtime.models.effects import Effect
from runtime.models.runs import KIND, Run, RunStatus, StopReason
from runtime.streaming.events import append_event

MOST_REPLACED = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What an agent is to do. Limits that are None are those of its revision; for `attachments` see `Message`.

    `replaces_open`: a run that goes on in the conversation is cancelled at once.
    """

    input: str
    attachments: tuple[dict[str, str], ...] = ()
    conversation: Conversation | None = None
    task_id: str = ""
    user_id: str = ""
    limits: Limits | None = None
    replaces_open: bool = False
    client: str = ""
    api_key: ApiKey | None = None
    request_id: str = ""


@transaction.atomic
def start_run(agent: Agent, request: RunRequest, *, by: Actor) -> Run:
    """Write down what the user said and queue a run that answers it.

    Raises:
        AgentArchived: the agent starts no runs.
        ConversationBusy: another run goes on in the conversation.
        ConversationErased: it was deleted meanwhile.
    """
    _refuse_archived(agent)
    conversation = request.conversation or Conversation.objects.create(
        project=agent.project, agent=agent, user_id=redact_text(request.user_id), created_by=by.label
    )
    _check_user(conversation, request.user_id)
    run = _insert_replacing(agent, conversation, request, by=by)
    message = add_message(
        run,
        role=Message.Role.USER,
        content=request.input,
        created_by=by.label,
        attachments=[*request.attachments] or None,
    )
    append_event(run.pk, "run", status=run.status, agent=agent.pk, conversation=conversation.pk)
    append_event(run.pk, "message", role="user", seq=message.seq)
    wake(run)
    return run


@transaction.atomic
def cancel_run(run: Run, *, by: Actor) -> Run:
    """Let a run end before its next action. One that has ended stays as it is."""
    locked = lock_run(run.pk)
    if locked is None or not locked.is_live:
        return run if locked is None else locked
    if locked.cancel_requested_at is None:
        locked.cancel_requested_at = timezone.now()
        Run.objects.filter(pk=locked.pk).update(cancel_requested_at=locked.cancel_requested_at)
        append_event(locked.pk, "cancel", by=by.label)
    # It may wait for a model that failed, or for tomorrow's budget.
    job = Job.objects.filter(project_id=locked.project_id, kind=KIND, subject=str(locked.pk))
    job.filter(status__in=Job.WAITING).update(status=Job.Status.QUEUED, available_at=Now())
    wake(locked)
    return locked


@transaction.atomic
def resume_run(run: Run, *, by: Actor, limits: Limits | None = None, request: dict[str, Any] | None = None) -> Run:
    """Go on where a run failed or was cancelled, with a new run in its conversation and its revision.

    Raises:
        AgentArchived: the agent starts no runs.
        RunNotResumable: it has succeeded or still goes on.
        ConversationBusy: another run goes on in the conversation.
    """
    _refuse_archived(run.agent)
    if run.status not in (RunStatus.FAILED, RunStatus.CANCELLED):
        raise RunNotResumable(
            "Only a run that failed or was cancelled can be resumed. Start a new run in its conversation instead."
        )
    messages = Message.objects.filter(run=run)
    if messages.exists() and not messages.read_at().exists():
        raise RunNotResumable("What was said in this run was rewound. Start a new run in its conversation instead.")
    wanted = RunRequest(
        input=run.task, conversation=run.conversation, task_id=run.task_id, limits=limits, **(request or {})
    )
    new = _insert(run.agent, run.conversation, wanted, by=by, resumes=run)
    append_event(new.pk, "run", status=new.status, agent=run.agent_id, conversation=run.conversation_id, resumes=run.pk)
    wake(new)
    return new


def wake(run: Run) -> None:
    """Queue the job that goes on with a run; one that is queued or running stays the only one."""
    job = Job(kind=KIND, project_id=run.project_id, subject=str(run.pk), requested_by=run.created_by)
    job.request_id = run.request_id
    job.traceparent = structlog.contextvars.get_contextvars().get("traceparent", "")
    enqueue(job)


def _insert_replacing(agent: Agent, conversation: Conversation, request: RunRequest, *, by: Actor) -> Run:
    """Insert a run, in place of the open one if that is wanted; of several that want it at once, the last one stays."""
    for _ in range(MOST_REPLACED if request.replaces_open else 0):
        _end_open_run(conversation, by=by)
        try:
            return _insert(agent, conversation, request, by=by)
        except ConversationBusy:
            continue  # another one was quicker
    return _insert(agent, conversation, request, by=by)


def _end_open_run(conversation: Conversation, *, by: Actor) -> None:
    """Cancel the run that goes on in a conversation. A worker that has it writes nothing more (runtime/loop/fence.py).

    Raises:
        ConversationBusy: it makes a call right now, whose end has to be written down.
    """
    open_run = Run.objects.live().filter(conversation=conversation).first()
    run = lock_run(open_run.pk) if open_run else None
    if run is None or not run.is_live:
        return
    if run.effects.filter(status=Effect.Status.STARTED).exists():
        raise ConversationBusy(f"Run {run.pk} makes a call right now. Send the message again in a moment.")
    run.cancel_requested_at = timezone.now()
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=run.cancel_requested_at)
    append_event(run.pk, "cancel", by=by.label)
    finish_run(run, status=RunStatus.CANCELLED, reason=StopReason.CANCELLED)


def _check_user(conversation: Conversation, user_id: str) -> None:
    """Refuse another user's message: a person is erased with whole conversations."""
    if user_id and redact_text(user_id) != conversation.user_id:
        raise InvalidInput(
            {"/user_id": ["This conversation is of another end user, or names none. Start a new conversation."]}
        )


def _refuse_archived(agent: Agent) -> None:
    if agent.archived_at is not None:
        raise AgentArchived(f"The agent {agent.name} is archived and starts no runs. Use another agent.")


def _insert(
    agent: Agent, conversation: Conversation, request: RunRequest, *, by: Actor, resumes: Run | None = None
) -> Run:
    revision = resumes.revision if resumes else agent.current
    assert revision is not None  # every agent has one
    limits = request.limits or Limits.model_validate(revision.limits)
    run = Run(
        id=uuid7(),
        project_id=agent.project_id,
        agent=agent,
        revision=revision,
        conversation=conversation,
        resumes=resumes,
        task=read_task(request.input),
        task_id=request.task_id,
        max_steps=limits.max_steps,
        max_tokens=limits.max_tokens,
        max_cost_usd=limits.max_cost_usd,
        max_seconds=limits.max_seconds,
        approval_seconds=limits.approval_seconds,
        created_by=by.label,
        client=request.client,
        api_key=request.api_key,
        request_id=request.request_id,
    )
    try:
        # A savepoint: a constraint decides which of two runs is the open one, and the transaction survives the loser.
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError as error:
        if "agents_run_one_live" not in str(error):
            raise
        refuse_open_run(conversation)
        raise ConversationBusy("A run went on in this conversation a moment ago. Send the message again.") from None
    lock_conversation(conversation)
    run.refresh_from_db(fields=["created_at"])
    return run
