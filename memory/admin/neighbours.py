"""Which lessons in use say nearly the same as the one on the desk."""

import re
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q
from pgvector.django import MaxInnerProduct

from memory.admin.word_diff import DiffPart, diff_heuristics
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.retrieval.models import HeuristicEmbedding

_SHOWN = 3
_MIN_SIMILARITY = 0.5  # below it two lessons merely share a subject
_OPPOSED = {HeuristicRevision.Polarity.WORKS, HeuristicRevision.Polarity.AVOID}
_WORD = re.compile(r"\w{3,}")
_MIN_WORDS, _SAME_WORDS = 3, 0.7
_IN_USE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An existing lesson, how like it is in meaning, and what the words on the desk would change in it."""

    revision: HeuristicRevision
    percent: int
    diff: list[DiffPart]
    contradiction: str  # a sentence; empty where nothing speaks for one


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
            diff=diff_heuristics(found.revision.as_text(), revision.as_text()),
            contradiction=find_contradiction(found.revision, revision),
        )
        for found in _closest(own)
    ]


def find_contradiction(one: HeuristicRevision, other: HeuristicRevision) -> str:
    """Say in a sentence why two close lessons may contradict each other; "" where nothing speaks for it."""
    if _share_of_words(one.guideline, other.avoid) or _share_of_words(other.guideline, one.avoid):
        return "One says to do what the other says to avoid, in nearly the same words."
    if {one.polarity, other.polarity} == _OPPOSED:
        return "One says what works, the other what to avoid."
    return ""


def _share_of_words(text: str, other: str) -> bool:
    """Tell whether most words of the shorter of two texts stand in the longer; too short ones are not compared."""
    words, others = (set(_WORD.findall(each.lower())) for each in (text, other))
    shorter = min(len(words), len(others))
    return shorter >= _MIN_WORDS and len(words & others) >= _SAME_WORDS * shorter


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
