"""How well a lesson answers a task: one score from the similarity of its own text and of the tasks it was learnt from.

The searches, in the database and in memory, only find candidates and their similarities to the task. All of them are
scored here. docs/appendix/retrieval.md says how the constants were found.
"""

from collections.abc import Sequence
from typing import NamedTuple

# What meaning (the cosine of sentence vectors) counts against words (the cosine of word vectors). A short task has few
# words to share, and the one vector of a long task blurs.
SHORT_MEANING_WEIGHT, LONG_MEANING_WEIGHT, SHORT_CHARACTERS = 0.5, 0.2, 150
TASK_MEANING = 1.2  # meaning counts for more between two tasks than between a task and a lesson

NOISE = 0.15  # cosine of sentence vectors below which a similarity says nothing
VOTES = 5.0  # of a lesson's text and its tasks together, against the similarity of the text alone
# The weight of earlier tasks: the four most similar count, and what the lesson itself says counts as three tasks with
# the same similarity, so that a lesson without tasks is at no disadvantage. For the first place it counts as one: an
# earlier task very similar to the new one decides what comes first, but does not fill the places behind it.
COUNTED_TASKS = 4
STANDS_FOR_TASKS, STANDS_FOR_TASKS_FIRST = 3.0, 1.0

NAMES = 3.0  # what a lesson gains by naming everything that the task names


class Score(NamedTuple):
    """`own` is the similarity of the lesson's own text; `lead` decides the first place, `score` all others."""

    own: float
    score: float
    lead: float


def get_meaning_weight(task: str) -> float:
    """Return what meaning counts for a task, 0–1; words count for the rest."""
    share = min(1.0, SHORT_CHARACTERS / max(len(task), 1))
    return LONG_MEANING_WEIGHT + (SHORT_MEANING_WEIGHT - LONG_MEANING_WEIGHT) * share


def get_task_weight(meaning_weight: float) -> float:
    """Return what meaning counts between two tasks, where it counts `meaning_weight` between a task and a lesson."""
    return min(1.0, TASK_MEANING * meaning_weight)


def score_heuristic(
    meaning: float | None,
    words: float | None,
    tasks: Sequence[float],
    *,
    meaning_weight: float,
    named_share: float = 0.0,
) -> Score:
    """Score one lesson for a task.

    Args:
        meaning: cosine of the task's and the lesson's sentence vectors; None where there is nothing to compare.
        words: cosine of their word vectors; None likewise.
        tasks: similarity of the tasks the lesson was learnt from or has helped with, the highest first; the first
            COUNTED_TASKS count.
        meaning_weight: what meaning counts, 0–1.
        named_share: how much of what the task names the lesson names too, 0–1.
    """
    own = meaning_weight * (meaning or 0.0) + (1 - meaning_weight) * (words or 0.0)
    said = max(own - NOISE * meaning_weight, 0.0) ** 2
    task_noise = NOISE * get_task_weight(meaning_weight)
    seen = sum((task - task_noise) ** 2 for task in tasks[:COUNTED_TASKS] if task > task_noise)
    base = own + NAMES * named_share
    return Score(
        own,
        base + VOTES * (said + max(seen, STANDS_FOR_TASKS * said)) ** 0.5,
        base + VOTES * (said + max(seen, STANDS_FOR_TASKS_FIRST * said)) ** 0.5,
    )
