"""What runs did with the lessons they were given, as agents and judges say."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memory.constraints import one_of
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.stored_text import StoredText


class HeuristicFeedbackVerdict(models.TextChoices):
    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_APPLICABLE = "not_applicable"


class UsageVerdictVerdict(models.TextChoices):
    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_APPLICABLE = "not_applicable"
    UNCLEAR = "unclear"  # the run does not show it


class UsageVerdictQuerySet(models.QuerySet["UsageVerdict"]):
    def of_judges(self) -> Self:
        """Those that a judge read from the run."""
        return self.exclude(judge="")


class UsageVerdict(models.Model):
    """What one run did with one lesson, as a client or a judge says.

    There is one of each client and one of all judges, so that saying it again moves nothing: a later one replaces the
    earlier one.
    """

    Verdict = UsageVerdictVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="+", db_index=False)
    trajectory = models.ForeignKey(Trajectory, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    retrieval = models.ForeignKey(
        Retrieval, null=True, blank=True, on_delete=models.SET_NULL, related_name="verdicts", db_constraint=False
    )
    verdict = models.TextField(choices=Verdict.choices)
    client = models.TextField(blank=True)  # that says it; empty if a judge does
    helpful = models.BooleanField(null=True, blank=True)
    comment = StoredText(blank=True, default="")
    judge = models.TextField(blank=True, default="", help_text="Who read the run: rules or llm.")
    judge_version = models.TextField(blank=True, default="")
    content_sha256 = models.CharField(
        max_length=64, blank=True, default="", help_text="The wording the run was given, if a judge says it."
    )
    step = models.PositiveIntegerField(null=True, help_text="The step that shows it.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = UsageVerdictQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("verdict", UsageVerdictVerdict, "memory_usageverdict_verdict_known"),
            models.CheckConstraint(
                condition=Q(judge="") & ~Q(client="") & ~Q(verdict="unclear")
                | Q(client="", trajectory__isnull=False) & ~Q(judge=""),
                name="memory_usageverdict_of_client_or_judge",
            ),
            models.UniqueConstraint(
                fields=["heuristic", "trajectory", "client"], name="memory_usageverdict_once_a_run"
            ),
            models.UniqueConstraint(
                fields=["heuristic", "client", "retrieval"],
                condition=Q(trajectory__isnull=True, retrieval__isnull=False),
                name="memory_usageverdict_once_a_retrieval",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.heuristic_id}"


class HeuristicFeedbackManager(models.Manager["HeuristicFeedback"]):
    def get_queryset(self) -> models.QuerySet["HeuristicFeedback"]:
        return super().get_queryset().filter(judge="")


class HeuristicFeedback(UsageVerdict):
    """What a client says itself."""

    Verdict = HeuristicFeedbackVerdict  # type: ignore[assignment]  # a client knows what it did

    objects = HeuristicFeedbackManager()  # type: ignore[assignment, misc]

    class Meta:
        proxy = True
        verbose_name_plural = "heuristic feedback"
