"""Answers given to agents."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.models.constraints import one_of
from memory.models.project import ApiKey, Project


class RetrievalMode(models.TextChoices):
    NONE = "none"
    RANDOM = "random"
    EMBEDDING = "embedding"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    ERL = "erl"


class Retrieval(models.Model):
    """One served (or withheld) answer, written with it: what was asked, considered, chosen and injected.

    One row with arrays costs a fifth of a row for each item and is the same evidence. `items` holds, in rank order,
    `{"heuristic", "revision", "content_sha256", "scores", "reason", "subtask", "matched_task", "injected"}` of what was
    returned, and `"in_record"` where its words stand in the record before the lessons; `considered_ids` and
    `considered_scores` are the best of what was not. `subtasks` are the parts of the
    task that `subtask` counts from 1; 0 is the whole.
    """

    Mode = RetrievalMode

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    task = models.TextField()
    task_id = models.TextField(blank=True, default="")
    agent = models.TextField(blank=True, default="")
    mode = models.TextField(choices=Mode.choices, help_text="The mode that answered.")
    requested_mode = models.TextField(blank=True, default="")
    top_k = models.PositiveIntegerField()
    budget_tokens = models.PositiveIntegerField()
    candidate_count = models.PositiveIntegerField(default=0)
    heuristic_ids = ArrayField(models.UUIDField(), default=list)
    items = models.JSONField(default=list)
    options = models.JSONField(
        blank=True,
        default=dict,
        db_default={},
        help_text="What else was asked: filters, seed, boundary, record; only what was not as usual.",
    )
    considered_ids = ArrayField(models.UUIDField(), default=list)
    considered_scores = ArrayField(models.FloatField(), default=list)
    subtasks = ArrayField(models.TextField(), default=list)
    record_text = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="What of the block was not lessons; those are kept with their words.",
    )
    context_sha256 = models.CharField(max_length=64, blank=True, default="")
    tokens = models.PositiveIntegerField(default=0)
    degraded = models.TextField(blank=True, default="", help_text="What was not available; empty when all was.")
    duration_ms = models.FloatField(default=0)
    client = models.TextField(blank=True, default="")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [one_of("mode", RetrievalMode, "memory_retrieval_mode_known")]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="memory_retrieval_recent"),
            GinIndex(fields=["heuristic_ids"], name="memory_retrieval_carried"),
        ]

    def __str__(self) -> str:
        return f"{self.mode}: {self.task[:60]}"
