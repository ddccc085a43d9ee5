"""A failing call that other runs of the family repaired, or that worked in them after a step this run lacks."""

from typing import Any

import pytest

from memory.runs.episode import Episode
from reflection.reflectors.rules.detectors import (
    changed_argument,
    missing_prerequisite,
    sibling_repair,
    sibling_success,
)
from reflection.reflectors.rules.run_view import ReadRun
from tests.reflection.rules_runs import call, make_run, view

UNKNOWN = "Error: booking not found"
WRONG_TYPE = call("get_invoice", UNKNOWN, booking_id=3456)
REPAIRED = make_run(WRONG_TYPE, call("get_invoice", "paid", booking_id="3456"), outcome="success")


def test_repair_of_another_run_is_proposed_in_its_words() -> None:
    (finding,) = sibling_repair.find(view(WRONG_TYPE, family=(REPAIRED,)))
    (own,) = changed_argument.find(ReadRun(REPAIRED))

    assert finding.guideline == "Give `booking_id` as a text, not as a number."
    assert (finding.rule, finding.trigger, finding.guideline, finding.avoid, finding.polarity) == (
        own.rule,
        own.trigger,
        own.guideline,
        own.avoid,
        own.polarity,
    )
    assert [c.quote for c in finding.citations] == [UNKNOWN]


@pytest.mark.parametrize(
    ("steps", "family"),
    [
        ((call("get_invoice", UNKNOWN, booking_id="9"),), (REPAIRED,)),  # another fault
        ((call("get_invoice", "Error: it is locked", booking_id=9),), (REPAIRED,)),  # another error
        ((WRONG_TYPE, call("get_invoice", "paid", booking_id="3456")), (REPAIRED,)),  # the run itself shows it
        ((WRONG_TYPE,), ()),
    ],
)
def test_repair_of_another_fault_is_not_proposed(
    steps: tuple[dict[str, Any], ...], family: tuple[Episode, ...]
) -> None:
    assert sibling_repair.find(view(*steps, family=family)) == []


REFUSED = "Error: brake pedal needs to be pressed when starting the engine"
START, PRESS = call("start_engine", REFUSED), call("press_brake_pedal", "pressed", position=1.0)
STARTED = make_run(START, PRESS, call("start_engine", "running"), outcome="success")


def test_prerequisite_of_another_run_is_proposed_unless_it_was_done() -> None:
    (finding,) = sibling_repair.find(view(START, family=(STARTED,)))

    assert finding.guideline == missing_prerequisite.find(ReadRun(STARTED))[0].guideline
    assert sibling_repair.find(view(PRESS, START, family=(STARTED,))) == []


def mailed(address: str) -> Episode:
    """A run that looked an address up and wrote to it."""
    return make_run(
        call("find_contact", {"mail": address}, name="Ana"), call("send_mail", "sent", to=address), outcome="success"
    )


BOUNCED = call("send_mail", "Error: unknown recipient", to="ana@example.com")


def test_made_up_value_is_to_be_taken_from_where_other_runs_took_it() -> None:
    (finding,) = sibling_success.find(view(BOUNCED, family=(mailed("a.b@ex.org"), mailed("b.c@ex.org"))))

    assert finding.trigger == "When about to call `send_mail` with a `to` that neither a tool nor the user has given"
    assert finding.guideline.startswith("First call `find_contact` and copy `to` from its answer.")


@pytest.mark.parametrize(
    ("steps", "family"),
    [
        ((BOUNCED,), (mailed("a.b@ex.org"),)),  # one run is too few
        ((BOUNCED,), (mailed("a.b@ex.org"), mailed("b.c@ex.org"), make_run(call("send_mail", "sent", to="x@ex.org")))),
        ((call("find_contact", {"mail": "ana@example.com"}), BOUNCED), (mailed("a.b@ex.org"), mailed("b.c@ex.org"))),
    ],
)
def test_source_that_is_uncertain_is_not_named(steps: tuple[dict[str, Any], ...], family: tuple[Episode, ...]) -> None:
    assert sibling_success.find(view(*steps, family=family)) == []


def braked(mode: str) -> Episode:
    return make_run(call("set_brake", "set", mode=mode), outcome="success")


def test_words_that_an_argument_took_wherever_it_worked_are_named() -> None:
    wrong = call("set_brake", "Error: invalid mode", mode="on")
    works = (braked("engage"), braked("engage"), braked("release"))

    (finding,) = sibling_success.find(view(wrong, family=works))

    assert finding.guideline == 'Give `mode` as "engage" or "release".'
    assert sibling_success.find(view(wrong, family=works[:2])) == []
    (finding,) = sibling_success.find(
        view(call("set_brake", "Error: invalid mode", mode="Engage"), family=(braked("ENGAGE"),) * 3)
    )
    assert finding.guideline == "Give `mode` in capital letters."
    assert sibling_success.find(view(wrong, family=(*works, braked("on")))) == []


HUNGRY = call("eat", "You can't see any such thing", thing="meal")
EATEN = make_run(call("prepare", thing="meal"), call("eat", "You eat it", thing="meal"), outcome="success")


def test_step_before_every_success_and_in_no_failure_comes_first() -> None:
    (finding,) = sibling_success.find(view(HUNGRY, family=(EATEN, EATEN, EATEN, make_run(HUNGRY))))

    assert finding.trigger == (
        'When about to call `eat` before `prepare`, or when it answers "You can\'t see any such thing"'
    )
    assert finding.guideline == "First call `prepare` with `thing` `meal`, then `eat`."


@pytest.mark.parametrize(
    "family",
    [
        (EATEN, EATEN, make_run(HUNGRY)),  # too few successes
        (EATEN, EATEN, EATEN),  # too few failures
        (EATEN, EATEN, EATEN, make_run(call("prepare", "Error: nothing to prepare"), HUNGRY)),  # it was tried
    ],
)
def test_step_that_may_not_be_the_reason_is_not_named(family: tuple[Episode, ...]) -> None:
    assert sibling_success.find(view(HUNGRY, family=family)) == []
