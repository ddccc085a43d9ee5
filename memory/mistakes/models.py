"""Mistake cards: what agents did wrong, in how many runs, and what was decided about the wording."""

from typing import Self

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.text import Truncator
from pgvector.django import HalfVectorField

from memory.constraints import not_blank, one_of
from memory.heuristics.reviewed import (
    AbstractReview,
    AbstractRevision,
    Reviewed,
    ReviewedQuerySet,
    RevisionQuerySet,
    served_is_approved,
)
from memory.ids import uuid7
from memory.mistakes.reports import WORDS, MistakeText
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.stored_text import SHARED, StoredJson, StoredText


class MistakeCardQuerySet(ReviewedQuerySet["MistakeCard"]):
    def unmerged(self) -> Self:
        """Cards that count for themselves."""
        return self.filter(merged_into__isnull=True)

    def proposed(self) -> Self:
        return super().proposed().unmerged()


class MistakeCardStatus(models.TextChoices):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"


class MistakeCard(Reviewed):
    """One mistake that agents make: its identity, how often it was seen, and its status.

    Two reports are the same mistake if their type, task family, worker and correct decision agree (`identity_sha256`).
    A report in other words is a card of its own until the two are merged.
    """

    Status = MistakeCardStatus

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="mistake_cards", db_index=False)
    identity_sha256 = models.CharField(max_length=64, editable=False)
    mistake_type = StoredText(kept=SHARED)
    task_id = StoredText(
        blank=True,
        default="",
        help_text="Task family.",
        kept=SHARED,
    )
    worker_id = StoredText(
        blank=True,
        default="",
        help_text="Which agent or part of one makes it.",
        kept=SHARED,
    )
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
        help_text="Distinct runs, up to a limit for each client, including those of the cards merged into it.",
    )
    ranked_count = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="The count a reviewer last confirmed; it decides the place in the prompt.",
    )
    imported_count = models.PositiveIntegerField(default=0, editable=False, help_text="Counted before the import.")
    first_seen = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    last_seen = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    first_seen_at = models.DateTimeField(null=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    imported = StoredJson(
        default=dict,
        blank=True,
        editable=False,
        help_text="The card as imported.",
        kept="from a memory file, not from a run",
    )
    client = models.TextField(blank=True, default="", editable=False, help_text="The API client that reported it.")

    objects = MistakeCardQuerySet.as_manager()

    class Meta(Reviewed.Meta):
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
        return Truncator(self.mistake_type).chars(80)


class MistakeSighting(models.Model):
    """A run in which a mistake was seen, in the words of that run. A run counts once, however often it reports it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="sightings", db_index=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="mistake_sightings")
    client = models.TextField(blank=True, default="")
    bad_decision = StoredText(blank=True, default="")
    correct_decision = StoredText(blank=True, default="")
    evidence = StoredText(blank=True, default="")
    lesson = StoredText(blank=True, default="")
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
    """The vector of a card's newest words, by one embedding model."""

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
        return f"vector of {self.card_id}"


class MistakeCardRevision(AbstractRevision):
    """The words of a card at one time. The database refuses to change them once there is a decision on them.

    Until then newer words replace them in place, so that a mistake reported a thousand times has one wording waiting.
    """

    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    mistake_type = StoredText(kept=SHARED)
    task_id = StoredText(
        blank=True,
        default="",
        kept=SHARED,
    )
    worker_id = StoredText(
        blank=True,
        default="",
        kept=SHARED,
    )
    bad_decision = StoredText(
        blank=True,
        default="",
        kept=SHARED,
    )
    correct_decision = StoredText(
        blank=True,
        default="",
        kept=SHARED,
    )
    lesson = StoredText(
        blank=True,
        default="",
        kept=SHARED,
    )
    trajectory = models.ForeignKey(
        Trajectory,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The run that reported these words.",
    )

    objects = RevisionQuerySet["MistakeCardRevision"].as_manager()

    class Meta:
        ordering = ["card", "number"]
        constraints = [
            models.UniqueConstraint(fields=["card", "number"], name="memory_cardrevision_number_unique"),
            models.UniqueConstraint(fields=["card"], condition=Q(served=True), name="memory_cardrevision_one_served"),
            models.CheckConstraint(
                condition=~Q(bad_decision="", correct_decision="", lesson=""), name="memory_cardrevision_says_something"
            ),
            served_is_approved("memory_cardrevision_served_is_approved"),
        ]
        indexes = [
            models.Index(fields=["project", "task_id"], name="memory_cardrevision_servable", condition=Q(served=True)),
            models.Index(fields=["project", "words_sha256", "created_at", "id"], name="memory_cardrevision_same_words"),
            GinIndex(fields=["lineage"], name="memory_cardrevision_lineage"),
        ]

    def __str__(self) -> str:
        return f"{Truncator(self.mistake_type).chars(60)} (revision {self.number})"

    def as_text(self) -> MistakeText:
        return MistakeText(**{name: getattr(self, name) for name in WORDS})


class MistakeMerge(models.Model):
    """A card merged into another. The row stays when the merge is undone, and names who undid it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="merges")
    into = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="merges_received")
    similarity = models.FloatField(null=True, blank=True, help_text="Cosine of the two texts, for automatic merges.")
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
                name="memory_mistakemerge_undone_has_actor",
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


class MistakeCardReview(AbstractReview):
    """A decision on a mistake card."""

    Decision = MistakeCardReviewDecision

    card = models.ForeignKey(MistakeCard, on_delete=models.CASCADE, related_name="reviews")
    revision = models.ForeignKey(MistakeCardRevision, on_delete=models.CASCADE, related_name="reviews")
    decision = models.TextField(choices=Decision.choices)
    seen_count = models.PositiveIntegerField(default=0, help_text="How often the mistake had been seen by then.")

    class Meta(AbstractReview.Meta):
        constraints = [
            one_of("decision", MistakeCardReviewDecision, "memory_cardreview_decision_known"),
            not_blank("reviewer", "memory_cardreview_reviewer_not_blank"),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="memory_cardreview_recent")]
