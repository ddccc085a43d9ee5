"""What the reflector that asks a model makes of its answers."""

import pytest
from django.test import override_settings

from memory.heuristics.text import Citation
from reflection.reflectors.base import ReflectionResult
from reflection.reflectors.checks import verify
from tests.reflection.episodes import make_episode
from tests.reflection.llm_reflector.reflecting import NEAR, reflect
from tests.scripted_answers import answer, lesson
from tests.scripted_provider import ScriptedProvider


def test_answer_becomes_a_proposed_lesson(server: ScriptedProvider) -> None:
    server.script(answer(lesson(not_when="It was read already.")))

    (proposed,) = reflect().lessons

    assert proposed.text.trigger == "When a customer asks to change a flight"
    assert proposed.text.guideline.startswith("Call get_reservation_details first")
    assert proposed.text.not_when == "It was read already."
    assert proposed.text.polarity == "avoid"
    assert proposed.text.rationale.startswith("Look the reservation up first. The agent changed")
    assert (proposed.text.scope, proposed.text.task_id) == ("task_family", "flight-change")
    assert proposed.text.source_task == make_episode().task
    assert proposed.text.tags == ("flight change",)
    assert proposed.confidence == 0.8


def test_proposed_lesson_passes_the_checks(server: ScriptedProvider) -> None:
    server.script(answer(lesson()))

    (proposed,) = reflect().lessons

    assert verify(proposed, make_episode()) == ()


def test_quotes_come_from_the_run_and_neighbouring_steps_are_one_range(server: ScriptedProvider) -> None:
    server.script(answer(lesson(evidence_steps=[3, 1, 1])))

    (proposed,) = reflect().lessons

    assert proposed.citations == (
        Citation(first_step=1, last_step=1, quote="Error: basic economy cannot be modified"),
        Citation(first_step=3, last_step=3, quote="The customer leaves."),
    )


def test_run_without_a_family_teaches_the_project(server: ScriptedProvider) -> None:
    server.script(answer(lesson()))

    (proposed,) = reflect(make_episode(task_id="")).lessons

    assert proposed.text.scope == "project"


def test_run_without_steps_is_its_own_evidence(server: ScriptedProvider) -> None:
    server.script(answer(lesson(evidence_steps=[])))

    (proposed,) = reflect(make_episode(steps=(), summary="It failed.")).lessons

    assert proposed.citations == (Citation(),)


def test_nothing_to_learn_is_an_answer(server: ScriptedProvider) -> None:
    server.script(answer({"learn": False, "skip_reason": "Any expert knows this."}))

    result = reflect()

    assert result == ReflectionResult(lessons=(), skip_reason="Any expert knows this.")
    assert len(server.requests) == 1


def test_silent_refusal_to_learn_gets_a_reason(server: ScriptedProvider) -> None:
    server.script(answer({"learn": False}))

    assert reflect().skip_reason == "The model found nothing to learn in this run."


def test_existing_heuristic_is_named_by_its_id(server: ScriptedProvider) -> None:
    server.script(answer(lesson(covers_existing="H1")))

    (proposed,) = reflect(near=(NEAR,)).lessons

    assert proposed.covers_existing == NEAR.id


@pytest.mark.parametrize("learn", [True, False])
def test_named_heuristic_lends_its_words(learn: bool, server: ScriptedProvider) -> None:
    server.script(answer({"learn": learn, "covers_existing": "H1", "evidence_steps": [1]}))

    (proposed,) = reflect(near=(NEAR,)).lessons

    assert (proposed.text.trigger, proposed.text.guideline) == (NEAR.trigger, NEAR.guideline)


def test_several_lessons_when_the_setting_says_so(server: ScriptedProvider) -> None:
    server.script(answer({"lessons": [lesson(), lesson(learn=False), lesson(trigger="When an error says so")]}))

    with override_settings(ERL_LESSONS_PER_TRAJECTORY=3):
        result = reflect()

    assert [each.text.trigger for each in result.lessons] == [
        "When a customer asks to change a flight",
        "When an error says so",
    ]
