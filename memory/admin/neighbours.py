"""Which lessons in use say nearly the same as the one on the desk."""

from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q
from pgvector.django import MaxInnerProduct

from memory.models import Heuristic, HeuristicEmbedding, HeuristicRevision
from memory.word_diff import DiffPart, diff_lessons

_SHOWN = 3
_MIN_SIMILARITY = 0.5  # below it two lessons merely share a subject
_OPPOSED = {HeuristicRevision.Polarity.WORKS, HeuristicRevision.Polarity.AVOID}
_IN_USE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An existing lesson, how like it is in meaning, and what the words on the desk would change in it."""

    revision: HeuristicRevision
    percent: int
    diff: list[DiffPart]
    may_contradict: bool


def find_neighbours(revision: HeuristicRevision) -> list[Neighbour]:
    """Return the lessons in use that are closest in meaning, closest first; none without an embedder. Two queries."""
    own: Any = (
        HeuristicEmbedding.objects.filter(revision=revision, kind=HeuristicEmbedding.Kind.LESSON, vector__isnull=False)
        .order_by("-embedding_model__active")
        .first()
    )
    if own is None:
        return []
    return [
        Neighbour(
            revision=found.revision,
            percent=round(-100 * found.distance),
            diff=diff_lessons(found.revision.as_text(), revision.as_text()),
            may_contradict={found.revision.polarity, revision.polarity} == _OPPOSED,
        )
        for found in _closest(own)
    ]


def _closest(own: HeuristicEmbedding) -> list[Any]:
    # Unit vectors: the inner product is the cosine. The operator gives its negative.
    return list(
        HeuristicEmbedding.objects.filter(
            Q(heuristic__current_revision=F("revision")),
            project=own.project_id,
            embedding_model=own.embedding_model_id,
            kind=HeuristicEmbedding.Kind.LESSON,
            heuristic__status__in=_IN_USE,
        )
        .exclude(heuristic=own.heuristic_id)
        .annotate(distance=MaxInnerProduct("vector", own.vector))
        .filter(distance__lte=-_MIN_SIMILARITY)
        .select_related("revision__heuristic")
        .order_by("distance")[:_SHOWN]
    )
