"""A failing call and the call with one changed argument that worked."""

import pytest

from reflection.reflectors.rules.detectors.changed_argument import find
from reflection.reflectors.rules.value_forms import change_of_form
from tests.reflection.rules_runs import call, load_real_run, reflect_on, view

NOT_FOUND = "Error: payment method not found"


def test_made_up_id_names_the_lookup_that_had_the_right_one() -> None:
    run = view(
        call("update_booking", NOT_FOUND, payment_id="card_7334"),
        call("get_user", {"cards": ["card_9074831"]}, user_id="u_1"),
        call("update_booking", payment_id="card_9074831"),
        outcome="success",
    )

    (finding,) = find(run)

    assert (
        finding.trigger
        == "When about to call `update_booking` with a `payment_id` that neither a tool nor the user has given"
    )
    assert finding.guideline == (
        "First call `get_user` and copy `payment_id` from its answer. A value from elsewhere was answered with "
        '"payment method not found".'
    )
    assert [(c.first_step, c.quote) for c in finding.citations] == [
        (1, NOT_FOUND),
        (2, "card_9074831"),
        (3, "card_9074831"),
    ]
    assert finding.polarity == "mixed"


def test_lookup_made_before_the_failing_call_is_not_what_helped() -> None:
    stocks = call("list_stocks", {"stock_list": ["AAPL", "NVDA"]}, sector="Technology")
    refused = call("get_stock", "Error: stock not found", symbol="Nvidia")

    (finding,) = find(view(stocks, refused, call("get_stock", {"price": 220}, symbol="NVDA"), outcome="success"))

    assert finding.guideline == "Give `symbol` as a short code in capitals."


def test_values_that_the_error_lists_without_quotation_marks_are_named() -> None:
    error = "Invalid travel class. Options are: economy, business, first."
    run = view(
        call("get_cost", f"Error: {error}", travel_class="Economy Class"), call("get_cost", travel_class="first")
    )

    (finding,) = find(run)

    assert finding.guideline == 'Give `travel_class` as "business", "economy" or "first".'


def test_date_that_has_the_form_of_the_message_is_wrong_for_another_reason() -> None:
    error = "time data '1234-56-78' does not match format '%Y-%m-%d'"

    assert find(view(call("get_events", f"ValueError: {error}", day="1234-56-78"))) == []


def test_changed_form_of_a_date_is_said() -> None:
    run = view(
        call("list_events", "Error: invalid date '05/24/2024'", day="05/24/2024"),
        call("list_events", "[]", day="2024-05-24"),
    )

    (finding,) = find(run)

    assert finding.guideline == "Give `day` as a date in the form YYYY-MM-DD, not as a date with slashes."


def test_argument_that_was_added_is_said() -> None:
    run = view(
        call("send_mail", "Error: missing field subject", to="ana"),
        call("send_mail", to="ana", subject="Hello"),
    )

    (finding,) = find(run)

    assert finding.trigger == "When about to call `send_mail` without `subject`"
    assert (
        finding.guideline == 'Pass `subject` in the first call: without it `send_mail` answers "missing field subject".'
    )


def test_values_that_the_error_lists_are_named() -> None:
    error = "Invalid travel class. Must be one of {'business', 'economy'}"
    failing = view(call("book", f"Error: {error}", travel_class="eco"), call("book", travel_class="economy"))

    assert find(failing)[0].guideline == 'Give `travel_class` as "business" or "economy".'


def test_schema_error_has_one_wording_corrected_or_not() -> None:
    error = "ValidationError: 1 validation error for Input schema\nhotels\n  Input should be a valid list [type=list]"
    failed = call("get_prices", error, hotels="Ritz")

    (corrected,) = find(view(failed, call("get_prices", hotels=["Ritz"])))
    (never,) = find(view(failed))

    assert corrected.guideline == "Give `hotels` as a list, even for a single entry."
    assert (corrected.trigger, corrected.guideline, corrected.avoid) == (never.trigger, never.guideline, never.avoid)


def test_of_several_changes_the_one_that_the_error_names_is_the_lesson() -> None:
    run = view(
        call("list_events", "Error: invalid start date", start_date="05/24/2024", room="a"),
        call("list_events", "[]", start_date="2024-05-24", room="b"),
    )

    (finding,) = find(run)

    assert finding.guideline.startswith("Give `start_date` as a date")


def test_values_of_a_schema_are_named() -> None:
    error = "1 validation error for Input schema\nmode\n  Input should be 'r' or 'rw' [type=enum]"

    (finding,) = find(view(call("share", f"ValidationError: {error}", mode="write")))

    assert finding.guideline == 'Give `mode` as "r" or "rw".'
    assert "'r' or 'rw'" in finding.rationale


NO_ROOM = "1 validation error for bookArguments\nroom\n  Field required [type=missing, input_type=dict]"


def test_argument_that_a_schema_misses_as_it_was_wrapped_is_unwrapped() -> None:
    wrapped = call("book", NO_ROOM, params={"room": "blue", "day": "Monday"})

    (never,) = find(view(wrapped))
    (elsewhere,) = find(view(call("book", room="green"), wrapped))

    assert never.trigger == "When about to call `book` with `room` inside `params`"
    assert never.guideline == "Pass `room` as an argument of its own: `book` does not find it inside `params`."
    assert "The run did not correct it" in never.rationale
    assert "On its own it was taken at step 1" in elsewhere.rationale


