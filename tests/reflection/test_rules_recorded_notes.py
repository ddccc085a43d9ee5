"""Notes recorded with the run."""

from reflection.reflectors.rules.detectors.recorded_notes import find
from tests.reflection.rules_runs import call, view

STEPS = (call("open_valve", "Pressure rises.", side="left"), call("read_gauge", "The gauge shows too much pressure."))
CARD = {
    "mistake_type": "wrong_order",
    "bad_decision": "Opening the valve first",
    "correct_decision": "Call `read_gauge` before `open_valve`",
    "evidence": "The gauge shows too much pressure.",
    "lesson": "Look before acting",
}


def test_mistake_card_is_no_second_lesson() -> None:
    assert find(view(*STEPS, task="Drain the tank.", mistake_cards=(CARD,))) == []


def test_note_that_says_what_a_card_says_is_no_second_lesson() -> None:
    noted = (CARD["correct_decision"], "The gauge should be read before the valve")

    (finding,) = find(view(*STEPS, task="Drain the tank.", mistakes=noted, mistake_cards=(CARD,)))

    assert finding.guideline == "The gauge should be read before the valve."
    assert finding.tools == ()


def test_mistake_that_says_what_to_do_is_a_lesson() -> None:
    (finding,) = find(view(*STEPS, task="Drain the tank.", mistakes=("The gauge should be read before the valve",)))

    assert finding.guideline == "The gauge should be read before the valve."
    assert finding.family_only


def test_mistake_that_only_says_what_happened_is_left_to_people() -> None:
    assert find(view(*STEPS, task="Drain the tank.", mistakes=("The pressure was much too high",))) == []


def test_success_is_a_lesson_that_works() -> None:
    (finding,) = find(
        view(*STEPS, task="Drain the tank.", successes=("Reading the gauge before the valve",), outcome="success")
    )

    assert finding.polarity == "works"


def test_note_with_values_of_the_run_is_no_lesson() -> None:
    assert find(view(*STEPS, task="Drain the tank.", mistakes=("Order W123 should be cancelled first",))) == []
