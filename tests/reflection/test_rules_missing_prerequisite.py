"""Calls that work only after another one."""

from typing import Any

import pytest

from memory.runs.episode import Episode
from reflection.reflectors.rules.detectors.missing_prerequisite import best_named, find, speaks_of
from tests.reflection.rules_runs import call, make_run, view

REFUSED = "Error: brake pedal needs to be pressed when starting the engine"


def start(answer: str = "running") -> dict[str, Any]:
    return call("start_engine", answer, mode="START")


def test_call_that_worked_after_another_names_it() -> None:
    (finding,) = find(view(start(REFUSED), call("press_brake_pedal", "pressed"), start(), outcome="success"))

    assert finding.trigger == (
        "When about to call `start_engine` and this condition is not met yet: "
        '"brake pedal needs to be pressed when starting the engine"'
    )
    assert finding.guideline == "First call `press_brake_pedal`, then `start_engine`."
    assert [c.first_step for c in finding.citations] == [1, 2, 3]
    assert finding.citations[0].quote == REFUSED


def test_error_that_states_a_fact_is_not_said_to_be_a_condition() -> None:
    ticket, login = call("create_ticket", title="late"), call("ticket_login", "welcome")

    (finding,) = find(view(call("create_ticket", "Error: user not authenticated", title="late"), login, ticket))

    assert finding.trigger == 'When about to call `create_ticket` while this is the case: "user not authenticated"'


def test_of_several_calls_the_one_that_the_error_speaks_of_is_named() -> None:
    run = view(start(REFUSED), call("lock_doors", "locked"), call("press_brake_pedal", "pressed"), start())

    (finding,) = find(run)

    assert finding.tools == ("start_engine", "press_brake_pedal")


def press(position: float) -> dict[str, Any]:
    return call("press_brake_pedal", "pressed", position=position)


def test_argument_that_made_the_other_call_help_is_named() -> None:
    (once,), (again,) = (
        find(view(start(REFUSED), press(1.0), start())),
        find(view(press(0.5), start(REFUSED), press(1.0), start())),
    )

    assert once.guideline == "First call `press_brake_pedal` with `position` `1.0`, then `start_engine`."
    assert (once.trigger, once.guideline, once.avoid) == (again.trigger, again.guideline, again.avoid)


def test_flag_is_named_only_if_it_was_what_changed() -> None:
    locked, unlocked = (call("lock_doors", "done", unlock=flag) for flag in (False, True))
    refused = start("Error: all doors must be locked before starting")

    (once,), (changed,) = find(view(refused, locked, start())), find(view(unlocked, refused, locked, start()))

    assert once.guideline == "First call `lock_doors`, then `start_engine`."
    assert changed.guideline == "First call `lock_doors` with `unlock` `false`, then `start_engine`."


def test_other_call_made_before_that_helped_with_a_value_of_the_run_teaches_nothing() -> None:
    assert find(view(press(0.5), start(REFUSED), press(0.8), start())) == []


INSURE = call("insure", "Error: card not registered", card="123")
REGISTER, INSURED = call("register_card", {"card": "456"}), call("insure", card="456")
INSURED_AT_ONCE = make_run(INSURED, outcome="success")
REGISTERED = make_run(REGISTER, INSURED, outcome="success")


@pytest.mark.parametrize("family", [(), (INSURED_AT_ONCE,), (REGISTERED, INSURED_AT_ONCE)])
def test_call_with_other_arguments_after_another_is_no_rule_of_one_run(family: tuple[Episode, ...]) -> None:
    assert find(view(INSURE, REGISTER, INSURED, family=family)) == []


def test_call_with_other_arguments_after_another_is_a_rule_where_each_run_shows_it() -> None:
    (finding,) = find(view(INSURE, REGISTER, INSURED, family=(REGISTERED,)))

    assert finding.guideline == "First call `register_card`, then `insure`."


def test_what_one_run_shows_is_said_of_its_error_alone() -> None:
    refused, sent = call("send", "Error: no user is logged in", to="ana"), call("send", to="ana")
    shown = (refused, call("login", "welcome", name="bo"), sent)

    (alone,), (usual,) = find(view(*shown)), find(view(*shown, family=(make_run(call("login"), sent),)))

    assert alone.trigger == 'When `send` answers "no user is logged in"'
    assert usual.trigger == 'When about to call `send` before `login`, or when it answers "no user is logged in"'


DICE = "You need to take the red onion first."


def test_call_for_the_thing_that_the_error_names_is_cited() -> None:
    onion, potato = call("take", thing="red onion"), call("take", thing="potato")
    refused, diced = call("dice", DICE, thing="red onion"), call("dice", thing="red onion")

    (finding,) = find(view(refused, onion, potato, diced))

    assert finding.citations[1].first_step == 2
    assert finding.guideline == (
        "First call `take` with the thing that the condition names, then `dice`. Skip this if it has already been done."
    )
    assert find(view(refused, potato, diced)) == []


@pytest.mark.parametrize(
    "between",
    [
        (call("open_window", "open"), call("turn_radio", "on")),  # either may have helped
        (call("get_state", "off"),),  # a look changes nothing
        (call("pay_fine", "paid"),),  # no lesson says to spend money
        (),
    ],
)
def test_call_whose_cause_is_uncertain_teaches_nothing(between: tuple[dict[str, Any], ...]) -> None:
    assert find(view(start("Error: it is off"), *between, start())) == []


def test_service_that_came_back_teaches_nothing() -> None:
    assert find(view(start("Error: connection refused"), call("turn_key", "turned"), start())) == []


def test_words_of_a_name_are_found_in_other_forms() -> None:
    assert speaks_of("User is not logged in.", "messages_login") == 1
    assert best_named(REFUSED, ["release_brake_pedal", "press_brake_pedal"]) == "press_brake_pedal"
    assert best_named("Nothing happens.", ["open", "close"]) == ""
