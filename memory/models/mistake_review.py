"""The words of mistake cards, and what was decided on them."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from memory.ids import uuid7
from memory.models.constraints import not_blank, one_of
from memory.models.mistake import MistakeCard
from memory.models.project import ApiKey, Project
from memory.models.trajectory import Trajectory


class MistakeCardRevisionQuerySet(models.QuerySet["MistakeCardRevision"]):
    def served(self) -> Self:
        """Exactly what agents may be given."""
        return self.filter(served=True)


class MistakeCardRevision(models.Model):
    """The words of a card at one time. Once somebody decided on them they are immutable: the database refuses.

    Words that nobody decided on yet are brought up to date in place, so that a mistake that is reported a thousand
    times has one wording waiting. A trigger fills `content_sha256`, and lets `served` be true only where somebody
    approved exactly that hash.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    mistake_type = models.TextField()
    task_id = models.TextField(blank=True, default="")
    worker_id = models.TextField(blank=True, default="")
    bad_decision = models.TextField(blank=True, default="")
    correct_decision = models.TextField(blank=True, default="")
    lesson = models.TextField(blank=True, default="")
    trajectory = models.ForeignKey(
        Trajectory,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Whose words.",
    )
    content_sha256 = models.CharField(max_length=64, editable=False, default="")
    served = models.BooleanField(default=False, editable=False)
    approved_sha256 = models.CharField(max_length=64, editable=False, default="")
    approved_by = models.TextField(editable=False, default="")
    approved_at = models.DateTimeField(null=True, editable=False)
    created_by = models.TextField(editable=False, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = MistakeCardRevisionQuerySet.as_manager()

    class Meta:
        ordering = ["card", "number"]
        constraints = [
            models.UniqueConstraint(fields=["card", "number"], name="memory_cardrevision_number_unique"),
            models.UniqueConstraint(fields=["card"], condition=Q(served=True), name="memory_cardrevision_one_served"),
            models.CheckConstraint(
                condition=~Q(bad_decision="", correct_decision="", lesson=""), name="memory_cardrevision_says_something"
            ),
            models.CheckConstraint(
                condition=Q(served=False)
                | (
                    Q(approved_sha256=F("content_sha256"), approved_at__isnull=False)
                    & Q(approved_sha256__regex=r"^[0-9a-f]{64}$")
                    & ~Q(approved_by="")
                ),
                name="memory_cardrevision_served_is_approved",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "task_id"], name="memory_cardrevision_servable", condition=Q(served=True)),
        ]

    def __str__(self) -> str:
        return f"{self.mistake_type[:60]} (revision {self.number})"


class MistakeMerge(models.Model):
    """A card that was found to say what another says. Kept when it is undone, with who undid it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="merges")
    into = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="merges_received")
    similarity = models.FloatField(null=True, blank=True, help_text="Cosine of the two texts, where that decided.")
    served_before = models.ForeignKey(
        MistakeCardRevision, null=True, blank=True, on_delete=models.CASCADE, related_name="+", editable=False
    )
    merged_by = models.TextField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    undone_by = models.TextField(blank=True, default="")
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            not_blank("merged_by", "memory_mistakemerge_by_not_blank"),
            models.UniqueConstraint(
                fields=["card"], condition=Q(undone_at__isnull=True), name="memory_mistakemerge_one_standing"
            ),
            models.CheckConstraint(
                condition=Q(undone_at__isnull=True, undone_by="") | (Q(undone_at__isnull=False) & ~Q(undone_by="")),
                name="memory_mistakemerge_undone_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.card_id} into {self.into_id}"


class MistakeCardReviewDecision(models.TextChoices):
    APPROVE = "approve"
    REJECT = "reject"
    RETIRE = "retire"
    MERGE = "merge"
    UNMERGE = "unmerge"
    CONFIRM_COUNT = "confirm_count"


class MistakeCardReview(models.Model):
    """One decision by one person or a named policy on one exact content hash. The database refuses changes."""

    Decision = MistakeCardReviewDecision

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="reviews")
    revision = models.ForeignKey(MistakeCardRevision, on_delete=models.CASCADE, related_name="reviews")
    decision = models.TextField(choices=Decision.choices)
    content_sha256 = models.CharField(max_length=64)
    seen_count = models.PositiveIntegerField(default=0, help_text="How often it had been seen then.")
    reason = models.TextField(blank=True, default="")
    reviewer = models.TextField(help_text="Label that outlives the account, for example user:ana.")
    reviewer_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reviewer_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("decision", MistakeCardReviewDecision, "memory_cardreview_decision_known"),
            not_blank("reviewer", "memory_cardreview_reviewer_not_blank"),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="memory_cardreview_recent")]

    def __str__(self) -> str:
        return f"{self.decision} by {self.reviewer}"
