"""An index for each large project, and how well searches do with it."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from memory.database_owner import as_owner
from memory.embeddings.registry import find_embedder
from memory.projects.models import Project
from memory.retrieval.candidates import find_in_database
from memory.retrieval.database_search import FIRST_BREADTH, Search, UsableIndex, is_indexable
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding, Retrieval, SearchIndex, SearchStatistics
from memory.retrieval.scoring import MEANING_WEIGHT
from memory.retrieval.task_vector import make_query_vector

log = structlog.get_logger(__name__)

INDEX_FROM_TEXTS = 20_000  # served texts of a project from which an index pays
# More neighbours than pgvector's defaults, which lost results in 4 of 60 tasks at 100,000 texts; these lose none.
NEIGHBOURS, CONSTRUCTION = 32, 200
QUICK_NEIGHBOURS, QUICK_CONSTRUCTION = 16, 64  # beyond this many texts a build of the former takes hours
QUICK_FROM_TEXTS = 300_000
MOST_BREADTH = 8 * FIRST_BREADTH
WANTED_RECALL, LEAST_RECALL = 0.95, 0.5
REBUILD_FACTOR = 4  # an index that has grown this much is built again
NEAREST = 20  # lessons that both ways are asked for
SHRUNK = 0.5  # of the threshold: below, the index goes


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Share of the nearest lessons that searches by the index find: the mean over tasks, and that of the worst task."""

    mean: float
    least: float
    tasks: int


def find_projects_to_tune() -> list[Project]:
    """Return the projects that have an index or serve so much that one may be worth it."""
    least = INDEX_FROM_TEXTS * SHRUNK
    large = SearchStatistics.objects.filter(texts__gte=least).values("project_id")
    indexed = SearchIndex.objects.values("project_id")
    return list(Project.objects.filter(Q(pk__in=large) | Q(pk__in=indexed)).order_by("slug"))


def tune_search(project: Project, *, threshold: int | None = None) -> SearchIndex | None:
    """Build, keep or drop the index of a project by how much it serves; return the one that is in use afterwards.

    Searches continue meanwhile: the old index is used until the new one is whole, and without any index everything is
    compared. Not to be called in a transaction. Where another process builds already, nothing happens.

    Args:
        threshold: served texts from which on there is an index; None takes INDEX_FROM_TEXTS.
    """
    threshold = INDEX_FROM_TEXTS if threshold is None else threshold
    model = EmbeddingModel.objects.filter(active=True).first()
    with as_owner(), alone(project) as allowed:
        if not allowed:
            return None
        present = _find_indexes(project)
        SearchIndex.objects.filter(project=project).exclude(name__in=present).delete()  # it was dropped by hand
        found = list(SearchIndex.objects.filter(project=project))
        texts = 0
        if model is not None and model.dimensions and is_indexable(model.pk):
            served = HeuristicEmbedding.objects.filter(project=project, embedding_model=model, served=True)
            texts = served.filter(vector__isnull=False).count()
        current = next((index for index in found if model and index.embedding_model_id == model.pk), None)
        if model is None or texts < threshold * (SHRUNK if current else 1):
            current = None
        elif current is None or texts > current.texts * REBUILD_FACTOR:
            current = _build(project, model, texts)
        for name in present:  # also what a build that was broken off has left
            if current is None or name != current.name:
                _drop(name)
    return current


