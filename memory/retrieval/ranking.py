"""The order of an answer: scores with boosts, within limits, and none if none fits."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory.retrieval.candidates import Candidate
from memory.retrieval.limits import NO_LIMITS, AnswerLimits
from memory.retrieval.name_match import find_names
from memory.retrieval.question import Question
from memory.retrieval.subtasks import find_subtasks, split_task

SAME_FAMILY, OTHER_FAMILY = 1.1, 0.95
# What a lesson has proved to be worth and how often it was seen move it by a tenth at most, so that an agent cannot
# push a lesson up by reporting on it or repeating it (D4). A family is what the caller says of the task.
USEFULNESS_BOOST = 0.1
SUPPORT_BOOST, SUPPORT_ENOUGH = 0.02, 5
LOWEST_BOOST, HIGHEST_BOOST = 0.9, 1.1


# How similar to the task a lesson must be to be injected (`measure_fit`), by mode: chosen by leaving one domain out
# (docs/retrieval.md). Those from LISTED_SHARE of that on are listed without being injected.
FLOORS = {"hybrid": 0.25, "embedding": 0.25, "lexical": 0.07}
LISTED_SHARE = 0.4


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
    candidates: Sequence[Candidate], question: Question, *, top_k: int, mode: str, limits: AnswerLimits = NO_LIMITS
) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first.

    Args:
        mode: in which the candidates were found.
    """
    floor, task_id = FLOORS[mode], question.task_id
    boosted = [
        (candidate, get_factors(candidate, task_id))
        for candidate in candidates
        if candidate.similarity >= LISTED_SHARE * floor
    ]
    boosted.sort(key=lambda pair: (-pair[0].score * math.prod(pair[1].values()), pair[0].heuristic_id.int))
    # Limits pass over some, so that more than `top_k` may be needed to fill the answer.
    wanted = len(boosted) if limits != NO_LIMITS else top_k
    factors = {candidate.heuristic_id: its for candidate, its in boosted}
    chosen = [candidate for candidate, _ in boosted[:wanted]]
    if limits != NO_LIMITS:
        chosen = limits.apply(chosen, top_k=top_k)
    parts = split_task(question.task)
    texts = (
        (candidate.trigger, candidate.guideline, candidate.matched_task, " ".join(candidate.tags))
        for candidate in chosen
    )
    subtasks = find_subtasks(parts, texts) if parts else [""] * len(chosen)
    return [
        Ranked(
            candidate=candidate,
            fits=candidate.similarity >= floor,
            value=(scores := describe_scores(candidate, factors[candidate.heuristic_id]))["score"],
            scores=scores,
            reason=explain(candidate, task_id=task_id, subtask=subtask),
            subtask=subtask,
        )
        for candidate, subtask in zip(chosen, subtasks, strict=True)
    ]


def rank_as_drawn(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    return [Ranked(candidate=candidate, scores={}, reason="It was drawn at random.") for candidate in candidates]


def explain(candidate: Candidate, *, task_id: str = "", subtask: str = "") -> str:
    """Say in one sentence why a lesson is here: a name it has in common with the task, or the largest part."""
    more = " and is of the same task family" if task_id and candidate.task_id == task_id else ""
    part = " of a part" if subtask else ""
    if candidate.rerank is not None:
        return f"A cross-encoder compared it with the task{more}."
    if (naming := candidate.naming) is not None and (spelled := _spell(candidate, naming.key)):
        return f"It names {spelled}, {'as the task does' if naming.exact else 'nearly as the task does'}{more}."
    meaning, words = candidate.parts.meaning or 0.0, candidate.parts.words or 0.0
    if candidate.parts.source_task > max(meaning, words):
        this = "a part of this one" if subtask else "this one"
        return f"It was learnt from, or has helped with, a task like {this}{more}."
    if words > meaning:
        return f"It uses the words{part} of the task{more}."
    return f"What it says is close in meaning to {'a part of ' if subtask else ''}the task{more}."


def _spell(candidate: Candidate, key: str) -> str:
    """Return a name as the lesson spells it."""
    words = "\n".join((candidate.trigger, candidate.guideline, candidate.avoid, *candidate.tags))
    return next((name.spelled for name in find_names(words) if name.key == key), "")


def get_factors(candidate: Candidate, task_id: str) -> dict[str, float]:
    """Return what a score is multiplied by, each by its name; 1 is left out."""
    record = 1 + SUPPORT_BOOST * min(candidate.support, SUPPORT_ENOUGH) / SUPPORT_ENOUGH
    record += USEFULNESS_BOOST * (2 * candidate.usefulness - 1)
    family = 1.0
    if task_id and candidate.task_id == task_id:
        family = SAME_FAMILY
    # A lesson for the whole project is at home in every family.
    elif task_id and candidate.task_id and candidate.scope == "task_family":
        family = OTHER_FAMILY
    factors = {"usefulness": min(max(record, LOWEST_BOOST), HIGHEST_BOOST), "family": family}
    return {name: factor for name, factor in factors.items() if factor != 1}


def describe_scores(candidate: Candidate, factors: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a score and its factors: the sum of the parts times the factors is `score`.

    Parts of 0 and factors of 1 are left out. Of a lesson that a cross-encoder has scored, that is its only part.
    """
    parts = candidate.parts._asdict() if candidate.rerank is None else {"rerank": candidate.rerank}
    rounded = {name: round(part, 4) for name, part in parts.items() if part}
    by = {name: round(factor, 4) for name, factor in factors.items()}
    return {"score": round(sum(rounded.values()) * math.prod(by.values()), 4)} | rounded | by
