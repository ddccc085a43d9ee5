"""Conversations and messages as clients send and read them."""

import base64
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from memory.api.input import WHOLE, Input, OneOf, wrong_member
from memory.api.output import Pagination
from runtime.models.conversations import Conversation, Message

# The first bytes of a file of each type.
_BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
    "text/plain": b"",
}


class AttachmentInput(Input):
    """An image or a file that comes with a message."""

    media_type: Annotated[str, Field(json_schema_extra={"enum": list(_BEGINNINGS)})]
    data: Annotated[str, Field(min_length=1, description="The bytes in base64.", json_schema_extra={"format": "byte"})]

    @model_validator(mode="after")
    def _is_what_it_says(self) -> "AttachmentInput":
        if self.media_type not in _BEGINNINGS:
            raise wrong_member("media_type", f"Send one of {', '.join(_BEGINNINGS)}.")
        try:
            data = base64.b64decode(self.data, validate=True)
        except ValueError:
            raise wrong_member("data", "Send the bytes in base64 (RFC 4648, section 4), without line breaks.") from None
        is_other_riff = self.media_type == "image/webp" and data[8:12] != b"WEBP"  # sound and video begin so, too
        if not data.startswith(_BEGINNINGS[self.media_type]) or is_other_riff:
            raise wrong_member("data", f"The bytes do not begin as {self.media_type} does.")
        if self.media_type.startswith("text/") and not _is_text(data):
            raise wrong_member("data", "Send a text in UTF-8, without NUL.")
        return self


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


class RewindInput(Input):
    """What the model goes on reading of a conversation."""

    message: Annotated[
        Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE],
        Field(description="The number of the last message that stays; 0 for none."),
    ]


class ForkInput(Input):
    """What a new conversation begins with."""

    message: Annotated[
        Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE] | None,
        Field(description="The number of the last message that is copied; all are if left out."),
    ] = None


class ConversationAnswer(BaseModel):
    """A conversation."""

    id: UUID
    agent: UUID
    user_id: str
    messages: Annotated[int, Field(description="The number of its last message.")]
    window_tokens: Annotated[int | None, Field(description="The model's window, where it said that it is smaller.")]
    compaction_wanted: Annotated[bool, Field(description="Whether it is shortened before the model is asked next.")]
    forked_from: UUID | None
    rewound_to: Annotated[int | None, Field(description="The last message that the last rewinding kept.")]
    rewound_by: str
    rewound_at: datetime | None
    created_by: str
    created_at: datetime


class AttachmentAnswer(BaseModel):
    """An image or a file of a message. `bytes` is its size."""

    media_type: str
    bytes: int


class MessageAnswer(BaseModel):
    """A message.

    `is_reply`: it is meant for the user. `compacted`: a summary stands for it in the prompt. `rewound`: the model no
    longer reads it.
    """

    seq: int
    role: Annotated[str, OneOf(Message.Role)]
    content: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    attachments: list[AttachmentAnswer]
    run: UUID | None
    effect: UUID | None
    is_reply: bool
    compacted: bool
    rewound: bool
    created_by: str
    created_at: datetime


class MessagePage(BaseModel):
    """Messages, in their order."""

    results: list[MessageAnswer]
    pagination: Pagination


def describe_conversation(conversation: Conversation) -> dict[str, Any]:
    related = {
        "agent": conversation.agent_id,
        "messages": conversation.messages_written,
        "forked_from": conversation.forked_from_id,
    }
    plain = ConversationAnswer.model_fields.keys() - related.keys()
    return {name: getattr(conversation, name) for name in plain} | related


def describe_message(message: Message) -> dict[str, Any]:
    related = {
        "attachments": [
            {"media_type": attachment["media_type"], "bytes": len(base64.b64decode(attachment["data"]))}
            for attachment in message.attachments or ()
        ],
        "run": message.run_id,
        "effect": message.effect_id,
        "compacted": message.compacted_by_id is not None,
        "rewound": message.rewound_at is not None,
    }
    plain = MessageAnswer.model_fields.keys() - related.keys()
    return {name: getattr(message, name) for name in plain} | related
