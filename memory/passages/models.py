"""Passages: what agents put aside to search for later."""

from typing import Self
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now
from django.utils.text import Truncator
from pgvector.django import HalfVectorField, SparseVectorField

from memory.constraints import not_blank
from memory.ids import uuid7
from memory.projects.models import Project
from memory.retrieval.models import EmbeddingModel
from memory.stored_text import StoredArray, StoredText


class PassageQuerySet(models.QuerySet["Passage"]):
    def readable(self, project: Project, *, owner: UUID | None = None) -> Self:
        """Those of a project that no quarantine order covers: of one owner, and those that are shared."""
        passages = self.filter(project=project, quarantine_order_id__isnull=True)
        return passages if owner is None else passages.filter(Q(owner=owner) | Q(owner__isnull=True))


class Passage(models.Model):
    """A text of an agent's archive, or of one that all agents of the project share. It never changes.

    `owner` is the id of an agent, which is not known here; without one the passage is shared.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="passages", db_index=False)
    owner = models.UUIDField(null=True, blank=True, help_text="The agent it belongs to; empty if all share it.")
    text = StoredText()
    text_sha256 = models.CharField(max_length=64, editable=False)
    tags = StoredArray(models.TextField(), default=list, blank=True)
    user_id = StoredText(
        blank=True, default="", db_default="", help_text="The client's own id of the end user it is about."
    )
    run_id = models.UUIDField(null=True, blank=True, help_text="The run it was written in.")
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    quarantine_order_id = models.UUIDField(null=True, editable=False, help_text="The order that covers it.")

    objects = PassageQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            not_blank("text", "memory_passage_text_not_blank"),
            not_blank("created_by", "memory_passage_by_not_blank"),
            models.CheckConstraint(
                condition=Q(text_sha256__regex=r"^[0-9a-f]{64}$"), name="memory_passage_hash_is_sha256"
            ),
            models.UniqueConstraint(
                fields=["project", "owner", "text_sha256"], nulls_distinct=False, name="memory_passage_once"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="memory_passage_newest"),
            models.Index(fields=["run_id"], name="memory_passage_of_run", condition=Q(run_id__isnull=False)),
            models.Index(
                fields=["project", "user_id", "-created_at"], name="memory_passage_of_user", condition=~Q(user_id="")
            ),
            GinIndex(fields=["tags"], name="memory_passage_tags"),
        ]

    def __str__(self) -> str:
        return Truncator(self.text).chars(80)


class PassageEmbedding(models.Model):
    """A passage as it is searched: its meaning, its words and its names, in the form that lessons have.

    `vector` is null until the embedder has answered.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    passage = models.ForeignKey(Passage, on_delete=models.CASCADE, related_name="embeddings", db_index=False)
    embedding_model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+", db_index=False)
    vector = HalfVectorField(null=True)
    terms = SparseVectorField(null=True)
    term_ids = ArrayField(models.IntegerField(), null=True)
    names = StoredText(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["passage", "embedding_model"], name="memory_passageembedding_once"),
        ]
        indexes = [
            models.Index(fields=["project", "embedding_model", "id"], name="memory_passageembedding_scope"),
            GinIndex(fields=["term_ids"], name="memory_passageembedding_terms"),
            GinIndex(
                Func(F("names"), Value(" "), function="string_to_array", output_field=ArrayField(models.TextField())),
                name="memory_passageembedding_names",
                condition=Q(names__gt=""),
            ),
        ]

    def __str__(self) -> str:
        return f"vector of {self.passage_id}"
