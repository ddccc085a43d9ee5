"""The durable queue of reflections and the ledger of model calls."""

from typing import Self

from django.db import models
from django.db.models import Min, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import one_of
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.consolidation.models import ConsolidationRun, Suggestion, SuggestionEvidence

__all__ = [
    "ConsolidationRun",
    "DailySpend",
    "ModelCall",
    "Proposal",
    "Reflection",
    "ReflectionQuerySet",
    "Suggestion",
    "SuggestionEvidence",
    "WorkerHeartbeat",
]


class ReflectionQuerySet(models.QuerySet["Reflection"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def live(self) -> Self:
        """Reflections that still have work to do."""
        return self.filter(status__in=Reflection.LIVE)

    def waiting(self) -> Self:
        """Reflections whose time has come and that nobody has taken, by the clock of the database."""
        return self.filter(status__in=Reflection.WAITING, available_at__lte=Now())

    def abandoned(self) -> Self:
        """Reflections whose worker let its lease run out."""
        return self.filter(status=Reflection.Status.RUNNING, lease_until__lt=Now())

    def due(self) -> Self:
        """Reflections a worker may claim now."""
        return self.waiting() | self.abandoned()

    def oldest_due_age_seconds(self) -> float:
        """Return for how long the reflection that has waited longest could have been claimed; 0 where none waits."""
        waiting = self.waiting().aggregate(age=Now() - Min("available_at"))["age"]
        abandoned = self.abandoned().aggregate(age=Now() - Min("lease_until"))["age"]
        return max((age.total_seconds() for age in (waiting, abandoned) if age), default=0.0)


class ReflectionStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    RETRY = "retry"
    DEFERRED_BUDGET = "deferred_budget", "waiting for budget"
    DONE = "done"
    DEAD = "dead"


class Reflection(models.Model):
    """One pass of a reflector over one trajectory. The row is the job: the broker only rings the bell.

    `attempts` grows at every claim and is the fencing token: whoever holds an older number may write nothing.
    """

    Status = ReflectionStatus

    WAITING = (Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET)
    LIVE = (*WAITING, Status.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="reflections")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="reflections")
    status = models.TextField(choices=Status.choices, default=Status.QUEUED)
    available_at = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveIntegerField(default=0)
    lease_owner = models.TextField(blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    reflector = models.TextField(blank=True, default="")
    reflector_version = models.TextField(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    model = models.TextField(blank=True, default="")
    heuristics_proposed = models.PositiveIntegerField(default=0)
    skip_reason = models.TextField(blank=True, default="", help_text="Why nothing was proposed.")
    last_error_code = models.TextField(blank=True, default="")
    last_error = models.TextField(blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    requested_by = models.TextField(blank=True, default="")
    request_id = models.TextField(blank=True, default="")
    traceparent = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ReflectionQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("status", ReflectionStatus, "reflection_reflection_status_known"),
            models.UniqueConstraint(
                fields=["project", "trajectory"],
                condition=Q(status__in=["queued", "running", "retry", "deferred_budget"]),
                name="reflection_reflection_one_live",
            ),
            models.CheckConstraint(
                condition=~Q(status="running") | Q(lease_until__isnull=False),
                name="reflection_reflection_running_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(status="running") | Q(lease_until__isnull=True),
                name="reflection_reflection_lease_ends_with_it",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["done", "dead"], finished_at__isnull=False)
                | (~Q(status__in=["done", "dead"]) & Q(finished_at__isnull=True)),
                name="reflection_reflection_end_is_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["available_at"],
                condition=Q(status__in=["queued", "retry", "deferred_budget"]),
                name="reflection_reflection_due",
            ),
            models.Index(fields=["lease_until"], condition=Q(status="running"), name="reflection_reflection_leases"),
            models.Index(fields=["project", "status", "-created_at"], name="reflection_reflection_list"),
        ]
        permissions = [("requeue_reflection", "Can queue reflections again")]

    def __str__(self) -> str:
        return f"{self.status} reflection of {self.trajectory_id}"


class ProposalEffect(models.TextChoices):
    NEW = "new"
    SUPPORT = "support"
    MERGE = "merge"


class Proposal(models.Model):
    """What one reflection did: a new heuristic, support for an existing one, or a proposal to merge."""

    Effect = ProposalEffect

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    reflection = models.ForeignKey(Reflection, on_delete=models.CASCADE, related_name="proposals")
    ordinal = models.PositiveSmallIntegerField()
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="proposals")
    near = models.ForeignKey(
        Heuristic,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="What it may be merged into.",
    )
    effect = models.TextField(choices=Effect.choices)
    similarity = models.FloatField(null=True)
    findings = models.JSONField(
        default=list, blank=True, help_text="What the checks found for the reviewer: [{code, message}]."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["reflection", "ordinal"]
        constraints = [
            one_of("effect", ProposalEffect, "reflection_proposal_effect_known"),
            models.UniqueConstraint(fields=["reflection", "ordinal"], name="reflection_proposal_ordinal_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.effect} {self.heuristic_id}"


class ModelCall(models.Model):
    """One answered call to a language model, committed as soon as it came: the recovery point of whoever asked."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    reflection = models.ForeignKey(Reflection, null=True, on_delete=models.CASCADE, related_name="model_calls")
    consolidation = models.ForeignKey(ConsolidationRun, null=True, on_delete=models.CASCADE, related_name="model_calls")
    step = models.TextField(help_text="What the call was for, for example reflect or reflect:repair.")
    prompt_sha256 = models.CharField(max_length=64)
    provider = models.TextField()
    model = models.TextField()
    response = models.TextField(help_text="The model's answer as it came.")
    finish_reason = models.TextField(blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    latency_ms = models.FloatField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["reflection", "step", "prompt_sha256"], name="reflection_modelcall_recovery_point"
            ),
            models.UniqueConstraint(
                fields=["consolidation", "step", "prompt_sha256"],
                condition=Q(consolidation__isnull=False),
                name="reflection_modelcall_of_consolidation",
            ),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="reflection_modelcall_recent")]

    def __str__(self) -> str:
        return f"{self.provider} {self.model} {self.step}"


class DailySpend(models.Model):
    """What a project spent on models in one UTC day: reserved before a call, settled after it."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    calls = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)

    class Meta:
        verbose_name_plural = "daily spend"
        ordering = ["-day"]
        constraints = [models.UniqueConstraint(fields=["project", "day"], name="reflection_dailyspend_one_a_day")]

    def __str__(self) -> str:
        return f"{self.day}: {self.tokens} tokens"


class ProviderStateName(models.TextChoices):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open", "half open"


class ProviderState(models.Model):
    """Whether a provider answers, as all workers together have seen it (reliability B10).

    After several failures in a row it is left alone (open) until `opened_until`; then one call goes through as a probe
    (half open), whose end decides.
    """

    State = ProviderStateName

    provider = models.TextField(primary_key=True)
    state = models.TextField(choices=State.choices, default=State.CLOSED)
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    opened_until = models.DateTimeField(null=True)
    rest_seconds = models.FloatField(default=0, help_text="How long the next rest is.")
    last_error_code = models.TextField(blank=True, default="")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["provider"]
        constraints = [one_of("state", ProviderStateName, "reflection_providerstate_state_known")]

    def __str__(self) -> str:
        return f"{self.provider}: {self.state}"


class WorkerHeartbeat(models.Model):
    """When a worker last showed life, last tried to claim a reflection, and last looked for forgotten ones."""

    name = models.TextField(primary_key=True)
    seen_at = models.DateTimeField(default=timezone.now)
    last_claim_at = models.DateTimeField(null=True)
    last_sweep_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
