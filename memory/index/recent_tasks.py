"""Keep the tasks of the newest runs searchable, so that proposals can be tried on them."""

from uuid import UUID

import structlog
from django.db import connection
from django.db.models import Exists, OuterRef, Subquery
from pgvector import HalfVector

from memory.embeddings.base import embed_composites
from memory.embeddings.registry import find_embedder
from memory.errors import EmbedderError
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import get_active_model
from memory.projects.models import Project
from memory.retrieval.models import EmbeddingModel, TaskVector
from memory.runs.models import Trajectory

log = structlog.get_logger(__name__)

RECENT_TASKS = 200  # of a project, which proposals are tried on to order the queue
BATCH = 32

_INSERT = """
INSERT INTO memory_taskvector
    (trajectory_id, project_id, embedding_model_id, vector, terms, recorded_at)
VALUES (%(trajectory)s, %(project)s, %(model)s, %(vector)s::halfvec, memory_query_vector(%(project)s, %(task)s),
    %(at)s)
ON CONFLICT (trajectory_id) DO UPDATE SET embedding_model_id = EXCLUDED.embedding_model_id, vector = EXCLUDED.vector,
    terms = EXCLUDED.terms
"""


def remember_tasks(project_id: UUID) -> int:
    """Make the vectors of up to BATCH of a project's newest tasks that lack them; return how many were made.

    The newest RECENT_TASKS count; what is older is forgotten. Safe to repeat and to run twice at once.
    Where the embedder does not answer, a task is compared by its words until the next time.
    """
    model = get_active_model()
    runs = Trajectory.objects.filter(project=project_id).order_by("-created_at", "-id")
    newest = list(runs.values_list("pk", flat=True)[:RECENT_TASKS])
    TaskVector.objects.filter(project=project_id).exclude(trajectory__in=newest).delete()
    stored = TaskVector.objects.filter(trajectory__in=newest, embedding_model=model, terms__isnull=False)
    if find_embedder(model.pk) is not None:
        stored = stored.filter(vector__isnull=False)
    there = set(stored.values_list("pk", flat=True))
    # The newest comes last: as long as it is missing, something is.
    missing = [pk for pk in reversed(newest) if pk not in there][:BATCH]
    if not missing:
        return 0
    rows = list(Trajectory.objects.filter(pk__in=missing).values_list("pk", "task", "created_at"))
    vectors = _embed([task for _, task, _ in rows], model)
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                {
                    "trajectory": pk,
                    "project": project_id,
                    "model": model.pk,
                    "vector": vector,
                    "task": task,
                    "at": created_at,
                }
                for (pk, task, created_at), vector in zip(rows, vectors, strict=True)
            ],
        )
    return len(rows)


def find_projects_to_remember(*, limit: int = 20) -> list[UUID]:
    """Return projects with proposals that wait and a newest run whose task is not searchable yet."""
    newest = Trajectory.objects.filter(project=OuterRef("pk")).order_by("-created_at", "-id").values("pk")[:1]
    projects = Project.objects.annotate(newest=Subquery(newest)).filter(
        Exists(Heuristic.objects.proposed().filter(project=OuterRef("pk"))),
        ~Exists(TaskVector.objects.filter(pk=OuterRef("newest"), embedding_model__active=True)),
        newest__isnull=False,
    )
    return list(projects.order_by("pk").values_list("pk", flat=True)[:limit])


def _embed(tasks: list[str], model: EmbeddingModel) -> list[str | None]:
    embedder = find_embedder(model.pk)
    if embedder is None:
        return [None] * len(tasks)
    try:
        return [HalfVector(vector).to_text() for vector in embed_composites(embedder, [(task,) for task in tasks])]
    except EmbedderError as error:
        log.warning("tasks_not_embedded", reason=str(error), count=len(tasks))
        return [None] * len(tasks)
