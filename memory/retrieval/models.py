"""Answers given to agents."""

from collections.abc import Iterable
from typing import Self
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.text import Truncator
from pgvector.django import HalfVectorField, SparseVectorField

from memory.constraints import one_of
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.ids import uuid7
from memory.projects.models import ApiKey, Project
from memory.retrieval.assignment import ServedArm
from memory.runs.models import Trajectory
from memory.stored_text import StoredArray, StoredJson, StoredText


class RetrievalMode(models.TextChoices):
    NONE = "none"
    RANDOM = "random"
    EMBEDDING = "embedding"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    ERL = "erl"


class RetrievalQuerySet(models.QuerySet["Retrieval"]):
    def injecting(self, heuristic_ids: Iterable[UUID]) -> Self:
        """Keep the answers whose block contained any of these heuristics: those that gave it to an agent."""
        return self.filter(injected_ids__overlap=list(heuristic_ids))


class Retrieval(models.Model):
    """One served (or withheld) answer, written with it: what was asked, considered, chosen and injected.

    One row with arrays costs a fifth of a row for each item and is the same evidence. `items` holds, in rank order,
    `{"heuristic", "revision", "content_sha256", "scores", "reason", "subtask", "matched_run", "injected"}` of what was
    returned, and `"in_record"` where its words stand in the record before the lessons; `considered_ids` and
    `considered_scores` are the best of what was not: in the hold-out, what the unit would have been given. `subtasks`
    are the parts of the task that `subtask` counts from 1; 0 is the whole.

    `heuristic_ids` are the heuristics it listed, `injected_ids` those in its block, rules of the record
    among them. Only the latter count as given.

    The table has a partition for each month, and one for the answers that outlive theirs (`memory.trust.retention`).
    So the key in the database is `id` and `is_kept`, and triggers do what foreign keys to it would (projects.sql).
    """

    Mode = RetrievalMode

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    task = StoredText()
    task_id = StoredText(blank=True, default="")
    agent = models.TextField(blank=True, default="")
    mode = models.TextField(choices=Mode.choices, help_text="The mode that was used.")
    requested_mode = models.TextField(blank=True, default="")
    top_k = models.PositiveIntegerField()
    budget_tokens = models.PositiveIntegerField()
    candidate_count = models.PositiveIntegerField(default=0)
    heuristic_ids = ArrayField(models.UUIDField(), default=list)
    injected_ids = ArrayField(models.UUIDField(), default=list, db_default=[])
    items = StoredJson(default=list)
    options = StoredJson(
        blank=True,
        default=dict,
        db_default={},
        help_text="Other options of the request, if not the defaults: filters, seed, boundary, record.",
    )
    considered_ids = ArrayField(models.UUIDField(), default=list)
    considered_scores = ArrayField(models.FloatField(), default=list)
    subtasks = StoredArray(models.TextField(), default=list)
    record_text = StoredText(
        blank=True,
        default="",
        db_default="",
        help_text="The part of the block before the lessons; lessons are kept by their wordings.",
    )
    context_sha256 = models.CharField(max_length=64, blank=True, default="")
    tokens = models.PositiveIntegerField(default=0)
    degraded = models.TextField(blank=True, default="", help_text="What was not available; empty if everything was.")
    duration_ms = models.FloatField(default=0)
    client = models.TextField(blank=True, default="")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    arm = models.TextField(
        choices=ServedArm.choices,
        blank=True,
        default="",
        db_default="",
        help_text="The arm of the deployment; empty if nothing was assigned.",
    )
    release = models.ForeignKey(
        "memory.Release", null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    unit = models.TextField(blank=True, default="", db_default="", help_text="What keeps its arm, such as a session.")
    bucket = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="The place of the unit in the draw that decided, from 0 to 999."
    )
    deployment_version = models.PositiveIntegerField(
        null=True, blank=True, help_text="The state of the deployment, which the events of that version describe."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    is_kept = models.BooleanField(
        db_default=False, editable=False, help_text="Its month was dropped, and it is kept as evidence."
    )

    objects = RetrievalQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("mode", RetrievalMode, "memory_retrieval_mode_known"),
            models.CheckConstraint(condition=Q(arm__in=["", *ServedArm.values]), name="memory_retrieval_arm_known"),
            # A replay reads them; JSON's null is not the database's.
            models.CheckConstraint(condition=Q(items__contains=[]), name="memory_retrieval_items_are_a_list"),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="memory_retrieval_recent"),
            GinIndex(fields=["injected_ids"], name="memory_retrieval_injected"),
        ]

    def __str__(self) -> str:
        return f"{self.mode}: {Truncator(self.task).chars(60)}"


