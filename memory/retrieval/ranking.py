"""The order of an answer: scores with boosts, within limits, and none if none fits."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from memory.retrieval.candidates import Candidate
from memory.retrieval.limits import NO_LIMITS, AnswerLimits
from memory.retrieval.name_match import find_names
from memory.retrieval.question import Question
from memory.retrieval.scoring import MEANING_WEIGHT
from memory.retrieval.subtasks import find_subtasks, split_task
from memory.retrieval.tools import ToolsOnOffer

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
# How relevant a lesson must be, compared with the best one, to be injected: measured (docs/retrieval.md). Only what it
# says, and the tasks it comes from, count: no boost lifts a lesson over this line or over the floor.
RELEVANT_SHARE = 0.3
TOO_FOREIGN = "It is not similar enough to the task."
TOO_WEAK = "It is much less relevant than the best lesson."
LACKS_TOOL = "It names a tool that the agent does not have: {}."
# In mode `lexical`, in languages other than English: chosen on questions that no lesson answers (bench/languages)
FOREIGN_WORDS_FLOOR = 0.18


def find_floor(mode: str, language: str, floors: Mapping[str, float] | None) -> float:
    """Return the similarity from which a lesson fits a task in this language.

    Args:
        mode: in which the candidates were found.
        floors: of the embedding model; None where they have not been measured. In a language that it does not know,
            words decide.
    """
    if mode != "lexical" and (floors is None or language in floors):
        return floors[language] if floors is not None else FLOORS[mode]
    return FLOORS["lexical"] if language == "english" else FOREIGN_WORDS_FLOOR


def find_listing_floor(language: str, floors: Mapping[str, float] | None) -> float:
    """Return the cosine of meaning from which a text is listed: further below the floor than what is injected.

    It has the same share of the way from unrelated texts to equal ones for every language that a model knows: of 0.25,
    it is LISTED_SHARE.
    """
    floor = find_floor("hybrid", language, floors)
    return 1 - (1 - floor) * (1 - LISTED_SHARE * FLOORS["hybrid"]) / (1 - FLOORS["hybrid"])


def weigh_meaning(language: str, floors: Mapping[str, float] | None) -> float:
    """Return how much meaning counts in mode `hybrid`, 0–1, for a language and a model with these floors.

    Where texts that have nothing in common are at .8, a tenth more says as much as three tenths where they are at .2.
    In a language that the model does not know, it still recognises codes and related words, and counts half.
    """
    if floors is None:
        return MEANING_WEIGHT
    if language not in floors:
        return MEANING_WEIGHT / 2
    floor = floors[language]
    odds = MEANING_WEIGHT / (1 - MEANING_WEIGHT) * (1 - FLOORS["hybrid"]) / max(1 - floor, 0.01)
    return odds / (1 + odds)


class Ranked(NamedTuple):  # every task makes twenty
    """A candidate in its place, with its component scores and one sentence why.

    `passed_over` says in one sentence why it is listed but not injected; it is empty for what may be. `value` is what
    it is worth against the others in the block. `subtask` is the part of the task it serves, empty for the whole.
    """

    candidate: Candidate
    scores: dict[str, float]
    reason: str
    passed_over: str = ""
    value: float = 1.0
    subtask: str = ""


def rank(
    candidates: Sequence[Candidate],
    question: Question,
    *,
    top_k: int,
    mode: str,
    limits: AnswerLimits = NO_LIMITS,
    tools: ToolsOnOffer | None = None,
    floor: float | None = None,
) -> list[Ranked]:
    """Choose up to `top_k` candidates, best first, and list behind them those that name a tool the agent lacks.

    Args:
        mode: in which the candidates were found.
        tools: those of the agent; None lets every lesson pass.
        floor: the similarity from which a lesson fits the task (`find_floor`); None takes that of English.
    """
    floor = FLOORS[mode] if floor is None else floor
    task_id = question.task_id
    boosted = [
        (candidate, get_factors(candidate, task_id))
        for candidate in candidates
        if candidate.similarity >= LISTED_SHARE * floor
    ]
    boosted.sort(key=lambda pair: (-pair[0].score * math.prod(pair[1].values()), pair[0].heuristic_id.int))
    # Before the boosts, so that the cut is the same for every family.
    best = max((candidate.score for candidate, _ in boosted if candidate.similarity >= floor), default=0.0)
    passed_over: dict[UUID, str] = {}
    usable: list[Candidate] = []
    barred: list[Candidate] = []
    for candidate, _ in boosted:
        if limits == NO_LIMITS and len(usable) == top_k:
            break  # limits pass over some, so that more than `top_k` may be needed to fill the answer
        if candidate.similarity < floor:
            passed_over[candidate.heuristic_id] = TOO_FOREIGN
        elif candidate.score < RELEVANT_SHARE * best:
            passed_over[candidate.heuristic_id] = TOO_WEAK
        elif tools is not None and (absent := tools.find_absent(candidate)):
            passed_over[candidate.heuristic_id] = LACKS_TOOL.format(absent)
            barred.append(candidate)
            continue
        usable.append(candidate)
    if limits != NO_LIMITS:
        usable = limits.apply(usable, top_k=top_k)
    factors = {candidate.heuristic_id: its for candidate, its in boosted}
    chosen = [*usable, *barred]
    parts = split_task(question.task)
    texts = (
        (candidate.trigger, candidate.guideline, candidate.matched_task, " ".join(candidate.tags))
        for candidate in chosen
    )
    subtasks = find_subtasks(parts, texts) if parts else [""] * len(chosen)
    return [
        Ranked(
            candidate=candidate,
            passed_over=passed_over.get(candidate.heuristic_id, ""),
            value=(scores := describe_scores(candidate, factors[candidate.heuristic_id]))["score"],
            scores=scores,
            reason=explain(candidate, task_id=task_id, subtask=subtask),
            subtask=subtask,
        )
        for candidate, subtask in zip(chosen, subtasks, strict=True)
    ]


def rank_as_drawn(candidates: Sequence[Candidate], tools: ToolsOnOffer) -> list[Ranked]:
    """Keep the order candidates were drawn in."""
    usable, lacking = split_by_tools(candidates, tools)
    drawn = [Ranked(candidate=candidate, scores={}, reason="It was drawn at random.") for candidate in usable]
    return [*drawn, *lacking]


def split_by_tools(candidates: Sequence[Candidate], tools: ToolsOnOffer) -> tuple[list[Candidate], list[Ranked]]:
    """Return the candidates that the agent has the tools for, and the others as they are listed."""
    usable, lacking = [], []
    for candidate in candidates:
        if absent := tools.find_absent(candidate):
            scores = describe_scores(candidate, {})
            lacking.append(Ranked(candidate, scores, explain(candidate), passed_over=LACKS_TOOL.format(absent)))
        else:
            usable.append(candidate)
    return usable, lacking


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
