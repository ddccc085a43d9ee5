"""The choice by a language model (ERL c.4): what it is shown, and which parts of its answer count.

The model belongs to another app, which registers it here: memory knows no provider. The model sees short labels in
place of ids and answers with those it chooses; any other label is dropped.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import structlog

from memory.egress import Breaker
from memory.embeddings.base import Vectors
from memory.projects.models import Project
from memory.redaction import redact_text
from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_vector
from memory.retrieval.limits import NO_LIMITS, AnswerLimits
from memory.retrieval.question import Question
from memory.retrieval.ranking import Ranked
from memory.retrieval.safe_text import clean

log = structlog.get_logger(__name__)

MAX_POOL = 250  # the whole pool is shown up to here (ERL 1.7) …
MAX_CANDIDATES = 100  # … and of a larger one so many candidates,
BATCH_SIZE = 50  # in batches of this size
MOST = 10.0  # the model's scores go from 0 to this
ENOUGH = 4.0  # below it a lesson is not worth its place (ERL c.1)
NOT_ENOUGH = "The language model scored it too low."
DIVERSITY = 0.3  # what counts for being unlike the lessons chosen before
SAME_SUBTASK = 0.05  # what it costs for each lesson chosen before that serves the same sub-task
DEADLINE_SECONDS = 10.0
RESTING = "did not answer a moment ago"
MAX_WHY_CHARACTERS, MAX_SUBTASK_CHARACTERS, MAX_SUBTASKS = 300, 200, 20


class RankingFailed(Exception):
    """The model gave no ranking in time; the message says why in a few words, for the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedHeuristic:
    """A lesson as the model sees it: as the agent would be given it, and not the task of another person behind it."""

    label: str
    trigger: str
    guideline: str
    avoid: str = ""
    not_when: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedChoice:
    """A lesson the model chose: scores 0 to 10, the sub-task it serves in words, one sentence why."""

    label: str
    similarity: float
    informativeness: float
    subtask: str = ""
    why: str = ""

    @property
    def relevance(self) -> float:
        """Both scores together, 0 to 1."""
        return sum(min(max(score, 0.0), MOST) for score in (self.similarity, self.informativeness)) / (2 * MOST)


class HeuristicRanker(Protocol):
    """A language model that ranks. Called with no transaction open."""

    def __call__(
        self,
        project: Project,
        *,
        task: str,
        lessons: Sequence[OfferedHeuristic],
        batch_size: int | None,
        top_k: int,
        deadline_seconds: float,
    ) -> list[RankedChoice]:
        """Return what the model chose of the lessons, shown in batches of at most `batch_size`.

        Raises:
            RankingFailed: there is no answer, or none that can be read, within the deadline.
        """
        ...


FindRanker = Callable[[], HeuristicRanker | None]
_find: list[FindRanker] = []
breaker = Breaker()


def register_ranker(find: FindRanker) -> None:
    """Set the function that finds the language model; it returns None where none is configured."""
    _find[:] = [find]


def find_ranker() -> HeuristicRanker | None:
    """Return the language model that ranks, or None where none is configured, or wrongly."""
    try:
        return _find[0]() if _find else None
    except RankingFailed:
        return None


def get_ranker() -> HeuristicRanker:
    """Return the language model that ranks.

    Raises:
        RankingFailed: none is configured, or it failed several times a moment ago.
    """
    ranker = find_ranker()
    if ranker is None:
        raise RankingFailed("not configured")
    if breaker.is_resting:
        raise RankingFailed(RESTING)
    return ranker


