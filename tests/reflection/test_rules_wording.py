"""Wording of lessons, and guesses from the names of tools."""

import pytest

from reflection.reflectors.rules.tools import is_change, is_handover, is_harmful, is_read, words_of
from reflection.reflectors.rules.wording import (
    cut,
    is_general,
    listed,
    parameter_name,
    with_article,
)


@pytest.mark.parametrize(
    "text",
    [
        "Call `get_user_details` first and copy `payment_id` from its answer.",
        'Take "Buy Now" only when the price is right.',
        "Ask for the user ID; basic economy cannot be modified.",
        "When the answer is JSON, read it.",
    ],
)
def test_general_texts_are_accepted(text: str) -> None:
    assert is_general(text)


@pytest.mark.parametrize(
    "text",
    [
        "Cancel reservation EHGLPQ.",
        "Refund 50 dollars.",
        "Take `flight_12`.",
        "Write to ana@example.org.",
        "See https://example.org.",
        "Ask whether Raj wants it.",
        "Move the flight to monday.",
        "Fly from JFK.",
        "Wait until may or October.",
    ],
)
def test_texts_about_one_run_are_refused(text: str) -> None:
    assert not is_general(text)


def test_parameter_name_says_where_a_value_stands() -> None:
    assert parameter_name("payment_id") == "`payment_id`"
    assert parameter_name("payments[].amount") == "`amount` in `payments`"


@pytest.mark.parametrize(
    ("name", "written"), [("`payment_id`", "a `payment_id`"), ("`input`", "an `input`"), ("`user_id`", "a `user_id`")]
)
def test_article_fits_the_name(name: str, written: str) -> None:
    assert with_article(name) == written


def test_listed_joins_like_a_sentence() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_cut_keeps_an_exact_beginning() -> None:
    assert cut("one two three", 9) == "one two"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_user_details", ("get", "user", "details")),
        ("cancelOrder", ("cancel", "order")),
        ("HTTPGet", ("http", "get")),
    ],
)
def test_words_of_a_name_are_split_at_cases_and_signs(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


def test_tools_are_judged_by_their_first_verb() -> None:
    assert [is_read("search_flights"), is_change("search_flights")] == [True, False]
    assert [is_read("update_order"), is_change("update_order")] == [False, True]
    assert [is_read("frobnicate"), is_change("frobnicate")] == [False, False]
    assert [is_read("refund_code"), is_change("refund_code"), is_harmful("refund_code")] == [True, False, False]
    assert [is_read("refund_order"), is_change("refund_order"), is_harmful("refund_order")] == [False, True, True]


def test_handing_over_is_no_change() -> None:
    assert is_handover("transfer_to_human_agents")
    assert not is_handover("transfer_money")
    assert not is_change("forward_to_support")
