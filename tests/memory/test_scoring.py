"""The score of a lesson, in Python and in the database."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.scoring import COUNTED_TASKS, NOISE, get_task_weight, score_lesson, score_lessons

LIKENESS = st.floats(0, 1)


def test_a_lesson_without_tasks_scores_as_one_whose_tasks_are_as_like_as_itself() -> None:
    alone = score_lesson(0.5, [], meaning_weight=0.0)
    with_tasks = score_lesson(0.5, [0.5] * 3, meaning_weight=0.0)
    assert alone.score == pytest.approx(with_tasks.score)


def test_one_task_very_like_the_new_one_wins_the_first_place_but_not_the_others() -> None:
    seen, said = score_lesson(0.2, [0.7], meaning_weight=0.0), score_lesson(0.45, [], meaning_weight=0.0)
    assert seen.lead > said.lead
    assert said.score > seen.score


@given(own=LIKENESS, tasks=st.lists(LIKENESS, max_size=6), more=LIKENESS, weight=LIKENESS)
def test_one_more_task_never_lowers_a_score(own: float, tasks: list[float], more: float, weight: float) -> None:
    before, after = (score_lesson(own, given, meaning_weight=weight) for given in (tasks, [*tasks, more]))
    assert (after.score, after.lead) >= (before.score, before.lead)


@given(own=st.lists(LIKENESS, min_size=2, max_size=2, unique=True), weight=LIKENESS)
def test_lessons_without_tasks_keep_the_order_of_their_likeness(own: list[float], weight: float) -> None:
    low, high = (score_lesson(each, [], meaning_weight=weight) for each in sorted(own))
    assert high.score >= low.score


@given(own=LIKENESS, tasks=st.lists(LIKENESS, max_size=6), weight=LIKENESS)
def test_many_lessons_score_as_one_does(own: float, tasks: list[float], weight: float) -> None:
    noise = NOISE * get_task_weight(weight)
    seen = sum(max(task - noise, 0.0) ** 2 for task in sorted(tasks, reverse=True)[:COUNTED_TASKS])
    scores, leads = score_lessons(np.array([own]), np.array([seen]), meaning_weight=weight)
    one = score_lesson(own, tasks, meaning_weight=weight)
    assert (scores[0], leads[0]) == pytest.approx((one.score, one.lead))
