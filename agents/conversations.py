"""Write messages into a conversation."""

from typing import Any

from django.db import connection

from agents.models.conversations import Message
from agents.models.runs import Run

# One statement: the number is that of the row, whose lock lasts until the commit
_COUNT = (
    "UPDATE agents_conversation SET messages_written = messages_written + 1 WHERE id = %s RETURNING messages_written"
)


def add_message(run: Run, *, role: str, content: str, **fields: Any) -> Message:
    """Write the next message of a run's conversation, in the caller's transaction."""
    conversation_id = run.conversation_id
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [conversation_id])
        (seq,) = cursor.fetchone()
    return Message.objects.create(
        project_id=run.project_id,
        conversation_id=conversation_id,
        run=run,
        seq=seq,
        role=role,
        content=content.replace("\x00", "\ufffd"),
        **fields,
    )
