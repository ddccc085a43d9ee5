"""Runs with a conversation: identifiers that the user does not know."""

from reflection.reflectors.rules.detectors import missing_identifier
from tests.reflection.rules_runs import call, load_real_run, reflect_on, say, view

ASK = say("Please give me your user ID and the order ID.", "I don't have the order ID. I am ana_li_12.")
USER = call("get_user", {"orders": ["W123", "W456", "W789"]}, user_id="ana_li_12")
ORDER = call("get_order", {"item": "lamp"}, order_id="W123")


def test_identifier_found_by_another_one_names_the_lookup() -> None:
    (finding,) = missing_identifier.find(view(ASK, USER, ORDER, outcome="success"))

    assert finding.trigger == "When the user does not know the order ID that the request needs"
    assert finding.guideline.startswith(
        "Ask for the `user_id` instead, call `get_user` with it, and take `order_id` for `get_order` from its answer."
    )
    assert finding.citations[0].quote == "I don't have the order ID. I am ana_li_12."


def test_identifier_the_user_gave_after_all_is_no_lookup() -> None:
    run = view(ASK, say("Please look.", "It is W123."), USER, ORDER, outcome="success")

    assert missing_identifier.find(run) == []


def test_identifier_asked_for_repeatedly_is_the_lesson() -> None:
    run = view(ASK, say("I need the order ID.", "No idea."), say("Come back once you have the order ID.", "Bye."))

    (finding,) = missing_identifier.find(run)

    assert finding.guideline.startswith("Ask for the user ID alone")
    assert [c.first_step for c in finding.citations] == [1, 2, 3]
    assert finding.polarity == "avoid"


def test_identifier_asked_for_once_more_is_ignored() -> None:
    assert missing_identifier.find(view(ASK, say("I need the order ID.", "No idea."))) == []


def test_identifier_not_asked_for_in_a_run_that_succeeded_is_ignored() -> None:
    run = view(ASK, say("I need the order ID.", "No."), say("Give me the order ID.", "No."), outcome="success")

    assert missing_identifier.find(run) == []


def test_real_run_that_looked_the_reservation_up_is_a_lesson() -> None:
    lesson = reflect_on(load_real_run("tau-airline-01-1"))

    assert lesson.text.trigger == "When the user does not know the reservation ID that the request needs"
    assert lesson.tools == ("get_user_details", "get_reservation_details")
    assert lesson.text.polarity == "mixed"


def test_real_run_that_insisted_is_a_lesson_to_avoid_it() -> None:
    lesson = reflect_on(load_real_run("tau-airline-01-2"))

    assert lesson.text.polarity == "avoid"
    assert lesson.text.guideline.startswith("Ask for the user ID alone")
    assert "`transfer_to_human_agents`" in lesson.text.rationale
