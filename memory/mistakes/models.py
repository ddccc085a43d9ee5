"""Mistakes that were seen and counted, their sightings and their meaning."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from pgvector.django import HalfVectorField

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory


class MistakeCardQuerySet(models.QuerySet["MistakeCard"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def standing(self) -> Self:
        """Cards that were not merged into another."""
        return self.filter(merged_into__isnull=True)

    def proposed(self) -> Self:
        """Cards that wait for a decision."""
        return self.standing().filter(status=MistakeCard.Status.PROPOSED)

    def with_text(self) -> Self:
        """Fetch the newest wording along with each card."""
        return self.select_related("current_revision")


class MistakeCardStatus(models.TextChoices):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"


class MistakeCard(models.Model):
    """One mistake that agents make. Its words live in revisions; this row is its identity, its count and its status.

    What makes two reports the same mistake are its type, task family, worker and correct decision (`identity_sha256`);
    a report with other words is another card until it is merged. `status` speaks of the newest revision. What agents
    may be given is the revision with `served`, and nothing else.
    """

    Status = MistakeCardStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="mistake_cards")
    identity_sha256 = models.CharField(max_length=64, editable=False)
    mistake_type = models.TextField()
    task_id = models.TextField(blank=True, default="", help_text="Task family.")
    worker_id = models.TextField(blank=True, default="", help_text="Which agent or part of one makes it.")
    status = models.TextField(choices=Status.choices, default=Status.PROPOSED)
    current_revision = models.OneToOneField(
        "memory.MistakeCardRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    merged_into = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="merged_cards", editable=False
    )
    seen_count = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Distinct runs it was seen in, so many of a client at most, with those of cards merged into it.",
    )
    ranked_count = models.PositiveIntegerField(
        default=0, editable=False, help_text="The count a reviewer last confirmed; it decides the place in the prompt."
    )
    imported_count = models.PositiveIntegerField(default=0, editable=False, help_text="Counted before it came here.")
    first_seen = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    last_seen = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    first_seen_at = models.DateTimeField(null=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    imported = models.JSONField(default=dict, blank=True, editable=False, help_text="What an imported card also said.")
    client = models.TextField(blank=True, default="", editable=False, help_text="The API client that reported it.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = MistakeCardQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("status", MistakeCardStatus, "memory_mistakecard_status_known"),
            not_blank("mistake_type", "memory_mistakecard_type_not_blank"),
            models.CheckConstraint(
                condition=Q(identity_sha256__regex=r"^[0-9a-f]{64}$"), name="memory_mistakecard_identity_is_sha256"
            ),
            models.UniqueConstraint(fields=["project", "identity_sha256"], name="memory_mistakecard_once"),
            models.CheckConstraint(condition=~Q(merged_into=F("id")), name="memory_mistakecard_not_into_itself"),
        ]
        indexes = [
            models.Index(fields=["project", "status", "-created_at", "-id"], name="memory_mistakecard_queue"),
            models.Index(fields=["project", "-seen_count", "-id"], name="memory_mistakecard_frequent"),
            models.Index(
                fields=["project", "task_id", "worker_id"],
                name="memory_mistakecard_standing",
                condition=Q(merged_into__isnull=True),
            ),
        ]
        permissions = [("review_mistakecard", "Can approve, reject, retire and merge mistake cards")]

    def __str__(self) -> str:
        return self.mistake_type[:80]


class MistakeSighting(models.Model):
    """One run in which a mistake was seen, in the words of that run. A run counts once, however often it says so."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="sightings")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="mistake_sightings")
    client = models.TextField(blank=True, default="")
    bad_decision = models.TextField(blank=True, default="")
    correct_decision = models.TextField(blank=True, default="")
    evidence = models.TextField(blank=True, default="")
    lesson = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["card", "trajectory"], name="memory_sighting_once_a_run"),
        ]
        indexes = [
            models.Index(fields=["card", "client"], name="memory_sighting_of_client"),
            models.Index(fields=["card", "-created_at", "-id"], name="memory_sighting_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.card_id} in {self.trajectory_id}"


class MistakeEmbedding(models.Model):
    """The meaning of a card's newest words, by the model that made it."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="embeddings", db_index=False)
    embedding_model = models.ForeignKey("memory.EmbeddingModel", on_delete=models.CASCADE, related_name="+")
    text_sha256 = models.CharField(max_length=64)
    vector = HalfVectorField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["card", "embedding_model"], name="memory_mistakeembedding_once"),
        ]

    def __str__(self) -> str:
        return f"meaning of {self.card_id}"


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
