"""Find the lessons nearest to a run or to a new lesson, by meaning or by words, and the other runs of its family."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import BooleanField, ExpressionWrapper, F, Func, IntegerField, Max, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from pgvector import HalfVector
from pgvector.django import MaxInnerProduct

from memory.embeddings.base import Vectors, embed_composites, join_sections
from memory.embeddings.registry import get_embedder
from memory.errors import EmbedderError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.models import Project
from memory.retrieval.models import HeuristicEmbedding
from memory.runs.episode import Episode
from memory.runs.models import Trajectory, TrajectoryOutcome
from reflection.reflectors.base import NearHeuristic

log = structlog.get_logger(__name__)

MAX_NEAR = 10
MIN_SIMILARITY = 0.3
MAX_ERRORS = 3
MAX_QUERY_WORDS = 40
MAX_FAMILY_RUNS = 10
MAX_FAMILY_STEPS = 200

_DECIDED = (TrajectoryOutcome.SUCCESS, TrajectoryOutcome.FAILURE)
_LIVE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An existing heuristic and the cosine of its lesson with another one."""

    heuristic_id: UUID
    similarity: float


def live_revisions(project: Project) -> QuerySet[HeuristicRevision]:
    """Return the newest and the served wording of each proposed or approved heuristic."""
    newest_or_served = Q(heuristic__current_revision=F("pk")) | Q(served=True)
    return (
        HeuristicRevision.objects.of_lessons()
        .for_project(project)
        .filter(newest_or_served, heuristic__status__in=_LIVE)
    )


def find_near_heuristics(project: Project, episode: Episode) -> tuple[NearHeuristic, ...]:
    """Return the existing heuristics closest to a run, at most 10, closest first."""
    vectors = embed_texts(_query_texts(episode))
    if vectors is None:
        return _find_by_words(project, episode.task)
    return _shown(find_neighbours(project, vectors, at_least=MIN_SIMILARITY))


def find_family_runs(trajectory: Trajectory) -> tuple[Episode, ...]:
    """Return other runs of the same family that are known to have succeeded or failed, at most 10 of each.

    Runs that were given no lessons come first, those of the hold-out among them, then the newest: what they show is
    not an effect of lessons.
    """
    if not trajectory.task_id:
        return ()
    others = (
        Trajectory.objects.filter(project_id=trajectory.project_id, task_id=trajectory.task_id, is_open=False)
        .exclude(pk=trajectory.pk)
        .alias(
            step_count=Func("steps", function="jsonb_array_length", output_field=IntegerField()),
            is_guided=Coalesce(
                ExpressionWrapper(Q(retrieval__injected_ids__len__gt=0), output_field=BooleanField()), Value(False)
            ),
        )
        .filter(step_count__range=(1, MAX_FAMILY_STEPS))
        .order_by("is_guided", "-created_at", "pk")
    )
    runs = [run for outcome in _DECIDED for run in others.filter(outcome=outcome)[:MAX_FAMILY_RUNS]]
    return tuple(run.as_episode() for run in runs)


def embed_lesson(text: HeuristicText) -> tuple[str, Vectors] | None:
    """Return the embedder's id and the lesson's vector, made from the same text as `embed_heuristics` uses."""
    return embed_texts([(join_sections((text.trigger, text.guideline, text.avoid)),)])


def embed_texts(texts: Sequence[Sequence[str]]) -> tuple[str, Vectors] | None:
    """Return the embedder's id and a vector for each text, given as its sections.

    None where there is no embedder or it does not answer.
    """
    embedder = get_embedder()
    if embedder is None:
        return None
    try:
        return embedder.model_id, embed_composites(embedder, texts)
    # A reflection is worth more than its neighbours: without vectors it goes on by words.
    except EmbedderError as error:
        log.warning("reflection_without_embedder", reason=str(error))
        return None


def find_neighbours(project: Project, embedded: tuple[str, Vectors], *, at_least: float) -> list[Neighbour]:
    """Return the heuristics whose lesson is at least that similar to one of the vectors, at most 10, closest first."""
    model_id, vectors = embedded
    best: dict[UUID, float] = {}
    lessons = HeuristicEmbedding.objects.filter(
        project=project,
        embedding_model=model_id,
        kind=HeuristicEmbedding.Kind.LESSON,
        revision__in=live_revisions(project),
    )
    for vector in vectors:
        # Unit vectors: the inner product is the cosine. The operator gives its negative.
        distance = MaxInnerProduct("vector", HalfVector(vector.tolist()))
        neighbours = lessons.annotate(distance=distance).filter(distance__lte=-at_least).order_by("distance")
        # Twice as many, as a heuristic may have a newest and a served wording.
        for heuristic_id, negative in neighbours.values_list("heuristic_id", "distance")[: 2 * MAX_NEAR]:
            best[heuristic_id] = max(best.get(heuristic_id, -1.0), -negative)
    ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Neighbour(heuristic_id=pk, similarity=similarity) for pk, similarity in ranked[:MAX_NEAR]]


def _shown(neighbours: list[Neighbour]) -> tuple[NearHeuristic, ...]:
    texts = Heuristic.objects.with_text().in_bulk([near.heuristic_id for near in neighbours])
    shown = []
    for near in neighbours:
        revision = texts[near.heuristic_id].current_revision
        if revision is not None:
            shown.append(
                NearHeuristic(
                    id=near.heuristic_id,
                    trigger=revision.trigger,
                    guideline=revision.guideline,
                    similarity=near.similarity,
                )
            )
    return tuple(shown)


def _find_by_words(project: Project, text: str) -> tuple[NearHeuristic, ...]:
    words = dict.fromkeys(word for word in text.split() if word.isalnum())
    if not words:
        return ()
    # Any of the words: a whole task hardly ever occurs in a lesson.
    query = SearchQuery(" or ".join(list(words)[:MAX_QUERY_WORDS]), config="english", search_type="websearch")
    ranked = (
        live_revisions(project)
        .filter(search=query)
        .values("heuristic_id")
        .annotate(rank=Max(SearchRank(F("search"), query)))
        .order_by("-rank", "heuristic_id")[:MAX_NEAR]
    )
    return _shown([Neighbour(heuristic_id=row["heuristic_id"], similarity=0.0) for row in ranked])


def _query_texts(episode: Episode) -> list[tuple[str, ...]]:
    """Return texts for what a run is about: its task; and its task with its last errors and its notes."""
    errors = [step.error for step in episode.steps if step.error][-MAX_ERRORS:]
    notes = [*episode.mistakes[:MAX_ERRORS], *errors]
    return [(episode.task,), (episode.task, " ".join(notes))] if notes else [(episode.task,)]
