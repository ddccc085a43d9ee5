"""A failing call and the changed call that worked."""

from reflection.reflectors.rules.detectors.corrected_call import find
from tests.reflection.rules_runs import call, load_real_run, reflect_on, say, view

NOT_FOUND = "Error: payment method not found"


def test_made_up_id_names_the_lookup_that_had_the_right_one() -> None:
    run = view(
        call("update_booking", NOT_FOUND, payment_id="card_7334"),
        call("get_user", {"cards": ["card_9074831"]}, user_id="u_1"),
        call("update_booking", payment_id="card_9074831"),
        outcome="success",
    )

    (finding,) = find(run)

    assert finding.trigger == "When about to call `update_booking` with a `payment_id` that no tool has returned yet"
    assert finding.guideline == (
        "Call `get_user` first and copy `payment_id` from its answer. With any other value `update_booking` answers "
        '"payment method not found".'
    )
    assert [(c.first_step, c.quote) for c in finding.citations] == [
        (1, NOT_FOUND),
        (2, "card_9074831"),
        (3, "card_9074831"),
    ]
    assert finding.polarity == "works"


def test_refused_choice_names_the_tool_that_lists_the_others() -> None:
    run = view(
        call("search_flights", [{"id": "HAT088"}, {"id": "HAT212"}]),
        call("book_flight", "Error: not enough seats on flight HAT088", flight="HAT088"),
        say("It is full. HAT212 is free.", "Then that one."),
        call("book_flight", flight="HAT212"),
    )

    (finding,) = find(run)

    assert finding.trigger == 'When `book_flight` answers "not enough seats on flight …"'
    assert finding.guideline == (
        "Take another `flight` from the answer of `search_flights` that the error does not rule out, name the choices "
        "that are left and let the user pick; then call `book_flight` again with it."
    )


def test_changed_form_of_a_date_is_said() -> None:
    run = view(
        call("list_events", "Error: invalid date '05/24/2024'", day="05/24/2024"),
        call("list_events", "[]", day="2024-05-24"),
    )

    (finding,) = find(run)

    assert finding.guideline == (
        "In the call of `list_events`, give `day` as a date in the form YYYY-MM-DD, not as a date with slashes."
    )


def test_added_and_dropped_parameters_are_said() -> None:
    run = view(
        call("send_mail", "Error: missing field subject", to="ana", colour="red"),
        call("send_mail", to="ana", subject="Hello"),
    )

    (finding,) = find(run)

    assert finding.guideline == "In the call of `send_mail`, leave out `colour` and pass `subject`."


def test_amount_spread_over_more_entries_is_said() -> None:
    run = view(
        call("get_user", {"gift_1": 280, "card_2": "visa"}),
        call("book", "Error: not enough balance in payment method gift_1", payments=[{"id": "gift_1", "amount": 340}]),
        call("book", payments=[{"id": "gift_1", "amount": 280}, {"id": "card_2", "amount": 60}]),
    )

    (finding,) = find(run)

    assert finding.trigger == (
        "When about to call `book` with one `id` in `payments`, or when it answers "
        '"not enough balance in payment method …"'
    )
    assert "still add up to the total" in finding.guideline


def test_same_call_that_worked_later_teaches_nothing() -> None:
    assert find(view(call("fetch", "Error: time-out", url="a"), call("fetch", "page", url="a"))) == []


def test_call_that_never_worked_teaches_nothing_here() -> None:
    assert find(view(call("fetch", "Error: no", url="a"), call("fetch", "Error: no", url="b"))) == []


def test_value_whose_origin_is_unknown_is_not_explained() -> None:
    assert find(view(call("open", "Error: no", door="left"), call("open", "open", door="right"))) == []


def test_real_run_with_a_guessed_payment_gives_the_lookup() -> None:
    lesson = reflect_on(load_real_run("tau-airline-20-1"))

    assert lesson.text.trigger == (
        "When about to call `update_reservation_flights` with a `payment_id` that no tool has returned yet"
    )
    assert lesson.tools == ("update_reservation_flights", "get_user_details")
    assert [(c.first_step, c.quote) for c in lesson.citations] == [
        (9, "Error: payment method not found"),
        (10, "gift_card_5634230"),
        (14, "gift_card_5634230"),
    ]
