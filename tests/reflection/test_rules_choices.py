"""Lists of which all entries were meant, the cheapest of several options, searches that found nothing."""

from typing import Any

from reflection.reflectors.rules.detectors import best_option, empty_answer, incomplete_sweep
from tests.reflection.rules_runs import call, load_real_run, reflect_on, say, view

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


def part(number: str, price: int, seats: int = 9) -> dict[str, Any]:
    return {"number": number, "seats": {"economy": seats}, "prices": {"economy": price, "business": 900}}


def trip(*numbers: str) -> dict[str, Any]:
    return call("book_trip", "ok", cabin="economy", flights=[{"number": number} for number in numbers])


ROUTES = call("search_trips", [[part("A1", 105), part("B1", 190)], [part("A1", 105), part("B2", 102)]])
CHEAPEST = say("Where to?", "The cheapest economy trip, please.")


def test_option_that_is_not_the_cheapest_by_its_total_is_the_lesson() -> None:
    (finding,) = best_option.find(view(CHEAPEST, ROUTES, trip("A1", "B1")))

    assert (
        finding.trigger
        == "When the user asks for the cheapest of the options that `search_trips` returns, and options have parts"
    )
    assert finding.polarity == "avoid"
    assert finding.citations[0].quote == "cheapest"


def test_cheapest_option_after_sums_is_a_lesson_that_works() -> None:
    run = view(CHEAPEST, ROUTES, call("calculate", "207", expression="105 + 102"), trip("A1", "B2"), outcome="success")

    (finding,) = best_option.find(run)

    assert finding.polarity == "works"


def test_sold_out_option_is_not_the_cheapest() -> None:
    routes = call("search_trips", [[part("A1", 105), part("B1", 190)], [part("A1", 105), part("B2", 102, seats=0)]])

    assert best_option.find(view(CHEAPEST, routes, trip("A1", "B1"))) == []


def test_second_cheapest_is_taken_at_its_word() -> None:
    asked = say("Where to?", "The second cheapest economy trip, please.")
    routes = call(
        "search_trips", [[part("A1", 1), part("B1", 1)], [part("A2", 2), part("B2", 2)], [part("A3", 3), part("B3", 3)]]
    )

    assert best_option.find(view(asked, routes, trip("A2", "B2"))) == []
    assert len(best_option.find(view(asked, routes, trip("A1", "B1")))) == 1


def test_options_are_not_compared_where_nobody_asked_for_the_cheapest() -> None:
    assert best_option.find(view(say("Where to?", "To Rome."), ROUTES, trip("A1", "B1"))) == []


def test_search_that_found_nothing_names_the_one_that_did() -> None:
    run = view(
        call("search_direct", "[]", start="a", end="b"),
        call("search_onestop", [{"id": 1}], start="a", end="b"),
        outcome="success",
    )

    (finding,) = empty_answer.find(run)

    assert finding.guideline == "Call `search_onestop` with the same request before saying that there is nothing."


def test_search_that_found_something_without_a_filter_names_the_filter() -> None:
    run = view(
        call("search_docs", "[]", query="tax", year="y"),
        call("search_docs", [{"id": 1}], query="tax"),
        outcome="success",
    )

    (finding,) = empty_answer.find(run)

    assert finding.guideline == "Call `search_docs` again without `year`."


def test_empty_answer_in_a_run_that_failed_is_let_pass() -> None:
    run = view(call("search_direct", "[]", start="a"), call("search_onestop", [{"id": 1}], start="a"))

    assert empty_answer.find(run) == []


def test_real_run_that_took_a_dearer_route_says_so() -> None:
    lesson = reflect_on(load_real_run("tau-airline-06-1"))

    assert lesson.text.tags == ("best_option",)
    assert lesson.tools == ("search_onestop_flight", "update_reservation_flights")