@pytest.mark.parametrize("given", [{}, {"params": {"day": "Monday"}}, {"a": {"room": "blue"}, "b": {"room": "blue"}}])
def test_argument_that_a_schema_misses_is_asked_for_where_none_or_two_hold_it(given: dict[str, object]) -> None:
    (finding,) = find(view(call("book", NO_ROOM, **given)))

    assert finding.guideline == "Pass `room`: the schema of `book` requires it."


def test_wrapper_whose_name_belongs_to_one_run_is_not_named() -> None:
    assert find(view(call("book", NO_ROOM, call_4711={"room": "blue"}))) == []


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (None, " It takes no null: without a value, leave it out if the schema allows that."),
        ("Any", " No word stands for all: to ask for all, leave it out if the schema allows that."),
        ("three", ""),
    ],
)
def test_null_and_words_for_all_are_left_out_where_a_schema_asks_for_a_number(given: object, more: str) -> None:
    error = "1 validation error for listArguments\nlimit\n  Input should be a valid integer [type=int_type]"

    (finding,) = find(view(call("list_rooms", error, limit=given)))

    assert finding.guideline == f"Give `limit` as a whole number.{more}"


def test_form_that_an_error_spells_out_is_said_though_it_never_worked() -> None:
    error = "Error: time data 'May 4' does not match format '%Y-%m-%d %H:%M'"

    (finding,) = find(view(call("add_event", error, start="May 4", title="Tea")))

    assert finding.guideline == "Give `start` as a time in the form YYYY-MM-DD hh:mm."


def test_path_that_an_answer_had_shown_is_said_though_it_never_worked() -> None:
    missing = call("read_file", "File does not exist: paging.py", path="paging.py")

    (finding,) = find(view(call("list_files", "lib/paging.py\ntests/test_paging.py"), missing))

    assert finding.guideline == "Give `path` with its folder, exactly as an earlier answer shows it."
    assert find(view(call("list_files", "lib/paging.py\nold/paging.py"), missing)) == []


@pytest.mark.parametrize(
    ("shown", "given", "form"),
    [(7788, "7788", "as a number, not as a text"), ("7788", 7788, "as a text, not as a number")],
)
def test_type_in_which_an_answer_had_shown_the_value_is_said(shown: object, given: object, form: str) -> None:
    refused = call("cancel", "Error: order not found", order_id=given)

    (finding,) = find(view(call("buy", {"order_id": shown}), refused))

    assert finding.guideline == f"Give `order_id` {form}."
    assert find(view(call("buy", {"order_id": given}), refused)) == []
    assert find(view(call("buy", {"amount": shown}), refused)) == []


MISSING_ORDER = "Error: order not found"


@pytest.mark.parametrize(
    "between",
    [
        (call("place_order", {"order_id": "W_1"}, item="x"),),  # nobody orders something to read an id
        (call("find_orders", {"file": "./W_1/W_1.txt"}, item="x"),),  # not exactly what was given later
        (call("get_order_state", {"order_id": "W_1"}, order_id="W_1"),),  # it needs the value itself
    ],
)
def test_source_that_is_no_lookup_of_this_value_is_not_named(between: tuple[dict[str, object], ...]) -> None:
    assert (
        find(view(call("get_order", MISSING_ORDER, order_id="A_9"), *between, call("get_order", order_id="W_1"))) == []
    )


@pytest.mark.parametrize(
    "steps",
    [
        # Several arguments changed, and the error names none of them
        (call("search", "Error: invalid", day="05/24/2024", room="a"), call("search", day="2024-05-24", room="b")),
        # The error is about the state of things: no form explains it
        (call("book", "Error: not enough seats", date="may"), call("book", date="May")),
        # Another call came in between and may have helped
        (
            call("start_engine", "Error: all doors must be locked before", mode="Start"),
            call("lock_doors", "locked"),
            call("start_engine", mode="START"),
        ),
        # Another choice, not another form
        (call("book", "Error: not enough seats on flight HAT088", flight="HAT088"), call("book", flight="HAT212")),
        (call("open", "Error: no", door="left"), call("open", "open", door="right")),
        # Nothing changed, or nothing worked
        (call("fetch", "Error: time-out", url="a"), call("fetch", "page", url="a")),
        (call("fetch", "Error: no", url="a"), call("fetch", "Error: no", url="b")),
    ],
)
def test_change_that_does_not_explain_the_error_teaches_nothing(steps: tuple[dict[str, object], ...]) -> None:
    assert find(view(*steps)) == []


@pytest.mark.parametrize(
    ("old", "new", "form"),
    [
        (7, "7", "as a text, not as a number"),
        ("7", 7, "as a number, not as a text"),
        ("#general", "general", 'without "#" in front'),
        ("W123", "#W123", 'with "#" in front'),
        ("docs/a.txt", "a.txt", "as a bare name, without its folder"),
        ("report", "report.txt", "with the file's extension"),
        ("Start", "START", "in capital letters"),
        ("left", "right", ""),
    ],
)
def test_form_is_said_without_the_value(old: object, new: object, form: str) -> None:
    assert change_of_form((old,), (new,), error="not found") == form


def test_real_run_with_a_guessed_payment_gives_the_lookup() -> None:
    lesson = reflect_on(load_real_run("tau-airline-20-1"))

    assert lesson.text.trigger == (
        "When about to call `update_reservation_flights` with a `payment_id` that neither a tool nor the user has given"
    )
    assert lesson.tools == ("update_reservation_flights", "get_user_details")
    assert [(c.first_step, c.quote) for c in lesson.citations] == [
        (9, "Error: payment method not found"),
        (10, "gift_card_5634230"),
        (14, "gift_card_5634230"),
    ]
