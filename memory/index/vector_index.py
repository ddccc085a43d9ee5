"""One HNSW index over the vectors of all lessons, and one over those of all passages, while a project has many."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.db import connection, models
from django.db.models import Count

from memory.database_owner import as_owner
from memory.retrieval.database_search import INDEX_FROM_TEXTS, is_indexable
from memory.retrieval.models import EmbeddingModel

log = structlog.get_logger(__name__)

# More neighbours than pgvector's defaults, which lost results in 4 of 60 tasks at 100,000 texts; these lose none.
NEIGHBOURS, CONSTRUCTION = 32, 200
QUICK_NEIGHBOURS, QUICK_CONSTRUCTION = 16, 64  # beyond this many texts a build of the former takes hours
QUICK_FROM_TEXTS = 300_000
PREFIXES = {"memory_heuristicembedding": "memory_search_", "memory_passageembedding": "memory_passages_"}
SHRUNK = 0.5  # of the threshold: where no project has so many texts any more, the index goes


def has_index(table: type[models.Model], model: EmbeddingModel) -> bool:
    """Tell whether searches can use the index of a table's vectors."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [_name(table, model)])
        row = cursor.fetchone()
    return bool(row and row[0])


def keep_index(table: type[models.Model], *, threshold: int = INDEX_FROM_TEXTS, **searched: Any) -> bool:
    """Build, keep or drop the index of the active model's vectors; return whether there is one afterwards.

    Searches continue meanwhile: without an index they compare everything. Not to be called in a transaction. Where
    another process builds already, nothing happens.

    Args:
        table: of vectors, with a project, an embedding model and a vector in each row.
        threshold: rows of one project from which on there is an index.
        searched: which of the rows searches read.
    """
    model = EmbeddingModel.objects.filter(active=True).first()
    # Only the owner of a table may index it, and the lock belongs to that connection.
    with as_owner(), _alone(table) as allowed:
        if not allowed or model is None:
            return False
        rows = table._default_manager.filter(embedding_model=model, vector__isnull=False, **searched)
        counts = [count for _, count in rows.order_by().values_list("project").annotate(count=Count("pk"))]
        name, largest = _name(table, model), max(counts, default=0)
        is_there = has_index(table, model)
        # A lower bar for one that is there, so that a project at the threshold does not build and drop in turn.
        is_wanted = largest >= threshold * (SHRUNK if is_there else 1) and model.dimensions and is_indexable(model.pk)
        for other in _find_indexes(table):  # also of other models, and what a build that broke off has left
            if not (is_wanted and is_there and other == name):
                _drop(other)
        if is_wanted and not is_there:
            _build(table, model, texts=sum(counts), condition="".join(f"{column} AND " for column in searched))
    return bool(is_wanted)


def _build(table: type[models.Model], model: EmbeddingModel, *, texts: int, condition: str) -> None:
    """Build an index while others read and write."""
    quick = texts >= QUICK_FROM_TEXTS
    neighbours, construction = (QUICK_NEIGHBOURS, QUICK_CONSTRUCTION) if quick else (NEIGHBOURS, CONSTRUCTION)
    megabytes = min(max(64, texts * 3 // 1000), 2000)  # the whole graph, else a build takes many times as long
    name, started = _name(table, model), time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = %s", [f"{megabytes}MB"])
        cursor.execute(
            f"CREATE INDEX CONCURRENTLY {name} ON {table._meta.db_table} "
            f"USING hnsw ((vector::halfvec({model.dimensions})) halfvec_ip_ops) "
            f"WITH (m = {neighbours}, ef_construction = {construction}) WHERE {condition}embedding_model_id = %s",
            [model.pk],
        )
    log.info("search_index_built", index=name, texts=texts, seconds=time.monotonic() - started)


def _drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")
    log.info("search_index_dropped", index=name)


def _name(table: type[models.Model], model: EmbeddingModel) -> str:
    return f"{PREFIXES[table._meta.db_table]}{hashlib.sha256(model.pk.encode()).hexdigest()[:12]}"


def _find_indexes(table: type[models.Model]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'i' AND starts_with(relname, %s)",
            [PREFIXES[table._meta.db_table]],
        )
        return [name for (name,) in cursor.fetchall()]


@contextmanager
def _alone(table: type[models.Model]) -> Iterator[bool]:
    """Yield whether this process is the one to build, with no limit on how long a statement may take."""
    lock = f"vector index of {table._meta.db_table}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [lock])
        allowed = bool(cursor.fetchone()[0])
        try:
            if allowed:
                # A build takes longer than any request may.
                cursor.execute("SET statement_timeout = 0")
                cursor.execute("SET lock_timeout = 0")
            yield allowed
        finally:
            if allowed:
                cursor.execute("RESET statement_timeout")
                cursor.execute("RESET lock_timeout")
                cursor.execute("RESET maintenance_work_mem")
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [lock])
