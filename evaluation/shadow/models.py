"""What the candidate would have answered, and how much of the traffic was compared."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.ids import uuid7
from memory.projects.models import Project
from memory.releases.models import Release
from memory.retrieval.models import Retrieval


class ShadowAnswer(models.Model):
    """The answers of both releases to one live request, worked out together after the request was answered.

    No agent is given either of them. Lessons are named by id, so that the row holds no text: `lessons` has the
    candidate's, in order, as `{"heuristic", "content_sha256"}`. `added_ids` are lessons that only the candidate would
    have given, `removed_ids` those that only the stable release gives, `reworded_ids` those that both give in other
    words. `differs` is true for any of these, and where only the order differs.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    retrieval = models.ForeignKey(
        Retrieval, on_delete=models.CASCADE, related_name="shadow_answers", db_constraint=False, db_index=False
    )
    stable = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="+", db_index=False)
    candidate = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="+", db_index=False)
    lessons = models.JSONField(default=list)
    added_ids = ArrayField(models.UUIDField(), default=list)
    removed_ids = ArrayField(models.UUIDField(), default=list)
    reworded_ids = ArrayField(models.UUIDField(), default=list)
    differs = models.BooleanField()
    stable_tokens = models.PositiveIntegerField()
    candidate_tokens = models.PositiveIntegerField()
    asked_at = models.DateTimeField(help_text="When the request was answered.")
    computed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-asked_at", "-id"]
        verbose_name = "shadow answer"
        constraints = [
            models.UniqueConstraint(fields=["retrieval", "candidate"], name="evaluation_shadowanswer_once"),
            models.CheckConstraint(condition=Q(lessons__contains=[]), name="evaluation_shadowanswer_lessons_list"),
        ]
        indexes = [
            models.Index(fields=["project", "candidate", "-asked_at", "-id"], name="evaluation_shadow_recent"),
        ]

    def __str__(self) -> str:
        return f"shadow of {self.retrieval_id}"


class ShadowMinute(models.Model):
    """How many of the answers of one minute were compared, and why others were not. Written once.

    Of the `seen` answers, those that the share did not choose are in none of the other counts. `dropped` were over the
    maximum, or too old when a worker came to them. `skipped` cannot be compared: nothing or a random draw was asked
    for, a language model would have to rank, or a service did not answer.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    stable = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="+", db_index=False)
    candidate = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="+", db_index=False)
    minute = models.DateTimeField()
    seen = models.PositiveIntegerField()
    compared = models.PositiveIntegerField()
    dropped = models.PositiveIntegerField()
    skipped = models.PositiveIntegerField()

    class Meta:
        ordering = ["-minute", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "candidate", "stable", "minute"], name="evaluation_shadowminute_once"
            ),
            models.CheckConstraint(
                condition=Q(seen__gte=models.F("compared") + models.F("dropped") + models.F("skipped")),
                name="evaluation_shadowminute_adds_up",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.compared} of {self.seen} in the minute {self.minute:%H:%M}"
