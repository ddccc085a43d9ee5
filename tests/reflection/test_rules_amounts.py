"""Amounts that do not add up to the total a tool expects."""

from typing import Any

from reflection.reflectors.rules.detectors.amounts import find
from tests.reflection.rules_runs import call, say, view

REFUSED = "Error: payment does not add up, total price is 608, but paid 304"


def book(answer: str, *amounts: int, passengers: int = 2) -> dict[str, Any]:
    people = [{"name": "A"}, {"name": "B"}, {"name": "C"}][:passengers]
    return call("book", answer, passengers=people, payments=[{"amount": amount} for amount in amounts])


def test_amount_of_one_entry_names_the_list_to_multiply_by() -> None:
    run = view(book(REFUSED, 304), say("Together it is 608.", "Yes."), book("booked", 608))

    (finding,) = find(run)

    assert (
        finding.trigger
        == "When about to call `book` with `amount` in `payments` for more than one entry in `passengers`"
    )
    assert finding.guideline.startswith("Multiply the price of one by the number of `passengers`")
    assert "which the user has agreed to" in finding.guideline
    assert finding.polarity == "mixed"


def test_other_difference_points_to_the_total_in_the_error() -> None:
    run = view(
        book("Error: total price is 1002, but paid 957", 500, 457),
        book("Error: total price is 1002, but paid 957", 957),
    )

    (finding,) = find(run)

    assert finding.trigger == 'When `book` answers "total price is … but paid …"'
    assert finding.guideline.startswith("Take the total that the error names, work out `amount` in `payments` again")
    assert finding.confidence == 0.95
    assert finding.polarity == "avoid"


def test_error_without_the_sum_of_an_argument_is_no_mismatch() -> None:
    assert find(view(book("Error: 7 of 9 servers are down", 304))) == []


def test_ambiguous_list_is_not_guessed() -> None:
    step = call("book", REFUSED, passengers=[{}, {}], bags=[{}, {}], payments=[{"amount": 304}])

    (finding,) = find(view(step))

    assert finding.trigger == 'When `book` answers "payment does not add up, total price is … but paid …"'
