"""Vectors, in their own table, by the model that made them."""

from django.db import models
from django.db.models import Q
from django.utils import timezone
from pgvector.django import HalfVectorField

from memory.models.constraints import one_of
from memory.models.heuristic import Heuristic, HeuristicRevision
from memory.models.project import Project
from memory.models.trajectory import Trajectory


class EmbeddingModel(models.Model):
    """A model that vectors came from. Exactly one is active: it embeds the queries and its vectors are searched."""

    id = models.TextField(primary_key=True, help_text="Name and hash, for example all-minilm-l6-v2-int8@1f2e3d4c.")
    dimensions = models.PositiveIntegerField()
    active = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["active"], condition=Q(active=True), name="memory_embeddingmodel_one_active"
            )
        ]

    def __str__(self) -> str:
        return self.id


class HeuristicEmbeddingKind(models.TextChoices):
    LESSON = "lesson"
    SOURCE_TASK = "source_task"
    HELPED_TASK = "helped_task"


class HeuristicEmbedding(models.Model):
    """One vector of one heuristic: of what it says, or of a task it was learnt from or helped with.

    `served` follows the revision's flag (a database trigger keeps it), so that a search needs no join to filter.
    Vectors are half precision: they stay in the page, which makes exact scans 2.6–5 times faster than `vector`.
    """

    Kind = HeuristicEmbeddingKind

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="embeddings")
    revision = models.ForeignKey(HeuristicRevision, on_delete=models.CASCADE, related_name="embeddings")
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.CASCADE, related_name="+")
    embedding_model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.TextField(choices=Kind.choices)
    text_sha256 = models.CharField(max_length=64)
    vector = HalfVectorField()
    served = models.BooleanField(default=False)

    class Meta:
        constraints = [
            one_of("kind", HeuristicEmbeddingKind, "memory_embedding_kind_known"),
            models.UniqueConstraint(
                fields=["revision", "embedding_model", "kind", "text_sha256"], name="memory_embedding_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["project", "embedding_model", "kind"],
                name="memory_embedding_servable",
                condition=Q(served=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.heuristic_id}"