def rank_with_model(
    ranker: HeuristicRanker,
    question: Question,
    candidates: Sequence[Candidate],
    *,
    top_k: int,
    limits: AnswerLimits = NO_LIMITS,
) -> list[Ranked]:
    """Let the model choose up to `top_k` of the candidates, best first. It may choose none.

    Raises:
        RankingFailed: it gave no ranking in time.
    """
    if not candidates:
        return []
    whole = len(candidates) <= MAX_POOL
    shown = candidates if whole else candidates[:MAX_CANDIDATES]
    # Labels instead of ids: what the model was not shown, it cannot name.
    by_label = {f"L{number}": candidate for number, candidate in enumerate(shown, 1)}
    offered = [
        OfferedHeuristic(
            label=label,
            trigger=lesson.trigger,
            guideline=lesson.guideline,
            avoid=lesson.avoid,
            not_when=lesson.not_when,
        )
        for label, lesson in by_label.items()
    ]
    try:
        choices = ranker(
            question.project,
            task=question.task,
            lessons=offered,
            batch_size=None if whole else BATCH_SIZE,
            top_k=top_k,
            deadline_seconds=DEADLINE_SECONDS,
        )
    except RankingFailed as error:
        log.warning("ranking_failed", reason=str(error))
        breaker.note(answered=False)
        raise
    breaker.note(answered=True)
    ordered = _check(choices, by_label)
    if limits != NO_LIMITS:
        kept = {lesson.heuristic_id for lesson in limits.apply([lesson for _, lesson in ordered], top_k=top_k)}
        ordered = [(choice, lesson) for choice, lesson in ordered if lesson.heuristic_id in kept]
    return _take(ordered, top_k=top_k)


def _check(choices: Sequence[RankedChoice], by_label: Mapping[str, Candidate]) -> list[tuple[RankedChoice, Candidate]]:
    """Drop what was not offered or was named before, and order the rest by relevance."""
    kept: dict[str, tuple[RankedChoice, Candidate]] = {}
    for choice in choices:
        label = choice.label.strip().upper().strip("[]")
        if label in by_label and label not in kept:
            kept[label] = choice, by_label[label]
    if len(kept) < len(choices):
        log.warning("ranking_named_unknown_lessons", named=len(choices), kept=len(kept))
    return sorted(kept.values(), key=lambda pair: (-pair[0].relevance, pair[1].heuristic_id))


def _take(ordered: Sequence[tuple[RankedChoice, Candidate]], *, top_k: int) -> list[Ranked]:
    """Take greedily what is relevant and unlike what was taken (maximal marginal relevance), without repeats."""
    left = [
        (choice, candidate, read_vector(candidate.vector) if candidate.vector is not None else None)
        for choice, candidate in ordered
    ]
    taken: list[Ranked] = []
    wordings: set[tuple[str, ...]] = set()
    vectors: list[Vectors] = []
    served: Counter[str] = Counter()
    while left and len(taken) < top_k:
        worth = []
        for choice, _, vector in left:
            overlaps = [float(np.dot(vector, other)) for other in vectors] if vector is not None else []
            repeated = SAME_SUBTASK * served[_normalise(choice.subtask)]
            worth.append((1 - DIVERSITY) * choice.relevance - DIVERSITY * max(overlaps, default=0.0) - repeated)
        best = worth.index(max(worth))
        choice, candidate, vector = left.pop(best)
        wording = tuple(f"{candidate.trigger} {candidate.guideline} {candidate.avoid}".casefold().split())
        # Two lessons may have the same words; the second would only cost room.
        if wording not in wordings:
            wordings.add(wording)
            taken.append(_as_ranked(choice, candidate))
            vectors += [vector] if vector is not None else []
            served[_normalise(choice.subtask)] += 1
    return taken


def _normalise(subtask: str) -> str:
    return " ".join(subtask.lower().split())


def _as_ranked(choice: RankedChoice, candidate: Candidate) -> Ranked:
    scores = {
        "score": choice.relevance,
        "similarity": choice.similarity,
        "informativeness": choice.informativeness,
    }
    # Written by a model that read the task, so it may repeat a secret of it or hold a delimiter.
    why = clean(redact_text(choice.why))[:MAX_WHY_CHARACTERS]
    return Ranked(
        candidate=candidate,
        passed_over="" if choice.relevance * MOST >= ENOUGH else NOT_ENOUGH,
        value=choice.relevance,
        scores={name: round(value, 4) for name, value in scores.items() if value is not None},
        reason=why or "The language model chose it for this task.",
        subtask=clean(redact_text(choice.subtask))[:MAX_SUBTASK_CHARACTERS],
    )
