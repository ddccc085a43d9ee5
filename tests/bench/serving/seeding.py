"""Fill a project with approved lessons, quickly."""

import hashlib
from collections.abc import Sequence

import numpy as np
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone
from pgvector import HalfVector

from memory.embeddings.base import Vectors, scale_to_unit
from memory.embeddings.composite import embed_composites
from memory.embeddings.registry import get_embedder
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import count_terms, get_active_model
from memory.projects.models import Project
from memory.retrieval.models import HeuristicEmbedding
from tests.bench.serving.corpus import Corpus

REAL_LESSONS = 4000  # above, vectors are mixed from two real ones
BATCH = 500
NOISE = 0.35  # length of what is added to a mixture

_INSERT = """
INSERT INTO memory_heuristicembedding
    (project_id, heuristic_id, revision_id, embedding_model_id, kind, text_sha256, served, vector, terms, term_ids)
VALUES (%s, %s, %s, %s, %s, %s, true, %s::halfvec, memory_text_vector(%s, %s),
    (SELECT array_agg(term ORDER BY term) FROM memory_terms(%s, %s)))
"""


def seed_lessons(project: Project, *, count: int, with_tasks: bool, seed: int = 1) -> None:
    """Add `count` approved lessons of 56 words, each with the task it was learnt from if asked for."""
    corpus = Corpus(seed=seed)
    random = np.random.default_rng(seed)
    real: dict[str, Vectors] = {}
    done = 0
    while done < count:
        size = min(BATCH, count - done)
        revisions = _approve(project, corpus, size=size, with_tasks=with_tasks)
        for kind in ("lesson", "source_task") if with_tasks else ("lesson",):
            texts = [_get_sections(revision, kind) for revision in revisions]
            if done < REAL_LESSONS:
                vectors = _embed(texts)
                real[kind] = np.vstack([real[kind], vectors]) if kind in real else vectors
            else:
                vectors = _mix(real[kind], size, random)
            _store(project, revisions, kind, texts, vectors)
        count_terms(project.pk)
        done += size
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


@transaction.atomic  # a lesson that is approved serves a wording, at the latest when it is committed
def _approve(project: Project, corpus: Corpus, *, size: int, with_tasks: bool) -> list[HeuristicRevision]:
    heuristics = Heuristic.objects.bulk_create(
        [Heuristic(project=project, status=Heuristic.Status.APPROVED, support=1) for _ in range(size)]
    )
    revisions = []
    for heuristic in heuristics:
        text = corpus.write_lesson(with_task=with_tasks)
        words = {name: getattr(text, name) for name in ("trigger", "guideline", "avoid", "scope", "source_task")}
        revisions.append(HeuristicRevision(project=project, heuristic=heuristic, number=1, created_by="bench", **words))
    HeuristicRevision.objects.bulk_create(revisions)
    of_batch = HeuristicRevision.objects.filter(heuristic__in=heuristics)
    of_batch.update(
        approved_sha256=F("content_sha256"), approved_by="policy:bench", approved_at=timezone.now(), served=True
    )
    for heuristic, revision in zip(heuristics, revisions, strict=True):
        heuristic.current_revision = revision
    Heuristic.objects.bulk_update(heuristics, ["current_revision"])
    return revisions


def _get_sections(revision: HeuristicRevision, kind: str) -> tuple[str, ...]:
    if kind == HeuristicEmbedding.Kind.LESSON:
        return (revision.trigger, revision.guideline, revision.avoid)
    return (revision.source_task,)


def _embed(texts: Sequence[tuple[str, ...]]) -> Vectors:
    embedder = get_embedder()
    assert embedder is not None
    return embed_composites(embedder, texts)


def _mix(real: Vectors, size: int, random: np.random.Generator) -> Vectors:
    pairs = random.integers(0, len(real), (2, size))
    noise = random.standard_normal((size, real.shape[1])).astype(np.float32)
    return scale_to_unit(scale_to_unit(real[pairs[0]] + real[pairs[1]]) + NOISE * scale_to_unit(noise))


def _store(
    project: Project,
    revisions: Sequence[HeuristicRevision],
    kind: str,
    texts: Sequence[tuple[str, ...]],
    vectors: Vectors,
) -> None:
    model = get_active_model()
    rows = [
        (
            project.pk,
            revision.heuristic_id,
            revision.pk,
            model.pk,
            kind,
            hashlib.sha256("\0".join(sections).encode()).hexdigest(),
            HalfVector(vector).to_text(),
            project.pk,
            "\n".join(sections),
            project.pk,
            "\n".join(sections),
        )
        for revision, sections, vector in zip(revisions, texts, vectors, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT, rows)
