"""The order of an answer: scores with boosts, without repeats, within limits, and none if none fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_vector
from memory.retrieval.limits import NO_LIMITS, Limits
from memory.retrieval.name_match import find_names
from memory.retrieval.question import Question
from memory.retrieval.subtasks import find_subtasks, lists_its_parts, split_task

SAME_FAMILY, OTHER_FAMILY = 1.1, 0.95
# What a lesson has proved to be worth and how often it was seen move it by a tenth at most, so that an agent cannot
# push a lesson up by reporting on it or repeating it (D4). A family is what the caller says of the task.
USEFULNESS_BOOST = 0.1
SUPPORT_BOOST, SUPPORT_ENOUGH = 0.02, 5
LOWEST_BOOST, HIGHEST_BOOST = 0.9, 1.1
NEAR_REPEAT = 0.98  # cosine of two lessons' vectors that say the same
NAMES_SIMILARITY = 0.3  # of a lesson that names all that the task names, whatever else it says
COVERED = 0.5  # a lesson scores at least so much of the best to be taken for a sub-task alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """How like the task lessons must be: the best for anything to be injected, each to be injected or listed."""

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


class Ranked(NamedTuple):  # every task makes twenty
    """A candidate in its place, with its component scores and one sentence why.

    `fits` says that it is like enough to the task to be injected; others are only listed. `value` is what it is worth
    against the others in the block. `subtask` is the part of the task it serves, empty for the whole.
    """

    candidate: Candidate
    scores: dict[str, float]
    reason: str
    fits: bool = True
    value: float = 1.0
    subtask: str = ""


def rank(
    candidates: Sequence[Candidate], question: Question, *, top_k: int, mode: str, limits: Limits = NO_LIMITS
) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first; where the most similar is not like the task, none of them fits.

    Where the task lists its parts, each part that some good lesson serves is served in the answer.

    Args:
        mode: in which the candidates were found.
    """
    floor, task_id = FLOORS[mode], question.task_id
    nearness = [get_similarity(one) for one in candidates]
    boosts = [
        (one, _get_boost(one, task_id))
        for one, similarity in zip(candidates, nearness, strict=True)
        if similarity >= floor.listed
    ]
    boosts.sort(key=lambda pair: (-pair[0].score * pair[1], pair[0].heuristic_id.int))
    leader = None
    if boosts:  # an old task very like the new one decides who is first, not who else is there
        first = max(range(len(boosts)), key=lambda place: boosts[place][0].lead * boosts[place][1])
        boosts.insert(0, boosts.pop(first))
        leader = boosts[0][0].heuristic_id if first else None  # it is first without the highest score
    boosted = (one._replace(score=one.score * boost, lead=one.lead * boost) for one, boost in boosts)
    parts, covers_parts = split_task(question.task), lists_its_parts(question.task)
    wanted = len(boosts) if limits != NO_LIMITS or covers_parts else top_k
    chosen = _leave_out_repeats(boosted, top_k=wanted)
    if limits != NO_LIMITS:
        chosen = limits.apply(chosen, top_k=top_k)
    texts = ((one.trigger, one.guideline, one.matched_task, " ".join(one.tags)) for one in chosen)
    subtasks = find_subtasks(parts, texts) if parts else [""] * len(chosen)
    placed = [*zip(chosen, subtasks, strict=True)]
    if covers_parts:
        placed = _cover(placed, top_k=top_k)
    fits = max(nearness, default=0.0) >= floor.best
    return [
        Ranked(
            candidate=one,
            fits=fits and get_similarity(one) >= floor.injected,
            value=one.score,
            scores=_describe_scores(one, with_lead=one.heuristic_id == leader),
            reason=explain(one, task_id=task_id, subtask=subtask),
            subtask=subtask,
        )
        for one, subtask in placed
    ]


