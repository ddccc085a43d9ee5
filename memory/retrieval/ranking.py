"""From candidates to an answer: family, use, support, near-repeats, limits, and nothing where nothing fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_vector
from memory.retrieval.places import Ranked
from memory.retrieval.quota import NO_LIMITS, Limits
from memory.retrieval.subtasks import find_subtask

SAME_FAMILY, OTHER_FAMILY = 1.1, 0.95
# What a lesson has proved to be worth and how often it was seen move it by a tenth at most, so that nobody can raise
# one by reporting on it or by repeating it (D4). A family is what the caller says of the task, not what a lesson has.
USEFULNESS_BOOST = 0.1
SUPPORT_BOOST, SUPPORT_ENOUGH = 0.02, 5
LOWEST_BOOST, HIGHEST_BOOST = 0.9, 1.1
NEAR_REPEAT = 0.98  # cosine of two lessons' vectors that say the same
COVERED = 0.5  # a lesson scores at least so much of the best to be taken for a sub-task alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """How like its task a lesson must be: the best for anything to be injected, any other to be injected or listed."""

    best: float
    injected: float
    listed: float


# Measured: of 100 tasks that some lesson fits 97 to 100 get a block, of 100 of a foreign domain 14 to 67 do
# (docs/retrieval.md): the floors lean towards giving, since every lesson was approved before it got here.
FLOORS = {
    "hybrid": Floor(best=0.15, injected=0.10, listed=0.05),
    "embedding": Floor(best=0.25, injected=0.20, listed=0.10),
    "lexical": Floor(best=0.06, injected=0.03, listed=0.01),
}


def rank(
    candidates: Sequence[Candidate],
    *,
    task_id: str = "",
    top_k: int,
    mode: str,
    limits: Limits = NO_LIMITS,
    parts: Sequence[str] = (),
    covers_parts: bool = False,
    reranked: Mapping[UUID, float] | None = None,
) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first; where the likest is not like the task, none of them fits.

    Args:
        parts: of the task, to say which of them a lesson serves.
        covers_parts: each part that some good lesson serves is served in the answer.
        reranked: what a cross-encoder said of them, to be shown.
    """
    floor = FLOORS[mode]
    abstains = max(map(_likeness, candidates), default=0.0) < floor.best
    boosted = [(_boost(one, task_id), one) for one in candidates if _likeness(one) >= floor.listed]
    scored = [(one.score * boost, one.lead * boost, one) for boost, one in boosted]
    scored.sort(key=lambda found: (-found[0], found[2].heuristic_id))
    if scored:  # an old task very like the new one decides who is first, not who else is there
        first = max(range(len(scored)), key=lambda place: scored[place][1])
        scored.insert(0, scored.pop(first))
    scores = {candidate.heuristic_id: score for score, _, candidate in scored}
    wanted = len(scored) if limits != NO_LIMITS or covers_parts else top_k
    different = _leave_out_repeats([candidate for _, _, candidate in scored], top_k=wanted)
    allowed = limits.apply(different, top_k=top_k) if limits != NO_LIMITS else different
    subtasks = {one.heuristic_id: find_subtask(parts, _texts(one)) for one in allowed} if parts else {}
    chosen = _cover(allowed, subtasks, scores, top_k=top_k) if covers_parts else allowed
    return [
        Ranked(
            candidate=candidate,
            fits=not abstains and _likeness(candidate) >= floor.injected,
            value=scores[candidate.heuristic_id],
            scores=_as_scores(candidate, scores[candidate.heuristic_id], reranked),
            reason=explain(candidate, task_id=task_id, subtask=subtasks.get(candidate.heuristic_id, "")),
            subtask=subtasks.get(candidate.heuristic_id, ""),
        )
        for candidate in chosen
    ]


def rank_as_drawn(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    return [Ranked(candidate=candidate, reason="It was drawn at random.") for candidate in candidates]


def explain(candidate: Candidate, *, task_id: str = "", subtask: str = "") -> str:
    """Say in one sentence why a lesson is here."""
    more = " and is of the same task family" if task_id and candidate.task_id == task_id else ""
    part = " of a part" if subtask else ""
    if candidate.task is not None and candidate.task >= (candidate.own or 0):
        this = "a part of this one" if subtask else "this one"
        return f"It was learnt from, or has helped with, a task like {this}{more}."
    if (candidate.words or 0) > (candidate.meaning or 0):
        return f"It uses the words{part} of the task{more}."
    return f"What it says is close in meaning to {'a part of ' if subtask else ''}the task{more}."


def _texts(candidate: Candidate) -> tuple[str, ...]:
    return candidate.trigger, candidate.guideline, candidate.matched_task, " ".join(candidate.tags)


def _likeness(candidate: Candidate) -> float:
    return max(candidate.own or 0.0, candidate.task or 0.0)


def _boost(candidate: Candidate, task_id: str) -> float:
    boost = 1 + SUPPORT_BOOST * min(candidate.support, SUPPORT_ENOUGH) / SUPPORT_ENOUGH
    boost += USEFULNESS_BOOST * (2 * candidate.usefulness - 1)
    boost = min(max(boost, LOWEST_BOOST), HIGHEST_BOOST)
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


def _cover(
    candidates: Sequence[Candidate], subtasks: Mapping[UUID, str], scores: Mapping[UUID, float], *, top_k: int
) -> list[Candidate]:
    """Take the first `top_k`; a part of the task that none of them serves takes a place from one served twice."""
    chosen, others = list(candidates[:top_k]), candidates[top_k:]
    if not others or not chosen:
        return chosen
    enough = COVERED * scores[chosen[0].heuristic_id]
    served = [subtasks.get(one.heuristic_id, "") for one in chosen]
    for other in others:
        part = subtasks.get(other.heuristic_id, "")
        if not part or part in served or scores[other.heuristic_id] < enough:
            continue
        place = next((place for place in range(len(chosen) - 1, 0, -1) if served.count(served[place]) > 1), None)
        if place is None:
            break
        chosen[place : place + 1], served[place : place + 1] = [], []
        chosen.append(other)
        served.append(part)
    return chosen


def _as_scores(candidate: Candidate, score: float, reranked: Mapping[UUID, float] | None) -> dict[str, float]:
    parts = {
        "score": score,
        "meaning": candidate.meaning,
        "words": candidate.words,
        "source_task": candidate.task,
        "rerank": (reranked or {}).get(candidate.heuristic_id),
        "usefulness": candidate.usefulness if candidate.usefulness != 0.5 else None,
    }
    return {name: round(value, 4) for name, value in parts.items() if value is not None}
