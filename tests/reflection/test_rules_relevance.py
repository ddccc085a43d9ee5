"""Errors on the way of a failed run are not proposed."""

from typing import Any

import pytest

from reflection.reflectors.rules import RulesReflector
from tests.reflection.rules_runs import call, make_run, say

FIELD_REQUIRED = "1 validation error for {}Arguments\nid\n  Field required [type=missing]"


def proposals(*steps: dict[str, Any], task: str) -> list[str]:
    return [lesson.text.guideline for lesson in RulesReflector().reflect(make_run(*steps, task=task)).lessons]


REFUSED = call("list_assets", FIELD_REQUIRED.format("list_assets"), limit=1)
ENDING = (call("book", "booked"), say("The inspection is booked, with a note about the result."))


@pytest.mark.parametrize(
    ("steps", "task"),
    [
        ((REFUSED, *ENDING), "Book an inspection."),
        ((REFUSED, call("list_assets", "[]", id="a"), *ENDING), "Book an inspection of all assets."),
    ],
)
def test_error_on_the_way_of_a_failed_run_is_not_proposed(steps: tuple[dict[str, Any], ...], task: str) -> None:
    assert proposals(*steps, task=task) == []


@pytest.mark.parametrize(
    ("steps", "task"),
    [
        ((REFUSED, *ENDING), "List the assets and book an inspection."),
        ((REFUSED, *ENDING[:1]), "Book an inspection."),
        ((REFUSED, call("list_faults", FIELD_REQUIRED.format("list_faults"), limit=1), *ENDING), "Book an inspection."),
    ],
)
def test_error_that_a_failed_run_may_have_failed_over_is(steps: tuple[dict[str, Any], ...], task: str) -> None:
    assert proposals(*steps, task=task) == ["Pass `id`: the schema of `list_assets` requires it."]


def test_failed_run_with_errors_on_the_way_alone_says_so() -> None:
    result = RulesReflector().reflect(make_run(REFUSED, *ENDING, task="Book an inspection."))

    assert result.skip_reason.startswith("The run failed, and what the rules found is about errors that it got over")


@pytest.mark.parametrize(
    ("after", "proposed"), [((), 1), ((say("It is booked."),), 1), ((call("confirm", "confirmed"),), 0)]
)
def test_error_that_was_mended_last_is_proposed(after: tuple[dict[str, Any], ...], proposed: int) -> None:
    refused = call("book", "Error: day must be written YYYY-MM-DD", day="1 March 2027")

    lessons = proposals(refused, call("book", "booked", day="2027-03-01"), *after, task="Book a table on 1 March 2027.")

    assert len(lessons) == proposed
