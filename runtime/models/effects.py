"""Effects: every call of a tool, written down before it happens; and the decisions of people about them."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import StoredJson, StoredText
from runtime.models.runs import Run, Step
from runtime.models.tools import ToolKind, ToolRevision


class EffectStatus(models.TextChoices):
    PLANNED = "planned"
    WAITING = "waiting", "Waiting for approval"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown", "It is not known whether it happened"
    REFUSED = "refused", "A rule did not let it start"
    REJECTED = "rejected", "A person did not let it start"
    SUPERSEDED = "superseded", "Replaced by an edited call"
    CANCELLED = "cancelled"


class Effect(models.Model):
    """One call of a tool. Its id is the key under which a service can know that it was called before.

    A tool in the sandbox calls functions of its host: those are effects too, with the tool's as `parent`. `replaces` is
    the call that a person edited.
    """

    Kind = ToolKind
    Status = EffectStatus
    OPEN = (EffectStatus.PLANNED, EffectStatus.WAITING, EffectStatus.STARTED, EffectStatus.UNKNOWN)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="effects")
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="effects")
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="children")
    replaces = models.OneToOneField("self", null=True, on_delete=models.SET_NULL, related_name="replaced_by")
    index = models.PositiveIntegerField(help_text="Which call of its answer, or of its parent.")
    tool = models.TextField()
    tool_revision = models.ForeignKey(ToolRevision, null=True, on_delete=models.SET_NULL, related_name="+")
    call_id = models.TextField(blank=True, default="", help_text="What the model calls it.")
    arguments = StoredJson(default=dict)
    arguments_sha256 = models.CharField(max_length=64)
    kind = models.TextField(choices=Kind.choices)
    needs_approval = models.BooleanField(default=False)
    status = models.TextField(choices=Status.choices, default=Status.PLANNED)
    result = StoredText(blank=True, default="")
    error = StoredText(blank=True, default="")
    fence = models.PositiveIntegerField(default=0, help_text="The attempt that started it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["step", "index", "id"]
        constraints = [
            one_of("kind", ToolKind, "agents_effect_kind_known"),
            one_of("status", EffectStatus, "agents_effect_status_known"),
            not_blank("tool", "agents_effect_tool_not_blank"),
            # An edited call takes the place of the one that it replaces.
            models.UniqueConstraint(
                fields=["step", "index"],
                condition=Q(parent__isnull=True) & ~Q(status="superseded"),
                name="agents_effect_index_unique",
            ),
            models.UniqueConstraint(
                fields=["parent", "index"],
                condition=Q(parent__isnull=False) & ~Q(status="superseded"),
                name="agents_effect_child_index_unique",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["started", "succeeded"]) | Q(started_at__isnull=False),
                name="agents_effect_start_is_known",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["planned", "waiting", "started", "unknown"], finished_at__isnull=True)
                | (~Q(status__in=["planned", "waiting", "started", "unknown"]) & Q(finished_at__isnull=False)),
                name="agents_effect_end_is_known",
            ),
            # Calls of all other kinds are simply made again.
            models.CheckConstraint(
                condition=~Q(status="unknown") | Q(kind="unsafe"), name="agents_effect_unknown_only_unsafe"
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["refused", "rejected"]) | ~Q(error=""), name="agents_effect_refusal_says_why"
            ),
        ]
        indexes = [
            # The loop asks for the open calls of a run before each of its actions.
            models.Index(
                fields=["run"],
                condition=Q(status__in=["planned", "waiting", "started", "unknown"]),
                name="agents_effect_open",
            ),
            models.Index(fields=["project", "-created_at"], name="agents_effect_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.tool}"

    @property
    def is_open(self) -> bool:
        return self.status in self.OPEN


class ApprovalStatus(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited", "Approved with other arguments"
    REJECTED = "rejected"
    ANSWERED = "answered", "Answered in place of the tool"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Approval(models.Model):
    """A question to people: may this call happen, or, where it is not known, did it? It holds for these arguments only.

    The database starts no effect that needs an approval without one of the same arguments (runtime/sql/runs.sql).
    """

    Status = ApprovalStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    effect = models.ForeignKey(Effect, on_delete=models.CASCADE, related_name="approvals")
    arguments_sha256 = models.CharField(max_length=64)
    about_unknown = models.BooleanField(default=False, help_text="It was started, and it is not known how it ended.")
    status = models.TextField(choices=Status.choices, default=Status.PENDING)
    reason = StoredText(blank=True, default="")
    requested_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True)
    decided_by = models.TextField(blank=True, default="")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-requested_at", "-id"]
        constraints = [
            one_of("status", ApprovalStatus, "agents_approval_status_known"),
            models.UniqueConstraint(
                fields=["effect"], condition=Q(status="pending"), name="agents_approval_one_pending"
            ),
            models.CheckConstraint(
                condition=Q(status="pending", decided_at__isnull=True, decided_by="")
                | (~Q(status="pending") & Q(decided_at__isnull=False) & ~Q(decided_by="")),
                name="agents_approval_decision_is_known",
            ),
        ]
        permissions = [("decide_approval", "Can decide about calls of agents")]
        indexes = [
            models.Index(F("project"), F("requested_at").desc(), name="agents_approval_newest"),
            models.Index(fields=["expires_at"], condition=Q(status="pending"), name="agents_approval_pending"),
        ]

    def __str__(self) -> str:
        return f"{self.status} approval"
