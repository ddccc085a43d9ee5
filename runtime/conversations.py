"""Write messages into a conversation; rewind, fork, shorten and delete one."""

from typing import Any

from django.db import connection, transaction
from django.urls import reverse

from memory.database_clock import database_now
from memory.errors import InvalidInput
from memory.projects.actors import Actor, name_actor
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from runtime.errors import ConversationBusy, ConversationErased
from runtime.models.conversations import Compaction, CompactionMethod, Conversation, Message
from runtime.models.effects import Approval, ApprovalStatus
from runtime.models.runs import Run

# One statement: the number is that of the row, whose lock lasts until the commit
_COUNT = (
    "UPDATE agents_conversation SET messages_written = messages_written + 1 WHERE id = %s RETURNING messages_written"
)


def add_message(run: Run, *, role: str, content: str, **fields: Any) -> Message:
    """Write the next message of a run's conversation, in the caller's transaction.

    Raises:
        ConversationErased: it was deleted meanwhile.
    """
    conversation_id = run.conversation_id
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [conversation_id])
        row = cursor.fetchone()
    if row is None:
        raise ConversationErased
    return Message.objects.create(
        project_id=run.project_id,
        conversation_id=conversation_id,
        run=run,
        seq=row[0],
        role=role,
        content=content.replace("\x00", "\ufffd"),
        **fields,
    )


@transaction.atomic
def rewind_conversation(conversation: Conversation, *, to: int, by: Actor) -> Conversation:
    """Let the model no longer read what follows message `to`; the messages stay, and what was done stays done.

    Raises:
        ConversationBusy: a run goes on in it.
        InvalidInput: it has no such message that the model reads.
    """
    conversation = _lock_idle(conversation)
    if to:
        _find_read(conversation, to)
    now = database_now()
    Message.objects.read_at().filter(conversation=conversation, seq__gt=to).update(rewound_at=now)
    newest = conversation.compactions.order_by("-number").first()
    # The newest summary tells what was just rewound. An earlier one that does not has to hold again.
    if newest is not None and newest.summarised_through > to:
        _restore_compaction(conversation, to=to, number=newest.number + 1)
    name_actor(by)
    conversation.rewound_to, conversation.rewound_by, conversation.rewound_at = to, by.label, now
    conversation.compaction_wanted = False
    conversation.save(update_fields=["rewound_to", "rewound_by", "rewound_at", "compaction_wanted"])
    return conversation


@transaction.atomic
def fork_conversation(conversation: Conversation, *, through: int | None = None, by: Actor) -> Conversation:
    """Return a new conversation with copies of the messages up to `through`, or of all; the old one goes on as it is.

    Raises:
        ConversationBusy: a run goes on in it.
        InvalidInput: it has no such message that the model reads.
    """
    conversation = _lock_idle(conversation)
    kept = Message.objects.read_at().filter(conversation=conversation).order_by("seq")
    if through is not None:
        _find_read(conversation, through)
        kept = kept.filter(seq__lte=through)
    messages = list(kept)
    last = messages[-1].seq if messages else 0
    fork = Conversation.objects.create(
        project_id=conversation.project_id,
        agent_id=conversation.agent_id,
        forked_from=conversation,
        user_id=conversation.user_id,
        messages_written=last,
        window_tokens=conversation.window_tokens,
        created_by=by.label,
    )
    Message.objects.bulk_create([_copy(message, fork) for message in messages], batch_size=500)
    _restore_compaction(conversation, to=last, number=1, into=fork)
    return fork


@transaction.atomic
def want_compaction(conversation: Conversation) -> Conversation:
    """Let a conversation be shortened before the model is asked next: all but its newest turn is summarised.

    Raises:
        ConversationBusy: a run goes on in it.
    """
    conversation = _lock_idle(conversation)
    conversation.compaction_wanted = True
    conversation.save(update_fields=["compaction_wanted"])
    return conversation


@transaction.atomic
def delete_conversation(conversation: Conversation, *, by: Actor) -> None:
    """Erase a conversation: its runs with what was learnt only from them, its messages, and their copies in forks.

    Raises:
        ConversationBusy: a run goes on in it.
    """
    conversation = _lock_idle(conversation)
    # First, while the conversation still leads to its trajectories.
    for trajectory in Trajectory.objects.filter(agent_run__conversation=conversation).order_by("pk"):
        erase_trajectory(trajectory, by=by)
    name_actor(by)
    conversation.delete()


def refuse_open_run(conversation: Conversation) -> None:
    """Refuse an operation that needs an idle conversation.

    Raises:
        ConversationBusy: a run goes on in it; the message says what it does and what to do about it.
    """
    run = Run.objects.live().filter(conversation=conversation).first()
    if run is None:
        return
    approval = (
        Approval.objects.filter(run=run, status=ApprovalStatus.PENDING).select_related("effect").order_by("id").first()
    )
    if approval is None:
        raise ConversationBusy(
            f"Run {run.pk} is still open in this conversation. Wait until it ends, or cancel it. To replace it with a "
            'new message, send "open_run": "replace".'
        )
    until = f" until {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC" if approval.expires_at else ""
    raise ConversationBusy(
        f"Run {run.pk} is still open in this conversation. It is waiting{until} for a decision about "
        f"{approval.effect.tool}. Decide with POST /api/v1/effects/{approval.effect_id}/decide and arguments_sha256 "
        f"{approval.arguments_sha256}, or on the page {reverse('admin:agents_approval_change', args=[approval.pk])}. "
        'You can also cancel the run, or replace it with a new message: send "open_run": "replace".'
    )


def _lock_idle(conversation: Conversation) -> Conversation:
    """Lock an idle conversation; no run can begin in it until the transaction ends."""
    locked = lock_conversation(conversation)
    refuse_open_run(locked)
    return locked


def lock_conversation(conversation: Conversation) -> Conversation:
    """Return a conversation, locked against changes and deletion until the transaction ends.

    Raises:
        ConversationErased: it was deleted meanwhile.
    """
    locked = Conversation.objects.select_for_update().filter(pk=conversation.pk).first()
    if locked is None:
        raise ConversationErased
    return locked


def _find_read(conversation: Conversation, seq: int) -> Message:
    message = Message.objects.read_at().filter(conversation=conversation, seq=seq).first()
    if message is None:
        raise InvalidInput({"/message": [f"There is no message {seq}, or it was rewound. List the messages."]})
    return message


def _restore_compaction(conversation: Conversation, *, to: int, number: int, into: Conversation | None = None) -> None:
    """Restore the last compaction that summarises nothing after message `to`, or none if there is no such one."""
    old = conversation.compactions.filter(summarised_through__lte=to).order_by("-number").first()
    if old is None and into is not None:
        return
    Compaction.objects.create(
        project_id=conversation.project_id,
        conversation=into or conversation,
        number=number,
        method=old.method if old else CompactionMethod.MASK,
        masked_through=min(old.masked_through, to) if old else 0,
        summarised_through=old.summarised_through if old else 0,
        summary=old.summary if old else "",
        prompt_version=old.prompt_version if old else "",
        tokens_before=old.tokens_after if old else 0,
        tokens_after=old.tokens_after if old else 0,
    )


def _copy(message: Message, fork: Conversation) -> Message:
    """Return a copy of a message in a fork. It belongs to no run, so that each run has only what was said in it."""
    words = ("role", "content", "tool_calls", "tool_call_id", "received", "attachments")
    columns = ("project_id", "seq", *words, "effect_id", "is_reply", "created_by")
    kept = {name: getattr(message, name) for name in columns}
    return Message(conversation=fork, copied_from=message, **kept)
