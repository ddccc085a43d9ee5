"""The vectors and words by which heuristics are found: of what each says, and of the tasks it was learnt from."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from pgvector import HalfVector

from memory.embeddings.base import embed_composites, join_sections
from memory.embeddings.registry import find_embedder, get_embedder
from memory.errors import EmbedderError
from memory.heuristics.models import Evidence, HeuristicRevision
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding
from memory.rows import find_row

log = structlog.get_logger(__name__)

_Kind = HeuristicEmbedding.Kind
NO_MODEL = "none"  # of texts that are found by their words alone
MAX_SOURCE_TASKS = 20  # a lesson seen more often is found by the newest, as is each lesson merged into it

_INSERT = """
INSERT INTO memory_heuristicembedding
    (project_id, heuristic_id, revision_id, trajectory_id, embedding_model_id, kind, text_sha256,
     vector, terms, term_ids)
VALUES (%(project)s, %(heuristic)s, %(revision)s, %(trajectory)s, %(model)s, %(kind)s, %(sha256)s,
    %(vector)s::halfvec, memory_text_vector(%(project)s, %(text)s),
    (SELECT array_agg(term ORDER BY term) FROM memory_terms(%(project)s, %(text)s)))
ON CONFLICT (revision_id, embedding_model_id, kind, text_sha256) DO UPDATE
SET vector = coalesce(memory_heuristicembedding.vector, EXCLUDED.vector),
    terms = EXCLUDED.terms, term_ids = EXCLUDED.term_ids
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Text:
    revision: HeuristicRevision
    trajectory_id: UUID | None
    kind: str
    body: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body.encode()).hexdigest()


def embed_heuristics(heuristic_ids: Iterable[UUID], *, model: EmbeddingModel | None = None) -> int:
    """Make what the search needs of these heuristics' current and served revisions; return how many texts were new.

    Safe to repeat and to run twice at once: a text is unique by revision, model and kind. Where the embedder does not
    answer, texts are found by their words, and `find_heuristics_without_vectors` names their heuristics for later.

    Args:
        model: whose vectors to make; None takes the active one.
    """
    model = model or get_active_model()
    embedder = find_embedder(model.pk)  # where there is none of this model, texts are found by their words
    missing = _find_missing(list(heuristic_ids), model, with_vectors=embedder is not None)
    if not missing:
        return 0
    vectors: list[str | None] = [None] * len(missing)
    if embedder is not None:
        try:
            made = embed_composites(embedder, [[text.body] for text in missing])
            vectors = [HalfVector(vector).to_text() for vector in made]
        except EmbedderError as error:
            log.warning("heuristics_not_embedded", reason=str(error), count=len(missing))
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT, [_as_row(text, model, vector) for text, vector in zip(missing, vectors, strict=True)]
        )
    # New words change how rare the others are.
    for project_id in {text.revision.project_id for text in missing}:
        count_terms(project_id)
    return len(missing)


def store_lesson_vector(revision: HeuristicRevision, *, model_id: str, vector: str) -> None:
    """Store the vector of a wording that was made before, so that the next transaction finds the wording by it.

    The rest is made by `embed_heuristics`. Nothing is stored where another model is active.

    Args:
        vector: as PostgreSQL writes it.
    """
    model = EmbeddingModel.objects.filter(pk=model_id, active=True).first()
    if model is not None:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, _as_row(_lesson_text(revision), model, vector))


def find_heuristics_without_vectors(*, limit: int = 100, model: EmbeddingModel | None = None) -> list[UUID]:
    """Return heuristics of which a current or served revision is not fully searchable, oldest first."""
    lacking = _revisions_lacking(model or get_active_model())
    ids = lacking.order_by("created_at").values_list("heuristic_id", flat=True)
    # Several wordings of a heuristic may lack something; it is named once, in order of age.
    return list(dict.fromkeys(ids[:limit]))


def count_heuristics_without_vectors(model: EmbeddingModel) -> int:
    """Return how many heuristics `find_heuristics_without_vectors` would find in all."""
    return _revisions_lacking(model).values("heuristic_id").distinct().count()


def delete_other_models(kept: EmbeddingModel) -> int:
    """Delete the texts of every model but one; return how many there were."""
    deleted, _ = HeuristicEmbedding.objects.exclude(embedding_model=kept).delete()
    return deleted


def get_active_model() -> EmbeddingModel:
    """Return the model whose vectors are searched. Where nothing was embedded yet, it is the settings' embedder's."""
    active = find_row(EmbeddingModel.objects.filter(active=True))
    if active is not None and (
        active.pk != NO_MODEL or HeuristicEmbedding.objects.filter(embedding_model=active).exists()
    ):
        return active  # `manage.py reembed` makes the vectors first
    wanted = get_wanted_model()
    return active if active is not None and active.pk == wanted.pk else activate_model(wanted)


def get_wanted_model() -> EmbeddingModel:
    """Return the model of the settings' embedder, which is not searched before it is active."""
    embedder = get_embedder()
    if embedder is None:
        return EmbeddingModel.objects.get_or_create(pk=NO_MODEL, defaults={"dimensions": 0})[0]
    made = {"dimensions": embedder.dimensions, "floors": embedder.floors}
    return EmbeddingModel.objects.get_or_create(pk=embedder.model_id, defaults=made)[0]