def measure_recall(index: SearchIndex, *, tasks: int = 20) -> Recall | None:
    """Compare searches by an index with a comparison of everything, on the tasks asked last; write down how it did.

    Where too little is found, searches take more from the index from then on; where that does not help either, the
    index goes and everything is compared.

    Args:
        tasks: how many different tasks to ask.

    Returns:
        None where no task was logged or the embedder is away.
    """
    embedder = find_embedder(index.embedding_model_id)
    logged = Retrieval.objects.filter(project=index.project, mode=Retrieval.Mode.HYBRID).order_by("-created_at")
    sample = list(dict.fromkeys(logged.values_list("task", flat=True)[: tasks * 5]))[:tasks]
    if embedder is None or not sample:
        return None
    plan = UsableIndex(embedder.model_id, embedder.dimensions, index.breadth)
    shares = []
    for task in sample:
        search = Search(
            project_id=index.project_id,
            task=task,
            vector=make_query_vector(embedder, task),
            model_id=embedder.model_id,
            meaning_weight=MEANING_WEIGHT,
            limit=NEAREST,
        )
        exact, indexed = ({one.heuristic_id for one in find_in_database(search, index=way)} for way in (None, plan))
        shares.append(len(exact & indexed) / len(exact) if exact else 1.0)
    recall = Recall(mean=sum(shares) / len(shares), least=min(shares), tasks=len(shares))
    index.recall_mean, index.recall_least, index.recall_tasks = recall.mean, recall.least, recall.tasks
    index.measured_at = timezone.now()
    enough = recall.mean >= WANTED_RECALL and recall.least >= LEAST_RECALL
    if not enough and index.breadth < MOST_BREADTH:
        index.breadth *= 2
    index.save(update_fields=["recall_mean", "recall_least", "recall_tasks", "measured_at", "breadth"])
    write = log.info if enough else log.warning
    write("search_recall_measured", index=index.name, mean=recall.mean, least=recall.least, breadth=index.breadth)
    return recall


def _build(project: Project, model: EmbeddingModel, texts: int) -> SearchIndex:
    """Build an index while others read and write."""
    quick = texts >= QUICK_FROM_TEXTS
    neighbours, construction = (QUICK_NEIGHBOURS, QUICK_CONSTRUCTION) if quick else (NEIGHBOURS, CONSTRUCTION)
    name = f"{_get_prefix(project)}{time.time_ns():x}"
    megabytes = min(max(64, texts * 3 // 1000), 2000)  # the whole graph, else a build takes many times as long
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = %s", [f"{megabytes}MB"])
        cursor.execute(
            f"CREATE INDEX CONCURRENTLY {name} ON memory_heuristicembedding "
            f"USING hnsw ((vector::halfvec({model.dimensions})) halfvec_ip_ops) "
            f"WITH (m = {neighbours}, ef_construction = {construction}) "
            "WHERE served AND project_id = %s AND embedding_model_id = %s",
            [project.pk, model.pk],
        )
    index = SearchIndex.objects.create(
        name=name,
        project=project,
        embedding_model=model,
        texts=texts,
        breadth=FIRST_BREADTH,
        build_seconds=time.monotonic() - started,
    )
    log.info("search_index_built", index=name, texts=texts, seconds=index.build_seconds)
    return index


def _get_prefix(project: Project) -> str:
    return f"memory_search_{hashlib.sha256(project.pk.bytes).hexdigest()[:12]}_"


def _find_indexes(project: Project) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'i' AND starts_with(relname, %s)", [_get_prefix(project)]
        )
        return [name for (name,) in cursor.fetchall()]


def _drop(name: str) -> None:
    """Stop using an index, then remove it: a search that still counts on it compares everything."""
    SearchIndex.objects.filter(pk=name).delete()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")
    log.info("search_index_dropped", index=name)


@contextmanager
def alone(project: Project) -> Iterator[bool]:
    """Yield whether this process is the one to build for a project, with no limit on how long a statement may take."""
    lock = f"memory_tune_search {project.pk}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [lock])
        allowed = bool(cursor.fetchone()[0])
        try:
            if allowed:
                cursor.execute("SET statement_timeout = 0")
                cursor.execute("SET lock_timeout = 0")
            yield allowed
        finally:
            if allowed:
                cursor.execute("RESET statement_timeout")
                cursor.execute("RESET lock_timeout")
                cursor.execute("RESET maintenance_work_mem")
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [lock])
