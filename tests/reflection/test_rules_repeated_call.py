"""Repeated calls."""

from reflection.reflectors.rules.detectors.repeated_call import find
from tests.reflection.rules_runs import call, make_run, say, view

FAILING = call("cancel", "Error: basic fares cannot be cancelled", id="R1")


def test_long_series_of_a_failing_call_is_told_to_change() -> None:
    (finding,) = find(view(FAILING, say("I try again.", "Fine."), *[FAILING] * 9))

    assert finding.trigger == (
        'When `cancel` has just answered "basic fares cannot be cancelled" twice for the same arguments'
    )
    assert "`cancel` was called 10 times" in finding.rationale
    assert [c.first_step for c in finding.citations] == [1, 3, 4]
    assert finding.polarity == "avoid"


def test_short_series_is_ignored_even_if_other_runs_show_it_too() -> None:
    assert find(view(*[FAILING] * 9, family=(make_run(*[FAILING] * 9),))) == []


def test_short_series_with_which_a_limit_ended_the_run_is_told_to_change() -> None:
    stopped = FAILING | {"observation": f"{FAILING['observation']}\n\nAgent stopped due to max iterations."}

    (finding,) = find(view(FAILING, FAILING, stopped))

    assert "`cancel` was called 3 times" in finding.rationale


def test_repetition_in_a_run_that_succeeded_is_ignored() -> None:
    assert find(view(*[FAILING] * 12, outcome="success")) == []


def test_changed_arguments_are_no_repetition() -> None:
    assert find(view(*(call("open", "Error: it is locked", door=door) for door in "abcdefghijkl"))) == []


def test_waiting_for_a_service_that_is_down_is_no_repetition() -> None:
    assert find(view(*[call("open", "Error: connection refused by the server", url="a")] * 12)) == []


def test_tests_run_again_after_edits_are_no_repetition() -> None:
    run = call("Bash", "1 failed", command="pytest -q")
    edit = call("Edit", "The file has been updated.", file_path="a.py")

    assert find(view(*[run, edit] * 12)) == []


def test_polling_whose_answer_changes_is_no_repetition() -> None:
    assert find(view(*(call("get_status", f"{n} % done", job="a") for n in range(12)))) == []
