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


def test_mistake_card_becomes_do_and_avoid() -> None:
    (finding,) = find(view(*STEPS, task="Drain the tank.", mistake_cards=(CARD,)))

    assert finding.trigger == "When the task is like this: Drain the tank."
    assert finding.guideline == "Call `read_gauge` before `open_valve`."
    assert finding.avoid == "Opening the valve first."
    assert finding.tools == ("open_valve", "read_gauge")
    assert [(c.first_step, c.quote) for c in finding.citations] == [(2, "The gauge shows too much pressure.")]


def test_mistake_card_of_a_particular_task_applies_to_its_kind_of_mistake() -> None:
    (finding,) = find(view(*STEPS, task="Drain tank 7 for Mia.", mistake_cards=(CARD,)))

    assert finding.trigger == "When there is a risk of this mistake: wrong order"


def test_mistake_card_without_a_right_decision_is_no_lesson() -> None:
    assert find(view(*STEPS, task="Drain the tank.", mistake_cards=({"mistake_type": "x", "bad_decision": "y"},))) == []


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
