"""Write messages into a conversation."""

from typing import Any

from django.db.models import F

from agents.models.conversations import Conversation, Message
from agents.models.runs import Run


def add_message(run: Run, *, role: str, content: str, **fields: Any) -> Message:
    """Write the next message of a run's conversation, in the caller's transaction."""
    conversation_id = run.conversation_id
    Conversation.objects.filter(pk=conversation_id).update(messages_written=F("messages_written") + 1)
    seq = Conversation.objects.values_list("messages_written", flat=True).get(pk=conversation_id)
    return Message.objects.create(
        project_id=run.project_id,
        conversation_id=conversation_id,
        run=run,
        seq=seq,
        role=role,
        content=content.replace("\x00", "\ufffd"),
        **fields,
    )
