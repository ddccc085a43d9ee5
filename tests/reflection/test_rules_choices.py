"""Requests about all entries of a list, and searches that found nothing."""

from typing import Any

from reflection.reflectors.rules.detectors import incomplete_sweep
from tests.reflection.rules_runs import call, say, view

LIST = call("get_user", {"orders": ["W111", "W222", "W333"]}, user_id="ana_li_12")
ALL = say("What can I do?", "Please cancel all my open orders.")


def open_order(order_id: str) -> dict[str, Any]:
    return call("get_order", {"state": "open"}, order_id=order_id)


def cancel(order_id: str) -> dict[str, Any]:
    return call("cancel_order", "ok", order_id=order_id)


def test_entries_left_unopened_before_failure_are_the_lesson() -> None:
    run = view(ALL, LIST, open_order("W111"), open_order("W222"), cancel("W111"), cancel("W222"))

    (finding,) = incomplete_sweep.find(run)

    assert finding.trigger == "When the request is about all entries in the `orders` that `get_user` lists"
    assert finding.guideline.startswith("Call `get_order` for every entry of `orders`")
    assert "listed 3 orders at step 2; the run opened 2 of them" in finding.rationale
    assert (finding.citations[1].first_step, finding.citations[1].last_step) == (3, 4)


def test_all_entries_opened_before_success_are_a_lesson_that_works() -> None:
    opened = (open_order("W111"), open_order("W222"), open_order("W333"))

    (finding,) = incomplete_sweep.find(view(ALL, LIST, *opened, cancel("W111"), cancel("W222"), outcome="success"))

    assert finding.polarity == "works"


def test_request_about_one_entry_is_no_sweep() -> None:
    talk = say("What can I do?", "Cancel the lamp and the chair. That's all I need.")
    run = view(talk, LIST, open_order("W111"), open_order("W222"), cancel("W111"), cancel("W222"))

    assert incomplete_sweep.find(run) == []
