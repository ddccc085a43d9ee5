"""Make the vectors of heuristics: of what each says, and of the tasks it was learnt from."""

import hashlib
from collections.abc import Iterable
from uuid import UUID

import structlog
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from pgvector import HalfVector

from memory.embeddings.base import Embedder
from memory.embeddings.registry import get_embedder
from memory.errors import EmbedderError
from memory.models import EmbeddingModel, Evidence, HeuristicEmbedding, HeuristicRevision
from memory.retrieval.query import split_text

log = structlog.get_logger(__name__)

_Kind = HeuristicEmbedding.Kind
LESSON_CHARACTERS = 1000  # about the 256 tokens the model reads; longer lessons get several vectors
MAX_LESSON_PARTS = 8
MAX_SOURCE_TASKS = 50


def embed_heuristics(heuristic_ids: Iterable[UUID]) -> int:
    """Make the vectors that these heuristics' current and served revisions lack; return how many were made.

    Safe to repeat and to run twice at once: a vector is unique by revision, model, kind and text. Where the embedder
    does not answer nothing is made, and `find_heuristics_without_vectors` finds them again.
    """
    embedder = get_embedder()
    if embedder is None:
        return 0
    model = get_embedding_model(embedder)
    missing = _find_missing(list(heuristic_ids), model)
    if not missing:
        return 0
    try:
        vectors = embedder.embed([text for _, text in missing])
    except EmbedderError as error:
        log.warning("heuristics_not_embedded", reason=str(error), count=len(missing))
        return 0
    rows = [row for row, _ in missing]
    for row, vector in zip(rows, vectors, strict=True):
        row.vector = HalfVector(vector.tolist())
    HeuristicEmbedding.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
    return len(rows)


def find_heuristics_without_vectors(*, limit: int = 100) -> list[UUID]:
    """Return heuristics of which a current or served revision has no vector of the present model, oldest first."""
    embedder = get_embedder()
    if embedder is None:
        return []
    vectors = HeuristicEmbedding.objects.filter(
        revision=OuterRef("pk"), embedding_model=embedder.model_id, kind=_Kind.LESSON
    )
    lacking = _relevant_revisions().filter(~Exists(vectors)).order_by("created_at")
    return list(dict.fromkeys(lacking.values_list("heuristic_id", flat=True)[:limit]))


def get_embedding_model(embedder: Embedder) -> EmbeddingModel:
    """Return the row of an embedder's model; the first model ever becomes the active one."""
    model, made = EmbeddingModel.objects.get_or_create(
        pk=embedder.model_id, defaults={"dimensions": embedder.dimensions}
    )
    if made and not EmbeddingModel.objects.filter(active=True).exists():
        EmbeddingModel.objects.filter(pk=model.pk).update(active=True)
    return model


def _relevant_revisions() -> "QuerySet[HeuristicRevision]":
    return HeuristicRevision.objects.filter(Q(served=True) | Q(pk=F("heuristic__current_revision")))


def _find_missing(heuristic_ids: list[UUID], model: EmbeddingModel) -> list[tuple[HeuristicEmbedding, str]]:
    """Return the rows to make, still without their vector, each with its text."""
    revisions = list(_relevant_revisions().filter(heuristic__in=heuristic_ids))
    tasks: dict[UUID, dict[str, UUID]] = {}
    for heuristic_id, trajectory_id, task in (
        Evidence.objects.filter(heuristic__in=heuristic_ids)
        .order_by("-created_at")
        .values_list("heuristic_id", "trajectory_id", "trajectory__task")
    ):
        of_heuristic = tasks.setdefault(heuristic_id, {})
        if len(of_heuristic) < MAX_SOURCE_TASKS:
            of_heuristic.setdefault(task, trajectory_id)
    present = set(
        HeuristicEmbedding.objects.filter(revision__in=revisions, embedding_model=model).values_list(
            "revision_id", "kind", "text_sha256"
        )
    )
    missing = []
    for revision in revisions:
        texts: list[tuple[str, str, UUID | None]] = [(_Kind.LESSON, part, None) for part in _lesson_parts(revision)]
        if revision.source_task:
            texts.append((_Kind.SOURCE_TASK, revision.source_task, None))
        for task, trajectory_id in tasks.get(revision.heuristic_id, {}).items():
            if task != revision.source_task:
                texts.append((_Kind.SOURCE_TASK, task, trajectory_id))
        for kind, text, trajectory in texts:
            digest = hashlib.sha256(text.encode()).hexdigest()
            if (revision.pk, kind, digest) not in present:
                present.add((revision.pk, kind, digest))
                row = HeuristicEmbedding(
                    project_id=revision.project_id,
                    heuristic_id=revision.heuristic_id,
                    revision_id=revision.pk,
                    trajectory_id=trajectory,
                    embedding_model=model,
                    kind=kind,
                    text_sha256=digest,
                )
                missing.append((row, text))
    return missing


def _lesson_parts(revision: HeuristicRevision) -> list[str]:
    parts = split_text(f"{revision.trigger}\n{revision.guideline}", characters=LESSON_CHARACTERS)
    return parts[:MAX_LESSON_PARTS]
