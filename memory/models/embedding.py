"""Vectors, in their own table, by the model that made them."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from pgvector.django import HalfVectorField, SparseVectorField

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
    """One text of one heuristic as it is searched: what it says, or a task it was learnt from or helped with.

    `served` follows the revision's flag (a database trigger keeps it), so that a search needs no join to filter.
    `vector` is the text's meaning; it is null until the embedder has answered. `terms` are its words, made by
    `memory_text_vector` in the database: a unit vector with one dimension for each word, so that two texts' likeness
    in words is a cosine too. `term_ids` are the dimensions alone, for the index. Vectors are half precision and
    texts are not kept here: rows stay within the page, which makes exact scans 2.6–5 times faster.
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
    vector = HalfVectorField(null=True)
    terms = SparseVectorField(null=True)
    term_ids = ArrayField(models.IntegerField(), null=True)
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
            ),
            GinIndex(fields=["term_ids"], name="memory_embedding_terms", condition=Q(served=True)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.heuristic_id}"


class SearchStatistics(models.Model):
    """How many served texts a project has; with TermCount what makes a rare word weigh more than a common one."""

    project = models.OneToOneField(Project, primary_key=True, on_delete=models.CASCADE, related_name="+")
    texts = models.BigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "search statistics"

    def __str__(self) -> str:
        return f"{self.texts} texts of {self.project_id}"


class TermCount(models.Model):
    """In how many served texts of a project a word stands."""

    pk = models.CompositePrimaryKey("project_id", "term")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    term = models.IntegerField()
    texts = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.texts} texts with {self.term}"


class TermChange(models.Model):
    """A text that came into service (+1) or went out (−1) and is not counted yet.

    A trigger writes it; `memory_count_terms` counts and removes it. Counting at once would make approvals in one
    project wait for each other on the rows of common words.
    """

    id = models.BigAutoField(primary_key=True)
    project_id = models.UUIDField(db_index=True)  # no foreign key: the trigger also runs while a project is erased
    sign = models.SmallIntegerField()
    term_ids = ArrayField(models.IntegerField())

    def __str__(self) -> str:
        return f"{self.sign:+} text of {self.project_id}"


class ServedChange(models.Model):
    """That what a project serves has changed: the exclusive or of a project's tokens names its present state.

    Triggers write it wherever something changes that an answer depends on, so that a process may keep what it has read
    and knows in one small query whether that still holds. Tokens are random and rows are only added, in the transaction
    that makes the change: no two states share a name, and approvals do not wait for each other on a counter.
    `memory_fold_changes` makes one row of a project's many, which leaves the name as it is.
    """

    id = models.BigAutoField(primary_key=True)
    project_id = models.UUIDField(db_index=True)  # no foreign key: the trigger also runs while a project is erased
    token = models.BigIntegerField()
    of_texts = models.BooleanField(default=True, db_default=True, help_text="Whether other texts are searched now.")

    def __str__(self) -> str:
        return f"{self.token} of {self.project_id}"
