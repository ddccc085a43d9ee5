"""Blocks: memory that stands in the prompt of agents, all that was ever written to it, and what people decided."""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.limits import DEFAULT_BLOCK_CHARS, MAX_BLOCK_CHARS
from memory.projects.models import Project
from memory.review.models import AbstractRevision, ReviewKind, ReviewSubject
from memory.stored_text import BY_PEOPLE, StoredJson, StoredText

LABEL = r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,99}$"


class BlockPolicy(models.TextChoices):
    DIRECT = "direct", "In effect at once"
    OVERLAY = "overlay", "In its conversation only, then proposed"
    PROPOSE = "propose", "After review"


class Block(ReviewSubject):
    """A labelled text of limited length. Agents of the project may share it; which do is not known here.

    `current` is the revision in effect. `policy` says what an edit does: it is in effect at once, or in one
    conversation alone and proposed at its end, or never before a review.
    """

    Policy = BlockPolicy

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    label = StoredText(help_text="What it is about: persona, human or a name of your own.", kept=BY_PEOPLE)
    description = StoredText(
        blank=True, default="", help_text="What belongs into it; agents read this.", kept=BY_PEOPLE
    )
    char_limit = models.PositiveIntegerField(
        "character limit", default=DEFAULT_BLOCK_CHARS, help_text="The most characters its value may have."
    )
    read_only = models.BooleanField(default=False, help_text="Whether agents may only read it.")
    policy = models.TextField(choices=Policy.choices, default=Policy.DIRECT, help_text="When an edit is in effect.")
    current = models.OneToOneField(
        "memory.BlockRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    created_by = models.TextField(editable=False, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("policy", BlockPolicy, "memory_block_policy_known"),
            models.CheckConstraint(condition=Q(label__regex=LABEL), name="memory_block_label_is_a_name"),
            models.CheckConstraint(
                condition=Q(char_limit__gte=1, char_limit__lte=MAX_BLOCK_CHARS), name="memory_block_limit_in_range"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="memory_block_newest"),
            models.Index(fields=["project", "label"], name="memory_block_by_label"),
        ]
        permissions = [("review_block", "Can approve and reject proposed edits of blocks")]

    def __str__(self) -> str:
        return self.label

    @property
    def review_kind(self) -> str:
        return ReviewKind.BLOCK


class BlockRevisionQuerySet(models.QuerySet["BlockRevision"]):
    def waiting(self) -> Self:
        """Those that wait for a decision."""
        return self.filter(status=BlockRevisionStatus.PROPOSED)


class BlockRevisionOperation(models.TextChoices):
    CREATE = "create", "Created"
    APPEND = "append", "Appended"
    REPLACE = "replace", "Replaced"
    PATCH = "patch", "Patched"
    SET = "set", "Set"
    UNDO = "undo", "Undone"
    WITHDRAW = "withdraw", "Taken out"


class BlockRevisionStatus(models.TextChoices):
    APPLIED = "applied", "Applied"
    OVERLAY = "overlay", "In one conversation"
    PROPOSED = "proposed", "Waiting for review"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"
    SUPERSEDED = "superseded", "Superseded"


class BlockRevision(AbstractRevision):
    """One value of a block, and the edit that made it. The database refuses changes, its status aside.

    `base` is the revision that the edit was made on. `replaced` is the one that was in effect when this one took
    effect, which an undo returns to. `restores` is the revision whose value an undo brought back. `edit` are the texts
    of the edit, so that a waiting one can be made again on a newer value.
    """

    Operation = BlockRevisionOperation
    Status = BlockRevisionStatus

    block = models.ForeignKey(Block, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    value = StoredText(blank=True, default="")
    operation = models.TextField(choices=Operation.choices)
    edit = StoredJson(default=dict, blank=True)
    base = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    replaced = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    restores = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    status = models.TextField(choices=Status.choices)
    conversation_id = models.UUIDField(null=True, help_text="The conversation it was written in.")
    run_id = models.UUIDField(null=True, help_text="The run that wrote it.")
    reason = StoredText(blank=True, default="")
    erased_at = models.DateTimeField(null=True, editable=False)

    objects = BlockRevisionQuerySet.as_manager()

    class Meta:
        ordering = ["block", "-number"]
        constraints = [
            one_of("operation", BlockRevisionOperation, "memory_blockrevision_operation_known"),
            one_of("status", BlockRevisionStatus, "memory_blockrevision_status_known"),
            not_blank("created_by", "memory_blockrevision_by_not_blank"),
            models.UniqueConstraint(fields=["block", "number"], name="memory_blockrevision_number_unique"),
            models.CheckConstraint(
                condition=~Q(status="overlay") | Q(conversation_id__isnull=False),
                name="memory_blockrevision_overlay_has_conversation",
            ),
            models.CheckConstraint(
                condition=Q(restores__isnull=True) | Q(operation="undo"), name="memory_blockrevision_undo_restores"
            ),
        ]
        indexes = [
            models.Index(
                fields=["block", "conversation_id", "-number"],
                name="memory_blockrevision_overlay",
                condition=Q(status__in=["overlay", "proposed"], conversation_id__isnull=False),
            ),
            models.Index(
                fields=["project", "-created_at"], name="memory_blockrevision_waiting", condition=Q(status="proposed")
            ),
            models.Index(F("run_id"), name="memory_blockrevision_of_run", condition=Q(run_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"revision {self.number}"
