"""Whether two lessons give the same advice; most pairs are from lessons that language models wrote after real runs."""

from typing import Any

import pytest

from memory.heuristics.sameness import compare_heuristics
from memory.heuristics.text import HeuristicText
from memory.meaning.comparison import MeaningVerdict


def lesson(
    guideline: str = "Ask for the code.", *, trigger: str = "About to change a booking", **words: Any
) -> HeuristicText:
    return HeuristicText(trigger=trigger, guideline=guideline, **words)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Call `get_user` and read the fare class.", "Call `get_user`, then read the class of the fare."),
        ("Take the cup, heat it, then put it in the cabinet.", "Take the cup and heat it, then put it into a cabinet."),
    ],
)
def test_other_words_for_the_same(one: str, other: str) -> None:
    assert compare_heuristics(lesson(one), lesson(other), similarity=0.95).verdict is MeaningVerdict.SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Check for values greater than or equal to n.", "Check for values strictly greater than n."),
        ("Call `login` before `get_cart`.", "Call `get_cart` before `login`."),
        ("Call `get_user` first.", "Call `get_order` first."),
        ("Refund at most 50 per person.", "Refund at most 500 per person."),
        (
            "Return true for odd lengths and false for even ones.",
            "Return false for odd lengths and true for even ones.",
        ),
        (
            "The formula is n * (7 * n - 5), not n * (9 * n - 7).",
            "The formula is n * (9 * n - 7), not n * (7 * n - 5).",
        ),
        (
            "Give the sum of the cubes of the numbers where the cube of the sum of the numbers was given.",
            "Give the cube of the sum of the numbers where the sum of the cubes of the numbers was given.",
        ),
        ("Ask the user for the date.", "Never ask the user for the date."),
        ("You should ask the user for the date.", "You shouldn't ask the user for the date."),
        ("Do ask the user for the date.", "Don’t ask the user for the date."),
        ("Do not refund it and do not ask again.", "Do not refund it and ask again."),
        (
            "Check the reservation, read the fare class of the booking, refund the fare, and do not tell the user.",
            "Check the reservation, read the fare class of the booking, do not refund the fare, and tell the user.",
        ),
        ("Accept the request of the user.", "Reject the request of the user."),
        ("Try the call two times.", "Try the call three times."),
        ("Erstatte den Betrag mit `refund`.", "Erstatte den Betrag nicht mit `refund`."),
        ("Верните деньги пользователю.", "Не возвращайте деньги пользователю."),
        ("退款给用户", "不要退款给用户"),
    ],
)
def test_nearly_the_same_words_for_other_advice(one: str, other: str) -> None:
    assert compare_heuristics(lesson(one), lesson(other), similarity=0.999).verdict is not MeaningVerdict.SAME


def test_same_words_in_another_language_are_the_same_advice() -> None:
    one = lesson("Erstatte den Betrag nicht.", trigger="Ein Kunde will sein Geld zurück")

    assert (
        compare_heuristics(one, lesson("erstatte den Betrag nicht", trigger=one.trigger)).verdict is MeaningVerdict.SAME
    )


@pytest.mark.parametrize(
    "other",
    [
        lesson(trigger='A request goes against this rule: "refunds are not possible"'),
        lesson(trigger="The user does not know the name"),
        lesson(polarity="avoid"),
        lesson(scope="task_family", task_id="hotels"),
        lesson(not_when="the user is a guest"),
        lesson(avoid="Asking twice."),
    ],
)
def test_same_guideline_with_another_condition_place_or_limit_is_other_advice(other: HeuristicText) -> None:
    one = lesson(trigger="The user knows the name", scope="project", avoid="Asking a colleague.")

    assert compare_heuristics(one, other, similarity=0.99).verdict is not MeaningVerdict.SAME


def test_same_guideline_for_the_whole_kind_of_task_is_the_same() -> None:
    one = lesson("Take the cup, then heat it.", trigger="When the same task comes again")
    other = lesson("Take the cup, then heat it.", trigger="The plan is to find a cup and heat it")

    assert compare_heuristics(one, other).verdict is MeaningVerdict.SAME
