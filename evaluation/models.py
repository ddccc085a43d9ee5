"""Stored evaluations, and the rows of others under the names that their pages have."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from evaluation.experiments.models import Experiment, Look
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import FIGURES, StoredJson
from reflection.jobs.models import Job
from runtime.models.changes import EvaluationRow, RowKind, RowsOfKind

__all__ = [
    "EvaluationRun",
    "Evolution",
    "Experiment",
    "Look",
    "ShadowAnswer",
]


class EvaluationRunStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


class EvaluationRun(models.Model):
    """One evaluation: its options, the versions it ran with, and its results.

    `units` holds each finished part, so that a killed run can resume. `results` is the report, empty until the end.
    `project` and `job` are set if an API client requested the run.
    """

    Status = EvaluationRunStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    # The report has to outlive its job.
    job = models.OneToOneField(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluation")
    status = models.TextField(choices=Status.choices, default=Status.RUNNING)
    suites = ArrayField(models.TextField())
    configuration = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    units = StoredJson(default=dict, kept=FIGURES)
    results = StoredJson(default=dict, kept=FIGURES)
    failure = models.TextField(blank=True, default="")
    requested_by = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=EvaluationRunStatus.values), name="evaluation_run_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["finished", "failed"], finished_at__isnull=False)
                | Q(status__in=["queued", "running"], finished_at__isnull=True),
                name="evaluation_run_end_has_time",
            ),
            models.CheckConstraint(
                condition=Q(
                    configuration__contains={}, versions__contains={}, units__contains={}, results__contains={}
                ),
                name="evaluation_run_parts_are_objects",
            ),
        ]
        indexes = [models.Index(fields=["project", "-created_at", "-id"], name="evaluation_run_recent")]

    def __str__(self) -> str:
        return f"{', '.join(self.suites)}: {self.status}"


class Evolution(EvaluationRow):
    """An evolution of an agent: what it was started with, and what the candidate that it chose did on the hold-out."""

    objects = RowsOfKind(RowKind.EVOLUTION)  # type: ignore[misc]

    class Meta:
        proxy = True
        verbose_name = "evolution"

    def __str__(self) -> str:
        return f"{self.agent.name if self.agent else 'demo'} on {self.name}"


class ShadowAnswer(EvaluationRow):
    """What the candidate would have answered to one request. No agent is given it."""

    objects = RowsOfKind(RowKind.ANSWER)  # type: ignore[misc]

    class Meta:
        proxy = True
        ordering = ["-at", "-id"]
        verbose_name = "shadow answer"

    def __str__(self) -> str:
        return f"shadow of {self.retrieval_id}"
