"""Repeated calls."""

from reflection.reflectors.rules.detectors.repeated_call import find
from tests.reflection.rules_runs import call, say, view


def test_unchanged_failing_call_is_told_to_change() -> None:
    step = call("cancel", "Error: basic fares cannot be cancelled", id="R1")

    (finding,) = find(view(step, say("I try again.", "Fine."), step, step))

    assert finding.trigger == 'When `cancel` has just answered "basic fares cannot be cancelled"'
    assert "tell the user what is missing" in finding.guideline
    assert [c.first_step for c in finding.citations] == [1, 3, 4]
    assert finding.polarity == "avoid"


def test_repeated_question_with_the_same_answer_is_told_to_read_it() -> None:
    step = call("search_web", "nothing new", query="x")

    (finding,) = find(view(step, step, step))

    assert finding.trigger == "When about to call `search_web` with arguments it has already answered in this run"


def test_repetition_in_a_run_that_succeeded_is_ignored() -> None:
    step = call("search_web", "nothing new", query="x")

    assert find(view(step, step, step, outcome="success")) == []


def test_changed_arguments_are_no_repetition() -> None:
    assert find(view(call("open", "Error: locked", door="a"), call("open", "Error: locked", door="b"))) == []


def test_one_failure_is_no_repetition() -> None:
    assert find(view(call("open", "Error: locked", door="a"))) == []


def test_polling_whose_answer_changes_is_no_repetition() -> None:
    assert find(view(*(call("get_status", f"{n} % done", job="a") for n in (1, 2, 3)))) == []
