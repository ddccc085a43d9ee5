"""Decisions of people, appended and never changed."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.models.constraints import not_blank, one_of
from memory.models.heuristic import Heuristic, HeuristicRevision
from memory.models.project import ApiKey, Project


class ReviewDecision(models.TextChoices):
    APPROVE = "approve"
    FIRST_APPROVAL = "first_approval", "First approval"
    EDIT = "edit"
    REJECT = "reject"
    RETIRE = "retire"
    QUARANTINE = "quarantine"
    MERGE = "merge"
    UNDO = "undo"
    REFLECT_AGAIN = "reflect_again", "Another reflection"


class Review(models.Model):
    """One decision by one person or a named policy on one exact content hash. The database refuses changes."""

    Decision = ReviewDecision

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="reviews")
    revision = models.ForeignKey(HeuristicRevision, on_delete=models.CASCADE, related_name="reviews")
    decision = models.TextField(choices=Decision.choices)
    content_sha256 = models.CharField(max_length=64)
    reason = models.TextField(blank=True, default="")
    reviewer = models.TextField(help_text="Label that outlives the account, for example user:ana.")
    reviewer_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reviewer_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    seconds_on_screen = models.FloatField(null=True, blank=True)
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("decision", ReviewDecision, "memory_review_decision_known"),
            not_blank("reviewer", "memory_review_reviewer_not_blank"),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="memory_review_recent")]

    def __str__(self) -> str:
        return f"{self.decision} by {self.reviewer}"
