"""Stored evaluations."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from evaluation.evolution.models import Evolution, EvolutionCandidate
from evaluation.experiments.models import Experiment, Look
from evaluation.shadow.models import ShadowAnswer, ShadowMinute
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import FIGURES, StoredJson
from reflection.jobs.models import Job

__all__ = [
    "EvaluationRun",
    "Evolution",
    "EvolutionCandidate",
    "Experiment",
    "Look",
    "ShadowAnswer",
    "ShadowMinute",
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
