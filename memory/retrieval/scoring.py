"""How the likenesses of a lesson's texts make its score; docs/retrieval.md says how the constants were found.

The statement of candidates.py computes the same in the database; a test compares the two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

NOISE = 0.15  # cosine of vectors below which a likeness says nothing
VOTES = 5.0  # of the votes together against the lesson's own likeness
COUNTED_TASKS = 4  # of those a lesson was learnt from, the likest
TASK_MEANING = 1.2  # meaning counts for more between two tasks than between a task and a lesson
# What a lesson says votes as this many tasks as like as itself, so that a lesson without any is not behind for that.
# An old task very like the new one decides who is first; it does not fill the places behind it.
STANDS_FOR_TASKS_FIRST, STANDS_FOR_TASKS = 1.0, 3.0

NAMES = 3.0  # what a lesson gains by naming all that a task names


class Score(NamedTuple):
    """`lead` decides the first place, `score` all others."""

    score: float
    lead: float


def get_task_weight(meaning_weight: float) -> float:
    """Return what meaning counts between two tasks, where it counts `meaning_weight` between a task and a lesson."""
    return min(1.0, TASK_MEANING * meaning_weight)


def score_lesson(own: float | None, tasks: Sequence[float], *, meaning_weight: float) -> Score:
    """Score one lesson by the likeness of its own text and of the tasks it was learnt from."""
    noise, task_noise = NOISE * meaning_weight, NOISE * get_task_weight(meaning_weight)
    likeness = own or 0.0
    said = max(likeness - noise, 0.0) ** 2
    seen = 0.0
    for task in sorted(tasks, reverse=True)[:COUNTED_TASKS] if len(tasks) > 1 else tasks:
        if task > task_noise:
            seen += (task - task_noise) ** 2
    return Score(
        score=likeness + VOTES * float((said + max(seen, STANDS_FOR_TASKS * said)) ** 0.5),
        lead=likeness + VOTES * float((said + max(seen, STANDS_FOR_TASKS_FIRST * said)) ** 0.5),
    )


Numbers = npt.NDArray[np.float64]


def score_lessons(own: Numbers, seen: Numbers, *, meaning_weight: float) -> tuple[Numbers, Numbers]:
    """Score many lessons as `score_lesson` does one; `own` is 0 where a lesson has no text, `seen` sums up its tasks.

    Returns: the scores and the leads.
    """
    said = np.maximum(own - NOISE * meaning_weight, 0.0) ** 2
    score = own + VOTES * np.sqrt(said + np.maximum(seen, STANDS_FOR_TASKS * said))
    lead = own + VOTES * np.sqrt(said + np.maximum(seen, STANDS_FOR_TASKS_FIRST * said))
    return score, lead
