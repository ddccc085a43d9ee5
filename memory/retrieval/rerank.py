"""A cross-encoder that reads task and lesson together. It belongs to another app, which registers it here."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from memory.retrieval.breaker import Breaker
from memory.retrieval.candidates import Candidate

MAX_DOCUMENTS = 50


class RerankingFailed(Exception):
    """The cross-encoder gave no scores in time; the message says why in a few words, for the answer."""


class Reranker(Protocol):
    """Scores texts against a task. Called with no transaction open."""

    def score_texts(self, task: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the relevance of each text by its place, any scale.

        Raises:
            RerankingFailed: there are no scores to be had in time.
        """
        ...


FindReranker = Callable[[], Reranker | None]
_find: list[FindReranker] = []
breaker = Breaker()


def register_reranker(find: FindReranker) -> None:
    """Name who finds the cross-encoder; `find` returns None where none is configured."""
    _find[:] = [find]


def find_reranker() -> Reranker | None:
    """Return the cross-encoder, or None where none is configured."""
    return _find[0]() if _find else None


def rerank(
    reranker: Reranker, *, task: str, candidates: Sequence[Candidate]
) -> tuple[list[Candidate], dict[UUID, float]]:
    """Give the best candidates the cross-encoder's scores, 0 to 1; those it was not asked about come after them.

    Raises:
        RerankingFailed: it gave no scores in time.
    """
    if breaker.is_resting:
        raise RerankingFailed("did not answer a moment ago")
    asked, rest = list(candidates[:MAX_DOCUMENTS]), list(candidates[MAX_DOCUMENTS:])
    if not asked:
        return [], {}
    texts = [" ".join(part for part in (one.trigger, one.guideline, one.avoid) if part) for one in asked]
    try:
        found = reranker.score_texts(task, texts)
    except RerankingFailed:
        breaker.note(answered=False)
        raise
    breaker.note(answered=True)
    scale = _as_share if all(0 <= score <= 1 for score in found.values()) else _from_logit
    scored = [(scale(found[place]) if place in found else 0.0, one) for place, one in enumerate(asked)]
    lowest = min(score for score, _ in scored)
    ordered = [
        *(one._replace(score=score, lead=score) for score, one in scored),
        *(one._replace(score=lowest / 2, lead=lowest / 2) for one in rest),
    ]
    return ordered, {one.heuristic_id: score for score, one in scored}


def _as_share(score: float) -> float:
    return float(score)  # of numpy's floats, which a reranker may well give, JSON knows nothing


def _from_logit(score: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, score))))
