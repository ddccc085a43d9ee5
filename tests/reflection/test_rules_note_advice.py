"""Advice from the notes of real agents about their own runs."""

import pytest

from memory.heuristics.text import RULE_TAG
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.rules.detectors.recorded_notes import find
from reflection.reflectors.rules.note_advice import read_advice
from tests.reflection.rules_runs import call, make_run, view

PLATE = (
    "In this environment, my plan was to find a plate then clean it with sinkbasin, then put it in countertop. "
    "However, I forgot to put the plate in/on countertop after cleaning it. In the next trial, I will go to sinkbasin "
    "1, clean the plate 2, then go to countertop 2 and put the plate 2 in/on countertop 2."
)
LOOP = (
    "I was stuck in a loop in which I continually went to desk 1. I will try to execute a different action if I am "
    "stuck in a loop again."
)


def test_resolution_becomes_advice_on_the_plan_it_is_about() -> None:
    advice = read_advice(PLATE)

    assert advice is not None
    assert advice.condition == "the plan is to find a plate then clean it with sinkbasin, then put it in countertop"
    assert advice.what == "Go to sinkbasin, clean the plate, then go to countertop and put the plate in/on countertop."


def test_condition_of_a_resolution_is_addressed_to_the_reader() -> None:
    advice = read_advice(LOOP)

    assert advice is not None
    assert (advice.condition, advice.what) == ("you are stuck in a loop", "Try to execute a different action.")


@pytest.mark.parametrize(
    "note",
    [
        "The run was slow.",
        "The implementation is incorrect because it always returns the first element.",
        "The implementation is correct; the test cases should be fixed.",
        "I should have cancelled order W123 first.",
        "The function should keep exactly 3 of them.",
    ],
)
def test_note_useful_only_in_its_run_gives_no_advice(note: str) -> None:
    assert read_advice(note) is None


@pytest.mark.parametrize(
    ("score", "polarities"), [(0.9, ["works"]), (0.85, ["works"]), (0.6, []), (0.5, []), (0.49, ["avoid"])]
)
def test_score_decides_which_notes_become_rules(score: float, polarities: list[str]) -> None:
    run = view(
        task_id="airline",
        score=score,
        outcome="unknown",
        successes=("Read the fare rules before offering a change",),
        mistakes=("The fare rules should be read first",),
    )

    assert [finding.polarity for finding in find(run)] == polarities


def test_number_of_a_family_is_kept() -> None:
    run = make_run(task="Book it", task_id="ledger-2024", successes=("Read the fare rules first",), outcome="success")

    (lesson,) = RulesReflector().reflect(run).lessons

    assert lesson.text.trigger == "When the task is of the kind ledger 2024"


def test_episode_without_steps_gives_its_notes_to_its_family() -> None:
    episode = make_run(
        task="Refund order W123",
        task_id="airline",
        score=1.0,
        outcome="success",
        successes=("Read the fare rules before offering a change", "Ask for the user ID before anything else"),
    )

    lessons = RulesReflector(max_lessons=1).reflect(episode, near=()).lessons

    assert [lesson.text.guideline for lesson in lessons] == [
        "Read the fare rules before offering a change.",
        "Ask for the user ID before anything else.",
    ]
    assert {(lesson.text.trigger, lesson.text.scope, lesson.text.task_id) for lesson in lessons} == {
        ("When the task is of the kind airline", "task_family", "airline")
    }
    assert all(RULE_TAG in lesson.text.tags for lesson in lessons)


def test_reason_for_no_lesson_does_not_deny_the_notes_of_a_run() -> None:
    noted = make_run(call("look"), mistakes=("I was unlucky.",))

    result, without = RulesReflector().reflect(noted), RulesReflector().reflect(make_run(call("look")))

    assert "no recorded note fits how the run ended and says what to do" in result.skip_reason
    assert "no note was recorded" in without.skip_reason
