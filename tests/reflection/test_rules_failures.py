"""Runs that failed: given up, left undone, lost, or cut off by a limit."""

from dataclasses import replace
from typing import Any

import pytest

from memory.runs.limits_reached import limit_reached
from reflection.reflectors.rules.detectors import (
    fatal_call,
    gave_up,
    omitted_action,
    unanswered_question,
)
from reflection.reflectors.rules.run_view import ReadRun
from tests.reflection.rules_runs import call, make_run, say, view

SORRY = say("I could not do this.")
DONE = say("Done.")
NOT_THERE = call("read_file", "File does not exist: shop.py", path="shop.py")


UNREADABLE = call("add_event", "Error: the date must be given as day and month", day="4.5.")


def test_run_given_up_after_an_error_that_says_what_to_do_is_told_to_do_it() -> None:
    (finding,) = gave_up.find(view(UNREADABLE, SORRY))

    assert finding.trigger == 'When `add_event` answers "the date must be given as day and month"'
    assert finding.guideline.startswith("Change the argument as the answer says")


@pytest.mark.parametrize(
    "steps",
    [
        (UNREADABLE, call("add_event", "ok", day="4 May"), SORRY),  # it tried again
        (UNREADABLE, UNREADABLE, UNREADABLE),  # it tried again, in vain: another lesson
        (NOT_THERE, SORRY),  # the error does not say what to do
        (call("cancel", "Error: this fare is not allowed to be cancelled", id="R1"), SORRY),  # a refusal stands
        (call("fetch", "Error: time-out", url="a"), SORRY),
        (UNREADABLE, call("list_events", "none"), SORRY),  # it did look
    ],
)
def test_run_that_tried_or_was_not_told_did_not_give_up(steps: tuple[dict[str, Any], ...]) -> None:
    assert gave_up.find(view(*steps)) == []


def left_out(*steps: dict[str, Any], task: str = "Please create a new event for Monday.") -> ReadRun:
    return ReadRun(make_run(*steps, task=task, tools=("search_events", "create_calendar_event", "delete_event")))


def test_action_that_was_asked_for_and_never_called_is_the_lesson() -> None:
    (finding,) = omitted_action.find(left_out(call("search_events", "[]"), DONE))

    assert finding.trigger == "When the request says to create a calendar event"


@pytest.mark.parametrize(
    "run",
    [
        left_out(call("search_events", "[]"), SORRY),  # it said so
        left_out(call("create_calendar_event", "ok"), DONE),
        left_out(call("search_events", "[]"), DONE, task="If there is none, create an event."),
        left_out(call("search_events", "[]"), DONE, task="Delete the event."),  # no lesson says to delete
        left_out(call("search_events", "Error: down"), DONE),
        left_out(call("search_events", "[]"), DONE, task="I want a new room and an event in it; who can create one?"),
        ReadRun(make_run(call("find"), DONE, task="Book a flight.", tools=("find", "book_flight"))),  # it spends
    ],
)
def test_action_that_is_uncertain_or_harmful_is_not_asked_for(run: ReadRun) -> None:
    assert omitted_action.find(run) == []


def test_question_answered_with_done_is_to_be_answered() -> None:
    run = view(call("search_events", "three"), DONE, task="How many appointments do I have?")

    (finding,) = unanswered_question.find(run)

    assert finding.avoid == "Answering only that it is done."


@pytest.mark.parametrize(
    "run",
    [
        view(call("search_events", "three"), say("Three."), task="How many appointments do I have?"),
        view(call("cancel", "ok"), DONE, task="Cancel my order."),
        view(call("search_events", "three"), DONE, task="How many?", outcome="success"),
    ],
)
def test_question_that_was_answered_or_never_asked_is_ignored(run: ReadRun) -> None:
    assert unanswered_question.find(run) == []


def test_call_that_lost_the_run_is_to_be_compared_with_what_was_read() -> None:
    recipe = "Recipe 1: dice the apple, then fry the apple with the stove, and serve it while it is still hot enough."
    run = view(call("examine", recipe, thing="cookbook"), call("cook", "*** You lost! ***", thing="apple", at="oven"))

    (finding,) = fatal_call.find(replace(run, episode=replace(run.episode, family=(run.episode,))))

    assert finding.trigger == "When about to call `cook`, which cannot be undone"
    assert finding.guideline.startswith('Check every argument against what `examine` of "cookbook" says about it')
    assert [c.quote for c in finding.citations] == [recipe, "*** You lost! ***"]
    assert fatal_call.find(run) == []  # no other run read the same


def test_loss_without_anything_read_before_is_not_explained() -> None:
    assert fatal_call.find(view(call("cook", "*** You lost! ***", thing="apple"))) == []


@pytest.mark.parametrize(
    ("metadata", "limit"),
    [
        ({"exit_status": "submitted (exit_cost)"}, "cost"),
        ({"exit_status": "exit_context"}, "tokens"),
        ({"termination_reason": "max_steps"}, "steps"),
        ({"truncated": True}, "a limit"),
        ({"exit_status": "submitted"}, ""),
        ({}, ""),
    ],
)
def test_limit_is_read_from_the_metadata(metadata: dict[str, Any], limit: str) -> None:
    assert limit_reached(metadata) == limit


@pytest.mark.parametrize(
    "words",
    [
        "Agent stopped due to iteration limit or time limit.",
        "Reached max steps.",
        "Recursion limit of 25 reached without hitting a stop condition.",
        "Max turns (10) exceeded",
    ],
)
def test_limit_is_read_in_the_words_of_a_framework(words: str) -> None:
    limit = view(call("open", f"Error: no\n{words}", door="j")).cut_off

    assert limit
    assert limit in words
