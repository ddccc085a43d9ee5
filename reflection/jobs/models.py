"""The durable queue of background work, and the workers that take it."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from django.db import models
from django.db.models import Min, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.runs.models import Trajectory

_AnyJob = TypeVar("_AnyJob", bound="Job", covariant=True)


class JobStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    RETRY = "retry"
    DEFERRED_BUDGET = "deferred_budget", "Waiting for budget"
    DONE = "done"
    DEAD = "dead"


class JobQuerySet(models.QuerySet[_AnyJob]):
    """Queries for jobs of any kind."""

    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def live(self) -> Self:
        """Jobs that still have work to do."""
        return self.filter(status__in=Job.LIVE)

    def waiting(self) -> Self:
        """Jobs whose time has come and that no worker has taken, by the clock of the database."""
        return self.filter(status__in=Job.WAITING, available_at__lte=Now())

    def abandoned(self) -> Self:
        """Jobs whose worker let its lease run out."""
        return self.filter(status=JobStatus.RUNNING, lease_until__lt=Now())

    def due(self) -> Self:
        """Jobs a worker may claim now."""
        return self.waiting() | self.abandoned()

    def oldest_due_age_seconds(self) -> float:
        """Return for how long the job that has waited longest could have been claimed; 0 where none waits."""
        waiting = self.waiting().aggregate(age=Now() - Min("available_at"))["age"]
        abandoned = self.abandoned().aggregate(age=Now() - Min("lease_until"))["age"]
        return max((age.total_seconds() for age in (waiting, abandoned) if age), default=0.0)


class Job(models.Model):
    """One unit of background work. The row is the job: a message to the workers only says that it waits.

    `attempts` grows at every claim and is the fencing token: a worker that holds an older number may write nothing.
    `subject` says what the job is about; of one subject a project has one live job of a kind. `payload` is what the job
    was given, and `result` what it led to; a proxy of this model names their members where a kind has some.
    """

    Status = JobStatus

    WAITING = (Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET)
    LIVE = (*WAITING, Status.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.TextField(editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    subject = models.TextField(editable=False)
    # What a reflection reads, and where a webhook's message goes: the job is deleted along with it.
    trajectory = models.ForeignKey(
        Trajectory, null=True, editable=False, on_delete=models.CASCADE, related_name="jobs", db_index=False
    )
    endpoint = models.ForeignKey(
        "reflection.WebhookEndpoint",
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="jobs",
        db_index=False,
        verbose_name="webhook",
    )
    payload = models.JSONField(default=dict, editable=False)
    result = models.JSONField(default=dict, editable=False)
    status = models.TextField(choices=Status.choices, default=Status.QUEUED)
    available_at = models.DateTimeField(default=timezone.now)
    goes_last = models.BooleanField(default=False, help_text="Whether others of its kind are taken first.")
    attempts = models.PositiveIntegerField(default=0)
    lease_owner = models.TextField(blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    last_error_code = models.TextField(blank=True, default="")
    last_error = models.TextField(blank=True, default="")
    model = models.TextField(blank=True, default="")  # the language model that answered last
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    requested_by = models.TextField(blank=True, default="")
    request_id = models.TextField(blank=True, default="")
    traceparent = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("status", JobStatus, "reflection_job_status_known"),
            models.UniqueConstraint(
                fields=["project", "kind", "subject"],
                # Makes `enqueue` safe: two callers that queue the same at once get one row.
                condition=Q(status__in=["queued", "running", "retry", "deferred_budget"]),
                name="reflection_job_one_live",
            ),
            models.CheckConstraint(
                # A running row without a lease would never be taken by another worker.
                condition=Q(status="running", lease_until__isnull=False)
                | (~Q(status="running") & Q(lease_until__isnull=True)),
                name="reflection_job_lease_while_running",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["done", "dead"], finished_at__isnull=False)
                | (~Q(status__in=["done", "dead"]) & Q(finished_at__isnull=True)),
                name="reflection_job_end_is_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["available_at"],
                # Partial, so that it stays small however many jobs have ended.
                condition=Q(status__in=["queued", "retry", "deferred_budget"]),
                name="reflection_job_due",
            ),
            models.Index(fields=["lease_until"], condition=Q(status="running"), name="reflection_job_leases"),
            models.Index(fields=["project", "kind", "status", "-created_at"], name="reflection_job_list"),
            models.Index(
                fields=["trajectory"], condition=Q(trajectory__isnull=False), name="reflection_job_of_trajectory"
            ),
            models.Index(fields=["endpoint"], condition=Q(endpoint__isnull=False), name="reflection_job_of_endpoint"),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.kind} of {self.subject}"

    def event(self, what: str) -> str:
        """Return the name of an event in the log, such as reflection_finished."""
        return f"{self.kind}_{what}"


_JobManager = models.Manager.from_queryset(JobQuerySet)


class KindManager(_JobManager[_AnyJob]):
    """The jobs of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def get_queryset(self) -> models.QuerySet[_AnyJob]:
        return super().get_queryset().filter(kind=self.kind)

    def create(self, **fields: Any) -> _AnyJob:
        return super().create(**{"kind": self.kind} | fields)


def member(of: str, name: str, default: Any = "", *, read: Callable[[Any], Any] | None = None) -> Any:
    """Return a property that reads one member of a job's `payload` or `result`, converted by `read` from JSON."""

    def get(job: Job) -> Any:
        value = getattr(job, of).get(name, default)
        return value if value is None or read is None else read(value)

    return property(get)


class WorkerHeartbeat(models.Model):
    """When a worker was last alive."""

    name = models.TextField(primary_key=True)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
