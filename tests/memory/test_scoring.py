"""The score of a lesson."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.scoring import NAMES, Score, score_heuristic

LIKENESS = st.floats(0, 1)


def score(own: float, tasks: list[float], *, weight: float = 0.0) -> Score:
    """Score a lesson whose own text is as like the task in words as in meaning."""
    return score_heuristic(own, own, sorted(tasks, reverse=True), meaning_weight=weight)


def test_a_lesson_without_tasks_scores_as_one_whose_tasks_are_as_like_as_itself() -> None:
    alone = score(0.5, [])
    with_tasks = score(0.5, [0.5] * 3)
    assert alone.score == pytest.approx(with_tasks.score)


def test_one_task_very_like_the_new_one_wins_the_first_place_but_not_the_others() -> None:
    seen, said = score(0.2, [0.7]), score(0.45, [])
    assert seen.lead > said.lead
    assert said.score > seen.score


@given(own=LIKENESS, tasks=st.lists(LIKENESS, max_size=6), more=LIKENESS, weight=LIKENESS)
def test_one_more_task_never_lowers_a_score(own: float, tasks: list[float], more: float, weight: float) -> None:
    before, after = (score(own, given, weight=weight) for given in (tasks, [*tasks, more]))
    assert (after.score, after.lead) >= (before.score, before.lead)


@given(own=st.lists(LIKENESS, min_size=2, max_size=2, unique=True), weight=LIKENESS)
def test_lessons_without_tasks_keep_the_order_of_their_likeness(own: list[float], weight: float) -> None:
    low, high = (score(each, [], weight=weight) for each in sorted(own))
    assert high.score >= low.score


def test_what_a_lesson_names_raises_both_figures_alike() -> None:
    without, named = (score_heuristic(0.4, 0.2, [], meaning_weight=0.5, named_share=share) for share in (0.0, 0.5))
    assert (named.score - without.score, named.lead - without.lead) == pytest.approx((NAMES / 2, NAMES / 2))
    assert named.own == without.own
