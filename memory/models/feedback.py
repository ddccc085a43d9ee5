"""What agents say about the lessons they were given."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memory.ids import uuid7
from memory.models.constraints import one_of
from memory.models.heuristic import Heuristic
from memory.models.project import Project
from memory.models.retrieval import Retrieval
from memory.models.trajectory import Trajectory


class HeuristicFeedbackVerdict(models.TextChoices):
    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_APPLICABLE = "not_applicable"


class HeuristicFeedback(models.Model):
    """A verdict on one heuristic in one run. Counted once for a client and run, so that repeating it moves nothing."""

    Verdict = HeuristicFeedbackVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="feedback")
    trajectory = models.ForeignKey(Trajectory, null=True, blank=True, on_delete=models.CASCADE, related_name="feedback")
    retrieval = models.ForeignKey(Retrieval, null=True, blank=True, on_delete=models.SET_NULL, related_name="feedback")
    verdict = models.TextField(choices=Verdict.choices)
    helpful = models.BooleanField(null=True, blank=True)
    comment = models.TextField(blank=True, default="")
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