@transaction.atomic
def activate_model(model: EmbeddingModel) -> EmbeddingModel:
    """Search the vectors of another model from now on; its rows must be there."""
    # First: one model is active at a time.
    EmbeddingModel.objects.filter(active=True).exclude(pk=model.pk).update(active=False)
    EmbeddingModel.objects.filter(pk=model.pk).update(active=True)
    model.active = True
    return model


def count_terms(project_id: UUID) -> int:
    """Bring the word statistics of a project up to date; return how many texts have come or gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_count_terms(%s)", [project_id])
        return int(cursor.fetchone()[0])


def _as_row(text: _Text, model: EmbeddingModel, vector: str | None) -> dict[str, str | UUID | None]:
    return {
        "project": text.revision.project_id,
        "heuristic": text.revision.heuristic_id,
        "revision": text.revision.pk,
        "trajectory": text.trajectory_id,
        "model": model.pk,
        "kind": text.kind,
        "sha256": text.sha256,
        "vector": vector,
        "text": "\n".join((text.body, *text.revision.tags)) if text.kind == _Kind.LESSON else text.body,
    }


def find_relevant_revisions(heuristic_ids: Iterable[UUID]) -> QuerySet[HeuristicRevision]:
    """Return the wordings of these heuristics that may be searched: the newest, and those that agents may be given."""
    return _relevant_revisions().filter(heuristic__in=list(heuristic_ids))


def _relevant_revisions() -> QuerySet[HeuristicRevision]:
    return HeuristicRevision.objects.of_lessons().filter(
        Q(served=True) | Q(live=True) | Q(pk=F("heuristic__current_revision"))
    )


def _revisions_lacking(model: EmbeddingModel) -> QuerySet[HeuristicRevision]:
    complete = Q(terms__isnull=False)
    if find_embedder(model.pk) is not None:
        complete &= Q(vector__isnull=False)
    texts = HeuristicEmbedding.objects.filter(revision=OuterRef("pk"), embedding_model=model)
    return _relevant_revisions().filter(
        ~Exists(texts.filter(complete, kind=_Kind.LESSON)) | Exists(texts.exclude(complete))
    )


def _find_missing(heuristic_ids: list[UUID], model: EmbeddingModel, *, with_vectors: bool) -> list[_Text]:
    revisions = list(find_relevant_revisions(heuristic_ids))
    tasks, helped = _find_source_tasks(heuristic_ids), _find_helped_tasks(heuristic_ids)
    complete = HeuristicEmbedding.objects.filter(revision__in=revisions, embedding_model=model, terms__isnull=False)
    if with_vectors:
        complete = complete.filter(vector__isnull=False)
    present = set(complete.values_list("revision_id", "kind", "text_sha256"))
    missing = []
    for revision in revisions:
        texts = [_lesson_text(revision)]
        own: dict[str, UUID | None] = {revision.source_task: None} if revision.source_task else {}
        of_heuristic = own | tasks.get(revision.heuristic_id, {})
        texts += [
            _Text(revision=revision, trajectory_id=trajectory_id, kind=_Kind.SOURCE_TASK, body=task)
            for task, trajectory_id in of_heuristic.items()
        ]
        texts += [
            _Text(revision=revision, trajectory_id=trajectory_id, kind=_Kind.HELPED_TASK, body=task)
            for task, trajectory_id in helped.get(revision.heuristic_id, {}).items()
        ]
        missing += [text for text in texts if (revision.pk, text.kind, text.sha256) not in present]
    return missing


def _lesson_text(revision: HeuristicRevision) -> _Text:
    # What not to do belongs to the lesson; when it does not apply would only attract the wrong tasks.
    words = join_sections((revision.trigger, revision.guideline, revision.avoid))
    return _Text(revision=revision, trajectory_id=None, kind=_Kind.LESSON, body=words)


def _find_source_tasks(heuristic_ids: list[UUID]) -> dict[UUID, dict[str, UUID | None]]:
    """Return the newest different tasks of each heuristic's evidence, each with a trajectory it comes from.

    Those of approved evidence come first: what no reviewer has seen displaces none of them. So many of each lesson that
    was merged into it: a merge makes none harder to find.
    """
    by_heuristic: dict[UUID, dict[str, UUID | None]] = {}
    taken: Counter[tuple[UUID, UUID | None]] = Counter()
    rows = Evidence.objects.filter(heuristic__in=heuristic_ids).order_by(
        F("approved_at").desc(nulls_last=True), "-created_at"
    )
    for heuristic_id, merged_from, trajectory_id, task in rows.values_list(
        "heuristic_id", "merged_from_id", "trajectory_id", "trajectory__task"
    ):
        tasks = by_heuristic.setdefault(heuristic_id, {})
        if task not in tasks and taken[heuristic_id, merged_from] < MAX_SOURCE_TASKS:
            tasks[task] = trajectory_id
            taken[heuristic_id, merged_from] += 1
    return by_heuristic


def _find_helped_tasks(heuristic_ids: list[UUID]) -> dict[UUID, dict[str, UUID]]:
    """Return the different tasks that each heuristic has helped with, as note_help keeps them for any wording."""
    by_heuristic: dict[UUID, dict[str, UUID]] = {}
    rows = HeuristicEmbedding.objects.filter(heuristic__in=heuristic_ids, kind=_Kind.HELPED_TASK).order_by("id")
    for heuristic_id, trajectory_id, task in rows.values_list("heuristic_id", "trajectory_id", "trajectory__task"):
        if task and trajectory_id:
            by_heuristic.setdefault(heuristic_id, {}).setdefault(task, trajectory_id)
    return by_heuristic
