"""Scores by a cross-encoder, which reads task and lesson together. Another app provides and registers it here."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from memory.egress import Breaker
from memory.retrieval.candidates import Candidate

MAX_DOCUMENTS = 50
FORMATS = ("cohere", "tei")  # of requests: of Cohere, Jina and vLLM; of text-embeddings-inference


class RerankingFailed(Exception):
    """The cross-encoder gave no scores in time; the message says why in a few words, for the answer."""


class Reranker(Protocol):
    """Scores texts against a task. Called with no transaction open."""

    def score_texts(self, task: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the relevance of each text by its place, any scale.

        Raises:
            RerankingFailed: there are no scores in time.
        """
        ...


FindReranker = Callable[[], Reranker | None]
_find: list[FindReranker] = []
breaker = Breaker()


def register_reranker(find: FindReranker) -> None:
    """Set the function that finds the cross-encoder; it returns None where none is configured."""
    _find[:] = [find]


def find_reranker() -> Reranker | None:
    """Return the cross-encoder, or None where none is configured."""
    return _find[0]() if _find else None


def rerank(reranker: Reranker, *, task: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Give the best candidates the cross-encoder's scores, 0 to 1; those it was not asked about come after them.

    Raises:
        RerankingFailed: it gave no scores in time.
    """
    asked, rest = candidates[:MAX_DOCUMENTS], candidates[MAX_DOCUMENTS:]
    if not asked:
        return []
    if breaker.is_resting:
        raise RerankingFailed("did not answer a moment ago")
    texts = [
        " ".join(part for part in (candidate.trigger, candidate.guideline, candidate.avoid) if part)
        for candidate in asked
    ]
    try:
        relevances = reranker.score_texts(task, texts)
    except RerankingFailed:
        breaker.note(answered=False)
        raise
    breaker.note(answered=True)
    # float: a reranker may give those of numpy, which JSON does not know
    scale = float if all(0 <= score <= 1 for score in relevances.values()) else _from_logit
    scores = [scale(relevances[index]) if index in relevances else 0.0 for index in range(len(asked))]
    # Half of the lowest, so that those it was not shown come last.
    lowest = min(scores) / 2
    return [
        *(candidate._replace(score=score, rerank=score) for candidate, score in zip(asked, scores, strict=True)),
        *(candidate._replace(score=lowest, rerank=lowest) for candidate in rest),
    ]


def _from_logit(score: float) -> float:
    # The bounds keep exp from overflowing; beyond them the result is 0 or 1 anyway.
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, score))))
