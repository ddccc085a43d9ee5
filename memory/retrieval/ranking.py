"""From candidates to an order: what speaks for each lesson, put together, with the reasons kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from memory.retrieval.candidates import Candidate

RANK_CONSTANT = 60  # of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)
DENSE_WEIGHT, LEXICAL_WEIGHT = 0.7, 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A candidate in its place, with its component scores and one sentence why."""

    candidate: Candidate
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    reason: str = ""


def rank(candidates: Iterable[Candidate], *, task_id: str = "", top_k: int) -> list[Ranked]:
    """Order the candidates, best first."""
    found = list(candidates)
    dense = _places({c.heuristic_id: max(c.lesson or -1, c.task or -1) for c in found if c.lesson or c.task})
    lexical = _places({c.heuristic_id: c.lexical for c in found if c.lexical})
    ranked = []
    for candidate in found:
        score = DENSE_WEIGHT * _reciprocal(dense.get(candidate.heuristic_id))
        score += LEXICAL_WEIGHT * _reciprocal(lexical.get(candidate.heuristic_id))
        if task_id and candidate.task_id == task_id:
            score *= 1.1
        parts = {"lesson": candidate.lesson, "source_task": candidate.task, "lexical": candidate.lexical}
        scores = {name: round(value, 4) for name, value in parts.items() if value is not None}
        ranked.append(Ranked(candidate=candidate, score=score, scores=scores, reason=explain(candidate)))
    ranked.sort(key=lambda item: (-item.score, item.candidate.heuristic_id))
    return ranked[:top_k]


def rank_as_drawn(candidates: Iterable[Candidate]) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    return [Ranked(candidate=candidate, score=0.0, reason=explain(candidate)) for candidate in candidates]


def explain(candidate: Candidate) -> str:
    """Say in one sentence why a lesson is here."""
    if candidate.task is not None and candidate.task >= (candidate.lesson or -1):
        return "It was learnt from a task like this one."
    if candidate.lesson is not None:
        return "Its condition is close in meaning to the task."
    return "It shares rare words with the task." if candidate.lexical else "It was drawn at random."


def _places(scores: dict[object, float]) -> dict[object, int]:
    ordered = sorted(scores, key=lambda key: (-scores[key], str(key)))
    return {key: place for place, key in enumerate(ordered, start=1)}


def _reciprocal(place: int | None) -> float:
    return 1 / (RANK_CONSTANT + place) if place else 0.0
