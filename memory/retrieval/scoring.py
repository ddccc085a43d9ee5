"""How well a lesson answers a task: a sum of parts, each of which an answer names.

The searches, in the database and in memory, only find candidates and their similarities to the task. All of them are
scored here. docs/appendix/retrieval.md says what else was tried.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

# The cosine of sentence vectors counts so much, and the cosine of word vectors the rest.
MEANING_WEIGHT = 0.4

# The earlier tasks of a lesson are as similar as the vector of the four most similar ones is long. They count as far as
# that is more than what the lesson itself says, and more than it is for all but RAISED lessons: where a task is of a
# familiar kind, lessons that have such tasks do not push back all that have none.
COUNTED_TASKS = 4
RAISED = 8
TASKS_WEIGHT = 0.6

# For naming everything that the task names, where no other lesson names it. A name that several lessons have, or one of
# several names, says much less, so the share is raised to a power.
NAMES_WEIGHT, NAMES_POWER = 0.3, 3

# Two texts that share words may well be about the same thing. Below this cosine of words, a lesson is this share of the
# way from equal texts less similar to a task than its meaning says: chosen on questions that no lesson answers.
SHARED_WORDS, UNSHARED_SHARE = 0.1, 0.05

# Beside its languages, the floors of a model may say how much higher they are for a text of twice the length. Then they
# hold for texts of FLOOR_CHARACTERS.
GROWTH = "growth"
FLOOR_CHARACTERS = 64
SHORTEST, LONGEST = 8, 320  # the lengths that calibration has tried


class Parts(NamedTuple):
    """What a lesson's score is made of. `meaning` and `words` are None where there is nothing to compare."""

    meaning: float | None
    words: float | None
    source_task: float
    names: float

    @property
    def total(self) -> float:
        return (self.meaning or 0.0) + (self.words or 0.0) + self.source_task + self.names


NO_PARTS = Parts(None, None, 0.0, 0.0)


def score_heuristic(
    meaning: float | None,
    words: float | None,
    rise: float = 0.0,
    *,
    meaning_weight: float = MEANING_WEIGHT,
    named_share: float = 0.0,
) -> Parts:
    """Score one lesson for a task.

    Args:
        meaning: cosine of the task's and the lesson's sentence vectors; None where there is nothing to compare.
        words: cosine of their word vectors; None likewise.
        rise: how far the lesson's earlier tasks raise it (`find_rises`).
        meaning_weight: what meaning counts, 0–1; words count for the rest.
        named_share: how much of what the task names the lesson names too, 0–1.
    """
    by_meaning = meaning_weight * meaning if meaning is not None else None
    by_words = (1 - meaning_weight) * words if words is not None else None
    return Parts(by_meaning, by_words, TASKS_WEIGHT * rise, NAMES_WEIGHT * named_share**NAMES_POWER)


def find_rises(
    lessons: Iterable[tuple[float | None, float | None, Sequence[float]]], *, meaning_weight: float
) -> list[float]:
    """Return how far each of the lessons for a task is raised by its earlier tasks, 0 for all but RAISED at most.

    Args:
        lessons: of each its meaning and words as for `score_heuristic`, and how similar the tasks are that it was
            learnt from or has helped with, the highest first; the first COUNTED_TASKS count.
        meaning_weight: as for `score_heuristic`.
    """
    more = []
    for meaning, words, tasks in lessons:
        own = meaning_weight * (meaning or 0.0) + (1 - meaning_weight) * (words or 0.0)
        seen = sum(max(task, 0.0) ** 2 for task in tasks[:COUNTED_TASKS]) ** 0.5
        more.append(max(seen - own, 0.0))
    usual = sorted(more, reverse=True)[RAISED] if len(more) > RAISED else 0.0
    return [max(rise - usual, 0.0) for rise in more]


def measure_fit(
    meaning: float | None, words: float | None, tasks: Sequence[float], *, named_share: float = 0.0
) -> float:
    """Return how similar a lesson is to a task at all, 0–1, from the arguments of `find_rises` and names.

    It is the highest of the cosine of meaning, the similarity of the nearest earlier task, and the share of names. The
    cosine of words decides only where meaning was not compared: a long story shares words with anything. But what
    shares hardly a word with the task has to be a little nearer in meaning.
    """
    own = meaning if meaning is not None else words
    if meaning is not None and words is not None and words < SHARED_WORDS:
        own = meaning - UNSHARED_SHARE * (1 - meaning)
    return max(own or 0.0, tasks[0] if tasks else 0.0, named_share)


def fit_floors(floors: Mapping[str, float] | None, text: str) -> Mapping[str, float] | None:
    """Return the floors of a model for a text of this length, by language.

    To many models a long text is more similar to any other than a short one is.
    """
    if floors is None or GROWTH not in floors:
        return floors
    doublings = math.log2(min(max(len(text), SHORTEST), LONGEST) / FLOOR_CHARACTERS)
    return {language: floor + floors[GROWTH] * doublings for language, floor in floors.items() if language != GROWTH}
