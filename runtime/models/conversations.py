"""Conversations and their messages, which stay for good. A compaction only says how they are shown to the model."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.constraints import one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import OF_A_USER, StoredJson, StoredText
from runtime.models.agents import Agent


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)


class Conversation(models.Model):
    """What is said between an agent and those who use it. One run at a time goes on in it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="conversations", db_index=False)
    user_id = StoredText(
        blank=True, default="", db_default="", help_text="The client's own id of its end user.", kept=OF_A_USER
    )
    # The number of the last message. Counted in the statement of runtime/conversations.py, whose lock keeps the order.
    messages_written = models.PositiveIntegerField(default=0, editable=False)
    window_tokens = models.PositiveIntegerField(
        null=True, editable=False, help_text="The model's context window, where it said that it is smaller than set."
    )
    compaction_wanted = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether it is to be shortened before the model is asked next.",
    )
    forked_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="forks", editable=False)
    rewound_to = models.PositiveIntegerField(null=True, editable=False, help_text="The last message that was kept.")
    rewound_by = models.TextField(blank=True, default="", db_default="", editable=False)
    rewound_at = models.DateTimeField(null=True, editable=False)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["agent", "-created_at", "-id"], name="agents_conversation_newest"),
            models.Index(
                fields=["project", "user_id", "-created_at"],
                name="agents_conversation_of_user",
                condition=~Q(user_id=""),
            ),
        ]

    def __str__(self) -> str:
        return f"conversation {self.id}"


class CompactionMethod(models.TextChoices):
    MASK = "mask", "Old results are left out"
    MODEL = "model", "Summarised by the model"
    EXTRACT = "extract", "Summarised by extract"


class Compaction(models.Model):
    """How a conversation is shown to the model from some step on; the newest one holds.

    Tool results up to message `masked_through` are shown as one line each, which says how to read them. Messages up to
    `summarised_through` are shown as `summary`.
    """

    Method = CompactionMethod

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="compactions", db_index=False)
    number = models.PositiveIntegerField()
    method = models.TextField(choices=Method.choices)
    masked_through = models.PositiveIntegerField(default=0)
    summarised_through = models.PositiveIntegerField(default=0)
    summary = StoredText(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    tokens_before = models.PositiveIntegerField()
    tokens_after = models.PositiveIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["conversation", "-number"]
        constraints = [
            one_of("method", CompactionMethod, "agents_compaction_method_known"),
            models.UniqueConstraint(fields=["conversation", "number"], name="agents_compaction_number_unique"),
            models.CheckConstraint(
                condition=Q(summarised_through=0, summary="") | (Q(summarised_through__gt=0) & ~Q(summary="")),
                name="agents_compaction_summary_says_something",
            ),
        ]

    def __str__(self) -> str:
        return f"compaction {self.number}"


class MessageRole(models.TextChoices):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    NOTE = "note", "Note of ERL to the agent"


class MessageQuerySet(models.QuerySet["Message"]):
    def read_at(self, moment: datetime | None = None) -> Self:
        """Return what the model reads now, or read in a step that began then: what was not rewound before."""
        kept = Q(rewound_at__isnull=True)
        return self.filter(kept if moment is None else kept | Q(rewound_at__gt=moment))


class Message(models.Model):
    """One message. An assistant's has the tools it called, a tool's the call that it answers.

    `compacted_by` is the first compaction whose summary stands for it. The model no longer reads a message that was
    rewound; steps that began before did. A fork has copies, which go with what they were copied from.
    """

    Role = MessageRole

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages", db_index=False)
    run = models.ForeignKey("agents.Run", null=True, on_delete=models.SET_NULL, related_name="messages", db_index=False)
    seq = models.PositiveIntegerField()
    role = models.TextField(choices=Role.choices)
    content = StoredText(blank=True, default="")
    tool_calls = StoredJson(default=list, blank=True)
    tool_call_id = models.TextField(blank=True, default="")
    received = StoredJson(
        null=True, editable=False, help_text="An assistant's message as the provider sent it, which it wants back."
    )
    attachments = StoredJson(
        null=True, editable=False, help_text="A user's images and files: media_type, and data in base64."
    )
    effect = models.ForeignKey("agents.Effect", null=True, on_delete=models.SET_NULL, related_name="messages")
    is_reply = models.BooleanField(default=False, help_text="Whether it is meant for the user.")
    compacted_by = models.ForeignKey(Compaction, null=True, on_delete=models.SET_NULL, related_name="messages")
    copied_from = models.ForeignKey(
        "self", null=True, on_delete=models.CASCADE, related_name="copies", editable=False, db_index=False
    )
    rewound_at = models.DateTimeField(null=True, editable=False)
    created_by = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = MessageQuerySet.as_manager()

    class Meta:
        ordering = ["conversation", "seq"]
        constraints = [
            one_of("role", MessageRole, "agents_message_role_known"),
            models.UniqueConstraint(fields=["conversation", "seq"], name="agents_message_seq_unique"),
            models.CheckConstraint(
                condition=(Q(role="tool") & ~Q(tool_call_id="")) | (~Q(role="tool") & Q(tool_call_id="")),
                name="agents_message_only_tools_answer_calls",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "seq"], name="agents_message_of_run"),
            models.Index(fields=["copied_from"], condition=Q(copied_from__isnull=False), name="agents_message_copies"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.seq}"
