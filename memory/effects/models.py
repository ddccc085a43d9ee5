"""What agents say about the lessons they were given."""

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


class HeuristicFeedback(models.Model):
    """A verdict on one heuristic in one run. Counted once per client and run, so that repeating it changes nothing."""

    Verdict = HeuristicFeedbackVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="feedback")
    trajectory = models.ForeignKey(Trajectory, null=True, blank=True, on_delete=models.CASCADE, related_name="feedback")
    retrieval = models.ForeignKey(
        Retrieval, null=True, blank=True, on_delete=models.SET_NULL, related_name="feedback", db_constraint=False
    )
    verdict = models.TextField(choices=Verdict.choices)
    helpful = models.BooleanField(null=True, blank=True)
    comment = StoredText(blank=True, default="")
    client = models.TextField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "heuristic feedback"
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("verdict", HeuristicFeedbackVerdict, "memory_feedback_verdict_known"),
            models.UniqueConstraint(
                fields=["heuristic", "client", "trajectory"],
                condition=Q(trajectory__isnull=False),
                name="memory_feedback_once_a_run",
            ),
            models.UniqueConstraint(
                fields=["heuristic", "client", "retrieval"],
                condition=Q(trajectory__isnull=True, retrieval__isnull=False),
                name="memory_feedback_once_a_retrieval",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.heuristic_id}"


class UsageVerdictVerdict(models.TextChoices):
    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_APPLICABLE = "not_applicable"
    UNCLEAR = "unclear"  # the run does not show it


class UsageVerdict(models.Model):
    """One judge's verdict on one lesson in one run. What the agent itself says is `HeuristicFeedback`.

    One for a lesson and a run, so that judging again moves nothing; a later judge replaces an earlier one.
    """

    Verdict = UsageVerdictVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="usage_verdicts", db_index=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="usage_verdicts")
    retrieval = models.ForeignKey(
        Retrieval, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    content_sha256 = models.CharField(max_length=64, help_text="The wording the run was given.")
    verdict = models.TextField(choices=Verdict.choices)
    step = models.PositiveIntegerField(null=True, help_text="The step that shows it.")
    judge = models.TextField(help_text="Who read the run: rules or llm.")
    judge_version = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("verdict", UsageVerdictVerdict, "memory_usageverdict_verdict_known"),
            models.UniqueConstraint(fields=["heuristic", "trajectory"], name="memory_usageverdict_once_a_run"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.heuristic_id}"