def rank_as_drawn(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    return [Ranked(candidate=candidate, scores={}, reason="It was drawn at random.") for candidate in candidates]


def explain(candidate: Candidate, *, task_id: str = "", subtask: str = "") -> str:
    """Say in one sentence why a lesson is here."""
    more = " and is of the same task family" if task_id and candidate.task_id == task_id else ""
    part = " of a part" if subtask else ""
    if (naming := candidate.naming) is not None and (spelled := _spell(candidate, naming.key)):
        return f"It names {spelled}, {'as the task does' if naming.exact else 'nearly as the task does'}{more}."
    if candidate.task is not None and candidate.task >= (candidate.own or 0):
        this = "a part of this one" if subtask else "this one"
        return f"It was learnt from, or has helped with, a task like {this}{more}."
    if (candidate.words or 0) > (candidate.meaning or 0):
        return f"It uses the words{part} of the task{more}."
    return f"What it says is close in meaning to {'a part of ' if subtask else ''}the task{more}."


def _spell(candidate: Candidate, key: str) -> str:
    """Return a name as the lesson spells it."""
    said = "\n".join((candidate.trigger, candidate.guideline, candidate.avoid, *candidate.tags))
    return next((name.spelled for name in find_names(said) if name.key == key), "")


def get_similarity(candidate: Candidate) -> float:
    """Return how like the task a lesson is, by its own text, its most similar task or the names in it."""
    named = NAMES_SIMILARITY * candidate.naming.share if candidate.naming is not None else 0.0
    return max(candidate.own or 0.0, candidate.task or 0.0, named)


def _get_boost(candidate: Candidate, task_id: str) -> float:
    boost = 1 + SUPPORT_BOOST * min(candidate.support, SUPPORT_ENOUGH) / SUPPORT_ENOUGH
    boost += USEFULNESS_BOOST * (2 * candidate.usefulness - 1)
    boost = min(max(boost, LOWEST_BOOST), HIGHEST_BOOST)
    if task_id and candidate.task_id == task_id:
        return boost * SAME_FAMILY
    is_other = task_id and candidate.task_id and candidate.scope == "task_family"
    return boost * OTHER_FAMILY if is_other else boost


def _leave_out_repeats(candidates: Iterable[Candidate], *, top_k: int) -> list[Candidate]:
    """Take the first `top_k`, passing over those that say what a better one said."""
    chosen: list[Candidate] = []
    taken = np.empty((top_k, 0), np.float32)
    count = 0
    for one in candidates:
        if len(chosen) == top_k:
            break
        if one.vector is not None:
            vector = read_vector(one.vector)
            # One by one: a product of all pairs is large enough for BLAS to start threads, which costs 30 times more.
            if count and float((taken[:count] @ vector).max()) >= NEAR_REPEAT:
                continue
            if not count:
                taken = np.empty((top_k, len(vector)), np.float32)
            taken[count] = vector
            count += 1
        chosen.append(one)
    return chosen


def _cover(placed: Sequence[tuple[Candidate, str]], *, top_k: int) -> list[tuple[Candidate, str]]:
    """Take the first `top_k`; a part of the task that none of them serves takes a place from one served twice."""
    chosen = list(placed[:top_k])
    for other, part in placed[top_k:]:
        served = [subtask for _, subtask in chosen]
        if not part or part in served or other.score < COVERED * chosen[0][0].score:
            continue
        place = next((place for place in range(len(chosen) - 1, 0, -1) if served.count(served[place]) > 1), None)
        if place is None:
            break
        del chosen[place]
        chosen.append((other, part))
    return chosen


def _describe_scores(candidate: Candidate, *, with_lead: bool) -> dict[str, float]:
    naming = candidate.naming
    scores = {
        "score": candidate.score,
        "meaning": candidate.meaning,
        "words": candidate.words,
        "source_task": candidate.task,
        "names": naming.share if naming is not None else None,
        "rerank": candidate.rerank,
        "usefulness": candidate.usefulness if candidate.usefulness != 0.5 else None,
        "lead": candidate.lead if with_lead else None,
    }
    return {name: round(value, 4) for name, value in scores.items() if value is not None}
