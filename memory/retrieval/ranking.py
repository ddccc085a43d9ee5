"""From candidates to an answer: family, use, support, near-repeats, limits, and nothing where nothing fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_vector, read_vectors
from memory.retrieval.limits import NO_LIMITS, Limits
from memory.retrieval.name_match import find_names
from memory.retrieval.question import Question
from memory.retrieval.subtasks import find_subtask, lists_its_parts, split_task

SAME_FAMILY, OTHER_FAMILY = 1.1, 0.95
# What a lesson has proved to be worth and how often it was seen move it by a tenth at most, so that nobody can raise
# one by reporting on it or by repeating it (D4). A family is what the caller says of the task, not what a lesson has.
USEFULNESS_BOOST = 0.1
SUPPORT_BOOST, SUPPORT_ENOUGH = 0.02, 5
LOWEST_BOOST, HIGHEST_BOOST = 0.9, 1.1
NEAR_REPEAT = 0.98  # cosine of two lessons' vectors that say the same
NAMES_LIKENESS = 0.3  # of a lesson that names all that the task names, whatever else it says
MOST_AT_ONCE = 30  # lessons: a larger product makes BLAS start threads, where it may, which costs 30 times more
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


class _Scored(NamedTuple):  # every task makes forty
    """A candidate with its boosts, and how like the task it is."""

    candidate: Candidate
    score: float
    lead: float
    likeness: float


def rank(
    candidates: Sequence[Candidate], question: Question, *, top_k: int, mode: str, limits: Limits = NO_LIMITS
) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first; where the most similar is not like the task, none of them fits.

    Where the task lists its parts, each part that some good lesson serves is served in the answer.

    Args:
        mode: in which the candidates were found.
    """
    floor, task_id = FLOORS[mode], question.task_id
    scored: list[_Scored] = []
    nearest = 0.0
    for one in candidates:
        likeness = _likeness(one)
        nearest = max(nearest, likeness)
        if likeness >= floor.listed:
            boost = _boost(one, task_id)
            scored.append(_Scored(one, one.score * boost, one.lead * boost, likeness))
    scored.sort(key=lambda each: (-each.score, each.candidate.heuristic_id.int))
    leader = None
    if scored:  # an old task very like the new one decides who is first, not who else is there
        first = max(range(len(scored)), key=lambda place: scored[place].lead)
        scored.insert(0, scored.pop(first))
        leader = scored[0] if first else None  # it is first without the highest score
    parts, covers_parts = split_task(question.task), lists_its_parts(question.task)
    wanted = len(scored) if limits != NO_LIMITS or covers_parts else top_k
    chosen = _leave_out_repeats(scored, top_k=wanted)
    if limits != NO_LIMITS:
        allowed = {id(one) for one in limits.apply([each.candidate for each in chosen], top_k=top_k)}
        chosen = [each for each in chosen if id(each.candidate) in allowed]
    subtasks = {id(each.candidate): find_subtask(parts, _texts(each.candidate)) for each in chosen} if parts else {}
    if covers_parts:
        chosen = _cover(chosen, subtasks, top_k=top_k)
    ranked = []
    for each in chosen:
        subtask = subtasks.get(id(each.candidate), "")
        ranked.append(
            Ranked(
                candidate=each.candidate,
                fits=nearest >= floor.best and each.likeness >= floor.injected,
                value=each.score,
                scores=_describe_scores(each.candidate, each.score, lead=each.lead if each is leader else None),
                reason=explain(each.candidate, task_id=task_id, subtask=subtask),
                subtask=subtask,
            )
        )
    return ranked


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


def _texts(candidate: Candidate) -> tuple[str, ...]:
    return candidate.trigger, candidate.guideline, candidate.matched_task, " ".join(candidate.tags)


def _spell(candidate: Candidate, key: str) -> str:
    """Return a name as the lesson spells it."""
    said = "\n".join((candidate.trigger, candidate.guideline, candidate.avoid, *candidate.tags))
    return next((name.spelled for name in find_names(said) if name.key == key), "")


def _likeness(candidate: Candidate) -> float:
    own, task = candidate.own or 0.0, candidate.task or 0.0
    likeness = own if own > task else task
    if candidate.naming is not None:
        likeness = max(likeness, NAMES_LIKENESS * candidate.naming.share)
    return likeness


def _boost(candidate: Candidate, task_id: str) -> float:
    boost = 1 + SUPPORT_BOOST * min(candidate.support, SUPPORT_ENOUGH) / SUPPORT_ENOUGH
    boost += USEFULNESS_BOOST * (2 * candidate.usefulness - 1)
    boost = min(max(boost, LOWEST_BOOST), HIGHEST_BOOST)
    if task_id and candidate.task_id == task_id:
        return boost * SAME_FAMILY
    is_other = task_id and candidate.task_id and candidate.scope == "task_family"
    return boost * OTHER_FAMILY if is_other else boost


def _leave_out_repeats(scored: Sequence[_Scored], *, top_k: int) -> list[_Scored]:
    """Take the first `top_k`, passing over those that say what a better one said."""
    if _are_different(scored[:top_k]):
        return list(scored[:top_k])
    chosen: list[_Scored] = []
    taken = np.empty((top_k, 0), np.float32)
    count = 0
    for each in scored:
        if len(chosen) == top_k:
            break
        if each.candidate.vector is not None:
            vector = read_vector(each.candidate.vector)
            # One by one: a product of all pairs is large enough for BLAS to start threads, which costs 30 times more.
            if count and float((taken[:count] @ vector).max()) >= NEAR_REPEAT:
                continue
            if not count:
                taken = np.empty((top_k, len(vector)), np.float32)
            taken[count] = vector
            count += 1
        chosen.append(each)
    return chosen


def _are_different(scored: Sequence[_Scored]) -> bool:
    """Tell whether no two say the same: nearly always, so it is asked of all of them at once."""
    if len(scored) > MOST_AT_ONCE:
        return False
    sent = [each.candidate.vector for each in scored if each.candidate.vector is not None]
    if len(set(map(len, sent))) > 1:
        return False
    vectors = read_vectors(sent)
    likenesses = vectors @ vectors.T
    np.fill_diagonal(likenesses, 0.0)
    return not np.any(likenesses >= NEAR_REPEAT)


def _cover(scored: Sequence[_Scored], subtasks: Mapping[int, str], *, top_k: int) -> list[_Scored]:
    """Take the first `top_k`; a part of the task that none of them serves takes a place from one served twice."""
    chosen, others = list(scored[:top_k]), scored[top_k:]
    if not others or not chosen:
        return chosen
    enough = COVERED * chosen[0].score
    served = [subtasks.get(id(each.candidate), "") for each in chosen]
    for other in others:
        part = subtasks.get(id(other.candidate), "")
        if not part or part in served or other.score < enough:
            continue
        place = next((place for place in range(len(chosen) - 1, 0, -1) if served.count(served[place]) > 1), None)
        if place is None:
            break
        chosen[place : place + 1], served[place : place + 1] = [], []
        chosen.append(other)
        served.append(part)
    return chosen


def _describe_scores(candidate: Candidate, score: float, *, lead: float | None) -> dict[str, float]:
    naming = candidate.naming
    scores = {
        "score": score,
        "meaning": candidate.meaning,
        "words": candidate.words,
        "source_task": candidate.task,
        "names": naming.share if naming is not None else None,
        "rerank": candidate.rerank,
        "usefulness": candidate.usefulness if candidate.usefulness != 0.5 else None,
        "lead": lead,
    }
    return {name: round(value, 4) for name, value in scores.items() if value is not None}
