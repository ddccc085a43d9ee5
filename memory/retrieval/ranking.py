"""From candidates to an answer: family, support, near-repeats, and nothing where nothing fits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_vector

SAME_FAMILY, OTHER_FAMILY = 1.1, 0.95
SUPPORT_BOOST, SUPPORT_ENOUGH = 0.02, 5  # bounded: no lesson rises by being repeated (D4)
NEAR_REPEAT = 0.98  # cosine of two lessons' vectors that say the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """How like its task a lesson must be: the best for anything to be injected, any other to be injected or listed."""

    best: float
    injected: float
    listed: float


# Measured: of 100 tasks that some lesson fits 97 to 100 get a block, of 100 of a foreign domain 14 to 67 do
# (docs/retrieval.md): the floors lean towards giving, since a reviewer has found every lesson worth reading.
FLOORS = {
    "hybrid": Floor(best=0.15, injected=0.10, listed=0.05),
    "embedding": Floor(best=0.25, injected=0.20, listed=0.10),
    "lexical": Floor(best=0.06, injected=0.03, listed=0.01),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A candidate in its place, with its component scores and one sentence why.

    `fits` says that it is like enough to the task to be injected; others are listed for who wants to look.
    """

    candidate: Candidate
    fits: bool = True
    scores: dict[str, float] = field(default_factory=dict)
    reason: str = ""


def rank(candidates: Sequence[Candidate], *, task_id: str = "", top_k: int, mode: str) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first; where the likest is not like the task, none of them fits."""
    floor = FLOORS[mode]
    abstains = max(map(_likeness, candidates), default=0.0) < floor.best
    scored = [
        (candidate.score * _boost(candidate, task_id), candidate)
        for candidate in candidates
        if _likeness(candidate) >= floor.listed
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1].heuristic_id))
    if scored:  # an old task very like the new one decides who is first, not who else is there
        first = max(scored, key=lambda pair: pair[1].lead * _boost(pair[1], task_id))
        scored.remove(first)
        scored.insert(0, first)
    chosen = _leave_out_repeats([candidate for _, candidate in scored], top_k=top_k)
    scores = {candidate.heuristic_id: score for score, candidate in scored}
    return [
        Ranked(
            candidate=candidate,
            fits=not abstains and _likeness(candidate) >= floor.injected,
            scores=_as_scores(candidate, scores[candidate.heuristic_id]),
            reason=explain(candidate, task_id=task_id),
        )
        for candidate in chosen
    ]


def rank_as_drawn(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    return [Ranked(candidate=candidate, reason="It was drawn at random.") for candidate in candidates]


def explain(candidate: Candidate, *, task_id: str = "") -> str:
    """Say in one sentence why a lesson is here."""
    family = " It is of the same task family." if task_id and candidate.task_id == task_id else ""
    if candidate.task is not None and candidate.task >= (candidate.own or 0):
        return f"It was learnt from a task like this one.{family}"
    if (candidate.words or 0) > (candidate.meaning or 0):
        return f"It uses the words of the task.{family}"
    return f"What it says is close in meaning to the task.{family}"


def _likeness(candidate: Candidate) -> float:
    return max(candidate.own or 0.0, candidate.task or 0.0)


def _boost(candidate: Candidate, task_id: str) -> float:
    boost = 1 + SUPPORT_BOOST * min(candidate.support, SUPPORT_ENOUGH) / SUPPORT_ENOUGH
    if task_id and candidate.task_id == task_id:
        return boost * SAME_FAMILY
    if task_id and candidate.task_id and candidate.scope == "task_family":
        return boost * OTHER_FAMILY
    return boost


def _leave_out_repeats(candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
    """Take the first `top_k`, passing over those that say what a better one said."""
    chosen: list[Candidate] = []
    taken = np.empty((top_k, 0), np.float32)
    count = 0
    for candidate in candidates:
        if len(chosen) == top_k:
            break
        if candidate.vector is not None:
            vector = read_vector(candidate.vector)
            # One by one: a product of all pairs is large enough for BLAS to start threads, which costs 30 times more.
            if count and float((taken[:count] @ vector).max()) >= NEAR_REPEAT:
                continue
            if not count:
                taken = np.empty((top_k, len(vector)), np.float32)
            taken[count] = vector
            count += 1
        chosen.append(candidate)
    return chosen


def _as_scores(candidate: Candidate, score: float) -> dict[str, float]:
    parts = {
        "score": score,
        "meaning": candidate.meaning,
        "words": candidate.words,
        "source_task": candidate.task,
    }
    return {name: round(value, 4) for name, value in parts.items() if value is not None}