class EmbeddingModel(models.Model):
    """A model that vectors came from. Exactly one is active: it embeds the queries and its vectors are searched.

    `floors` say for each language that the model knows how similar a lesson must be to fit a task, and may say how
    much more that is for a longer one (calibration.py); they are null until they have been measured.
    """

    id = models.TextField(primary_key=True, help_text="Name and hash, for example all-minilm-l6-v2-integers@1f2e3d4c.")
    dimensions = models.PositiveIntegerField()
    active = models.BooleanField(default=False)
    floors = models.JSONField(null=True, editable=False)
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
    MISTAKE = "mistake"


class HeuristicEmbedding(models.Model):
    """One text of one heuristic as it is searched: what it says, or a task it was learnt from or helped with.

    `served` follows the revision's flag (a database trigger keeps it), so that a search needs no join to filter.
    `vector` is the text's meaning; it is null until the embedder has answered. `terms` are its words, made by
    `memory_text_vector` in the database: a unit vector with one dimension for each word, so that two texts' similarity
    in words is a cosine too. `term_ids` are the dimensions alone, for the index. Vectors are half precision and
    texts are not kept here: rows stay within the page, which makes exact scans 2.6–5 times faster.
    """

    Kind = HeuristicEmbeddingKind

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="embeddings")
    revision = models.ForeignKey(HeuristicRevision, on_delete=models.CASCADE, related_name="embeddings", db_index=False)
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
    """How many served texts of a project contain a word."""

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
    of_texts = models.BooleanField(default=True, db_default=True, help_text="Whether the searched texts changed.")

    def __str__(self) -> str:
        return f"{self.token} of {self.project_id}"


class PolarityQuota(models.Model):
    """How much of an answer may be lessons of one polarity, for one task family or for a whole project.

    The right mix depends on the kind of task (ERL 1.4: failures alone are best for search tasks, worse for others), so
    it is measured by family and set here. Without a row there is no limit. Lessons of polarity mixed are never counted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="polarity_quotas", db_index=False)
    task_id = models.TextField(
        "task family", blank=True, default="", help_text="Leave empty for every family without its own quota."
    )
    max_works_share = models.FloatField(
        null=True, blank=True, help_text="Maximum share of an answer, from 0 to 1, for lessons about what works."
    )
    max_avoid_share = models.FloatField(
        null=True, blank=True, help_text="Maximum share of an answer, from 0 to 1, for lessons about what to avoid."
    )
    set_by = models.TextField(editable=False, default="")
    set_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["project", "task_id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "task_id"], name="memory_quota_one_a_family"),
            models.CheckConstraint(
                condition=(Q(max_works_share__isnull=True) | Q(max_works_share__gte=0, max_works_share__lte=1))
                & (Q(max_avoid_share__isnull=True) | Q(max_avoid_share__gte=0, max_avoid_share__lte=1)),
                name="memory_quota_0_to_1",
            ),
        ]

    def __str__(self) -> str:
        return self.task_id or "every family"


class TaskVector(models.Model):
    """One task of a recent run: its meaning and its words, in the form in which lessons are compared with tasks.

    Kept only for the newest runs of a project (`memory.index.recent_tasks`). `vector` is null until the
    embedder has answered.
    """

    trajectory = models.OneToOneField(Trajectory, primary_key=True, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    embedding_model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+", db_index=False)
    vector = HalfVectorField(null=True)
    terms = SparseVectorField(null=True)
    recorded_at = models.DateTimeField(help_text="When the run was recorded.")

    class Meta:
        ordering = ["-recorded_at"]
        indexes = [models.Index(fields=["project", "-recorded_at"], name="memory_taskvector_recent")]

    def __str__(self) -> str:
        return f"task of {self.trajectory_id}"
