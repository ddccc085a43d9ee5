"""What is decided on, in which words, and what people decided: the same for lessons, blocks, tools and agents."""

from collections.abc import Iterable
from typing import Any, Self
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import ApiKey, Project
from memory.stored_text import BY_PEOPLE, StoredText


class ReviewKind(models.TextChoices):
    LESSON = "lesson", "Lesson"
    MISTAKE = "mistake", "Mistake card"
    BLOCK = "block", "Block"
    TOOL = "tool", "Tool"
    AGENT = "agent", "Agent"


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
    CONFIRM_EVIDENCE = "confirm_evidence", "Evidence confirmed"
    SPLIT = "split", "Taken out of its group"
    KEEP = "keep", "Kept in use"


class ReviewQuerySet(models.QuerySet["Review"]):
    def of_lessons(self) -> Self:
        """Those on lessons alone."""
        return self.filter(kind=ReviewKind.LESSON)

    def newest_of(self, revisions: Iterable["AbstractRevision"]) -> dict[UUID, "Review"]:
        """Return the newest decision on each of these revisions, by its id. One query."""
        of_these = self.filter(revision_id__in=[revision.pk for revision in revisions])
        newest = of_these.order_by("revision_id", "-created_at", "-id").distinct("revision_id")
        return {review.revision_id: review for review in newest}

    def about(self, subject: "ReviewSubject") -> Self:
        """Those on a lesson, a mistake card, a block, a tool or an agent."""
        return self.filter(subject_id=subject.pk)


class Review(models.Model):
    """One decision by one person, key or named policy on one exact content hash. The database refuses changes.

    `kind` and `subject_id` say what was decided on, `revision_id` in which words. The tables differ with the kind, so
    a trigger does what foreign keys would (memory/sql/review.sql): the revision exists, is one of the subject and has
    the hash that was read; and when it is erased, its reviews go with it.
    """

    Kind = ReviewKind
    Decision = ReviewDecision

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.TextField(choices=Kind.choices)
    subject_id = models.UUIDField()
    revision_id = models.UUIDField()
    content_sha256 = models.CharField(max_length=64)
    decision = models.TextField(choices=Decision.choices)
    reason = StoredText(blank=True, default="", kept=BY_PEOPLE)
    reviewer = models.TextField(help_text="Label that outlives the account, for example user:ana.")
    reviewer_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reviewer_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    undoes = models.UUIDField(  # no foreign key: it stays when the other is erased with the words it was about
        null=True, blank=True, help_text="The review that this one took back."
    )
    seconds_on_screen = models.FloatField(null=True, blank=True)
    decided_with = models.UUIDField(  # no foreign key: it stays when the other lesson is erased
        null=True, blank=True, help_text="The review of the proposal that stood for this one's group."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    # Of a lesson or a mistake card, to join with; they have no columns of their own.
    heuristic = models.ForeignObject(
        "memory.Heuristic",
        models.DO_NOTHING,
        from_fields=["subject_id"],
        to_fields=["id"],
        related_name="+",
        editable=False,
    )
    revision = models.ForeignObject(
        "memory.HeuristicRevision",
        models.DO_NOTHING,
        from_fields=["revision_id"],
        to_fields=["id"],
        related_name="+",
        editable=False,
    )

    objects = ReviewQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("kind", ReviewKind, "memory_review_kind_known"),
            one_of("decision", ReviewDecision, "memory_review_decision_known"),
            not_blank("reviewer", "memory_review_reviewer_not_blank"),
            models.CheckConstraint(
                condition=Q(undoes__isnull=True) | Q(decision="undo"), name="memory_review_undo_undoes"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at"], name="memory_review_recent"),
            models.Index(fields=["subject_id", "-created_at"], name="memory_review_of_subject"),
            models.Index(fields=["revision_id"], name="memory_review_of_revision"),
            models.Index(
                fields=["decided_with"], condition=Q(decided_with__isnull=False), name="memory_review_of_group"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.reviewer}"


class ReviewSubject(models.Model):
    """What has revisions that people decide on."""

    project_id: Any
    revisions: Any

    class Meta:
        abstract = True

    @property
    def review_kind(self) -> str:
        raise NotImplementedError

    @property
    def reviews(self) -> ReviewQuerySet:
        """The decisions on it, newest first."""
        return Review.objects.about(self)


class AbstractRevision(models.Model):
    """One text of a subject. What it says never changes; `content_sha256` is the hash of all of it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    number = models.PositiveIntegerField()
    content_sha256 = models.CharField(max_length=64, editable=False)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)  # by the clock that quarantine uses

    class Meta:
        abstract = True

    @property
    def reviews(self) -> ReviewQuerySet:
        """The decisions on exactly this text, newest first."""
        return Review.objects.filter(revision_id=self.pk)
