"""Repeated calls."""

from reflection.reflectors.rules.detectors.repeated_call import find
from tests.reflection.rules_runs import call, say, view

FAILING = call("cancel", "Error: basic fares cannot be cancelled", id="R1")
ANSWERED = call("search_web", "nothing new", query="x")


def test_unchanged_failing_call_is_told_to_change() -> None:
    (finding,) = find(view(FAILING, say("I try again.", "Fine."), FAILING, FAILING))

    assert finding.trigger.startswith("When the same call with the same arguments has just failed")
    assert "`cancel` was called 3 times" in finding.rationale
    assert [c.first_step for c in finding.citations] == [1, 3, 4]
    assert finding.polarity == "avoid"


def test_lesson_has_the_same_words_for_every_tool() -> None:
    other = call("open", "Error: the door is locked", door="a")

    (one,), (two,) = find(view(FAILING, FAILING, FAILING)), find(view(other, other, other))

    assert (one.trigger, one.guideline, one.avoid) == (two.trigger, two.guideline, two.avoid)


def test_repeated_question_with_the_same_answer_is_told_to_read_it() -> None:
    (finding,) = find(view(ANSWERED, ANSWERED, ANSWERED, ANSWERED))

    assert finding.guideline.startswith("Use the answer that is there.")


def test_repetition_in_a_run_that_succeeded_is_ignored() -> None:
    assert find(view(*[FAILING] * 3, *[ANSWERED] * 4, outcome="success")) == []


def test_changed_arguments_are_no_repetition() -> None:
    assert find(view(*(call("open", "Error: it is locked", door=door) for door in "abc"))) == []


def test_waiting_for_a_service_that_is_down_is_no_repetition() -> None:
    assert find(view(*[call("open", "Error: connection refused by the server", url="a")] * 3)) == []


def test_tests_run_again_after_edits_are_no_repetition() -> None:
    run = call("Bash", "1 failed", command="pytest -q")
    edit = call("Edit", "The file has been updated.", file_path="a.py")

    assert find(view(run, edit, run, edit, run)) == []


def test_polling_whose_answer_changes_is_no_repetition() -> None:
    assert find(view(*(call("get_status", f"{n} % done", job="a") for n in (1, 2, 3, 4)))) == []
