"""The score of a lesson."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval.scoring import NAMES_WEIGHT, RAISED, Parts, find_rises, measure_fit, score_heuristic

LIKENESS = st.floats(0, 1)


def score_all(lessons: list[tuple[float, list[float]]], *, weight: float = 0.5) -> list[Parts]:
    """Score lessons whose own texts are as like the task in words as in meaning."""
    compared = [(own, own, sorted(tasks, reverse=True)) for own, tasks in lessons]
    rises = find_rises(compared, meaning_weight=weight)
    return [
        score_heuristic(own, own, rise, meaning_weight=weight) for (own, _), rise in zip(lessons, rises, strict=True)
    ]


def score(own: float, tasks: list[float], *, weight: float = 0.5) -> Parts:
    """Score such a lesson alone."""
    return score_all([(own, tasks)], weight=weight)[0]


@pytest.mark.parametrize(("weight", "parts"), [(0.5, (0.3, 0.1)), (1.0, (0.6, 0.0)), (0.0, (0.0, 0.2))])
def test_meaning_and_words_are_weighed_and_added(weight: float, parts: tuple[float, float]) -> None:
    scored = score_heuristic(0.6, 0.2, meaning_weight=weight)
    assert scored == pytest.approx((*parts, 0.0, 0.0))
    assert scored.total == pytest.approx(sum(parts))


def test_tasks_that_are_no_more_like_the_new_one_than_the_lesson_itself_add_nothing() -> None:
    assert score(0.5, [0.5]).source_task == 0
    assert score(0.5, [0.4, 0.3]).source_task == pytest.approx(0)


def test_a_kind_of_task_that_many_lessons_know_raises_few_of_them() -> None:
    familiar = [(0.3, [0.5 + 0.01 * number]) for number in range(RAISED + 4)]

    *scored, new = score_all([*familiar, (0.45, [])])

    assert [parts.source_task > 0 for parts in scored] == [False] * 4 + [True] * RAISED
    assert [parts.total < new.total for parts in scored] == [True] * (RAISED + 4)


def test_a_task_very_like_the_new_one_wins_over_a_lesson_that_only_says_it() -> None:
    assert score(0.3, [0.8]).total > score(0.4, []).total


@given(own=LIKENESS, tasks=st.lists(LIKENESS, max_size=6), more=LIKENESS, weight=LIKENESS)
def test_one_more_task_never_lowers_a_score(own: float, tasks: list[float], more: float, weight: float) -> None:
    before, after = (score(own, given, weight=weight) for given in (tasks, [*tasks, more]))
    assert after.total >= before.total - 1e-12


@given(own=st.lists(LIKENESS, min_size=2, max_size=2, unique=True), tasks=st.lists(LIKENESS, max_size=6))
def test_saying_more_of_the_task_never_lowers_a_score(own: list[float], tasks: list[float]) -> None:
    low, high = (score(each, tasks) for each in sorted(own))
    assert high.total >= low.total


def test_what_a_lesson_names_is_a_part_of_its_score() -> None:
    without, named = (score_heuristic(0.4, 0.2, named_share=share) for share in (0.0, 0.5))
    assert named == without._replace(names=NAMES_WEIGHT / 8)


@pytest.mark.parametrize(
    ("meaning", "words", "tasks", "named", "fit"),
    [
        (0.1, 0.6, [], 0.0, 0.1),
        (0.3, 0.1, [], 0.0, 0.3),
        (0.3, 0.09, [], 0.0, 0.3 - 0.05 * 0.7),
        (0.3, None, [], 0.0, 0.3),
        (None, 0.6, [], 0.0, 0.6),
        (0.1, 0.0, [0.5, 0.4], 0.0, 0.5),
        (0.1, 0.0, [0.05], 1.0, 1.0),
        (None, None, [], 0.0, 0.0),
    ],
)
def test_words_alone_do_not_make_a_lesson_fit(
    meaning: float | None, words: float | None, tasks: list[float], named: float, fit: float
) -> None:
    assert measure_fit(meaning, words, tasks, named_share=named) == fit
