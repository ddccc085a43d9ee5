"""An index of the vectors of a project's passages, where it has many: built as that of lessons is."""

import hashlib

import structlog
from django.db import connection
from django.db.models import Count

from memory.database_owner import as_owner
from memory.index.tuning import CONSTRUCTION, INDEX_FROM_TEXTS, NEIGHBOURS, SHRUNK, alone
from memory.passages.models import PassageEmbedding
from memory.projects.models import Project
from memory.retrieval.database_search import is_indexable
from memory.retrieval.models import EmbeddingModel

log = structlog.get_logger(__name__)

_PREFIX = "memory_passages_"


def has_index(project: Project, model: EmbeddingModel) -> bool:
    """Tell whether searches can use an index."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [_name(project, model)])
        found = cursor.fetchone()
    return bool(found and found[0])


def find_projects_to_tune() -> list[Project]:
    """Return the projects with an index of passages, or with so many that one may be worth it."""
    many = PassageEmbedding.objects.values("project").annotate(rows=Count("pk")).filter(rows__gte=INDEX_FROM_TEXTS)
    large = {row["project"] for row in many}
    present = _find_indexes(_PREFIX)
    return [
        one
        for one in Project.objects.order_by("slug")
        if one.pk in large or any(name.startswith(_prefix(one)) for name in present)
    ]


def tune_passages(project: Project, *, threshold: int | None = None) -> bool:
    """Build, keep or drop the index of a project's passages; return whether there is one afterwards.

    Searches continue meanwhile. Not to be called in a transaction. Where another process builds already, nothing
    happens.

    Args:
        threshold: passages from which on there is an index; None takes INDEX_FROM_TEXTS.
    """
    threshold = INDEX_FROM_TEXTS if threshold is None else threshold
    model = EmbeddingModel.objects.filter(active=True).first()
    with as_owner(), alone(project) as allowed:
        if not allowed or model is None:
            return False
        vectors = PassageEmbedding.objects.filter(project=project, embedding_model=model, vector__isnull=False).count()
        is_there = has_index(project, model)
        is_wanted = vectors >= threshold * (SHRUNK if is_there else 1) and model.dimensions and is_indexable(model.pk)
        for name in _find_indexes(_prefix(project)):  # also of other models, and what a build that broke off has left
            if not (is_wanted and is_there and name == _name(project, model)):
                _drop(name)
        if is_wanted and not is_there:
            _build(project, model, vectors)
    return bool(is_wanted)


def _build(project: Project, model: EmbeddingModel, vectors: int) -> None:
    name = _name(project, model)
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = %s", [f"{min(max(64, vectors * 3 // 1000), 2000)}MB"])
        cursor.execute(
            f"CREATE INDEX CONCURRENTLY {name} ON memory_passageembedding "
            f"USING hnsw ((vector::halfvec({model.dimensions})) halfvec_ip_ops) "
            f"WITH (m = {NEIGHBOURS}, ef_construction = {CONSTRUCTION}) "
            "WHERE project_id = %s AND embedding_model_id = %s",
            [project.pk, model.pk],
        )
    log.info("passage_index_built", index=name, passages=vectors)


def _drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")
    log.info("passage_index_dropped", index=name)


def _prefix(project: Project) -> str:
    return f"{_PREFIX}{hashlib.sha256(project.pk.bytes).hexdigest()[:12]}_"


def _name(project: Project, model: EmbeddingModel) -> str:
    return f"{_prefix(project)}{hashlib.sha256(model.pk.encode()).hexdigest()[:8]}"


def _find_indexes(prefix: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'i' AND starts_with(relname, %s)", [prefix])
        return [name for (name,) in cursor.fetchall()]
