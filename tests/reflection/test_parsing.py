"""Answers of a model: what can be used, and the reason for everything that cannot."""

import json
from typing import Any

import pytest

from reflection.reflectors.llm_answer import LessonAnswer, UnusableAnswer, answer_schema, parse_answer
from tests.scripted_answers import lesson


def parse(text: str | dict[str, Any], *, finish_reason: str = "stop", max_lessons: int = 1) -> tuple[LessonAnswer, ...]:
    if not isinstance(text, str):
        text = json.dumps(text)
    return parse_answer(text, finish_reason=finish_reason, max_lessons=max_lessons, labels=("H1", "H2"))


def code_of(text: str | dict[str, Any], *, finish_reason: str = "stop", max_lessons: int = 1) -> str:
    with pytest.raises(UnusableAnswer) as caught:
        parse(text, finish_reason=finish_reason, max_lessons=max_lessons)
    return caught.value.code


def test_complete_answer_is_read() -> None:
    (answer,) = parse(lesson())

    assert answer.trigger == "When a customer asks to change a flight"
    assert answer.evidence_steps == (1, 2)
    assert answer.covers_existing is None


@pytest.mark.parametrize(
    "wrap",
    [
        "```json\n{}\n```",
        "```\n{}\n```",
        "  \n{}\n ",
        "\n```JSON\n{}\n```\n",
        "``` json\n{}\n```".replace("``` ", "```"),
    ],
)
def test_code_fence_and_white_space_are_forgiven(wrap: str) -> None:
    (answer,) = parse(wrap.replace("{}", json.dumps(lesson())))

    assert answer.learn


def test_answer_without_a_lesson_is_read() -> None:
    (answer,) = parse({"learn": False, "skip_reason": "Nothing new."})

    assert (answer.learn, answer.skip_reason) == (False, "Nothing new.")


def test_answer_may_name_an_existing_heuristic_alone() -> None:
    (answer,) = parse({"learn": True, "covers_existing": "H2", "evidence_steps": [1]})

    assert answer.covers_existing == "H2"


@pytest.mark.parametrize(
    "text",
    [
        "Sure! The agent should have asked first.",
        f"Here it is: {json.dumps(lesson())}",
        f"{json.dumps(lesson())} I hope this helps.",
        f"<think>Hm.</think>{json.dumps(lesson())}",
        f"{json.dumps(lesson())}{json.dumps(lesson())}",
        '{"learn": true, "trigger": "When a cust',
        "{'learn': true}",
        '{"learn": true,}',
        "[]",
        "null",
        '"text"',
        "12",
        "[" * 100_000,
        '{"learn": false, "learn": true}',
        '{"learn": false, "confidence": NaN}',
        '{"learn": false, "confidence": 1e400}',
        '{"learn": false, "skip_reason": "\\u0000"}',
        '{"learn": false, "skip_reason": "\\ud800"}',
        '{"\\u0000": false}',
        '{"learn": false, "skip_reason": "' + "x" * 10_000 + '"}',
        '{"learn": false, "evidence_steps": [' + "1," * 5_000 + "1]}",
        '{"learn": false, "confidence": ' + "9" * 5_000 + "}",
    ],
)
def test_anything_but_one_json_object_is_unusable(text: str) -> None:
    assert code_of(text) == "not_json"


def test_replacement_character_is_unusable() -> None:
    assert code_of('{"learn": false, "skip_reason": "a\ufffdb"}') == "not_storable"


@pytest.mark.parametrize(
    "changed",
    [
        {"learn": "true"},
        {"learn": None},
        {"learn": 1},
        {"trigger": ["When"]},
        {"trigger": ""},
        {"action": "  "},
        {"trigger": None},
        {"polarity": "good"},
        {"tools": "search"},
        {"tools": [1]},
        {"evidence_steps": ["1"]},
        {"evidence_steps": [1.5]},
        {"evidence_steps": [True]},
        {"evidence_steps": 1},
        {"confidence": 1.1},
        {"confidence": -0.1},
        {"confidence": "0.5"},
        {"covers_existing": 1},
        {"surprise": "x"},
        {"__class__": "x"},
        {"lessons": []},
    ],
)
def test_wrong_shape_is_unusable(changed: dict[str, Any]) -> None:
    assert code_of(lesson(**changed)) == "wrong_shape"


def test_missing_decision_is_unusable() -> None:
    assert code_of({"trigger": "When", "action": "Do"}) == "wrong_shape"


def test_reason_names_the_place() -> None:
    with pytest.raises(UnusableAnswer, match=r"evidence_steps\.0"):
        parse(lesson(evidence_steps=["one"]))


@pytest.mark.parametrize("steps", [[0], [-1], [10**7]])
def test_number_that_can_be_no_step_is_unusable(steps: list[int]) -> None:
    assert code_of(lesson(evidence_steps=steps)) == "no_such_step"


def test_unknown_label_is_unusable() -> None:
    assert code_of(lesson(covers_existing="H3")) == "no_such_label"


@pytest.mark.parametrize(
    ("finish_reason", "text", "code"),
    [
        ("length", '{"learn": true, "trig', "cut_off"),
        ("refusal", "", "refusal"),
        ("stop", "", "empty"),
        ("stop", " \n", "empty"),
    ],
)
def test_answer_that_did_not_finish_is_unusable(finish_reason: str, text: str, code: str) -> None:
    assert code_of(text, finish_reason=finish_reason) == code


def test_cut_off_answer_is_unusable_even_if_it_parses() -> None:
    assert code_of(lesson(), finish_reason="length") == "cut_off"


# ── Several lessons ───────────────────────────────────────────────────────────────────────────────────────────────
def test_several_lessons_are_read() -> None:
    answers = parse({"lessons": [lesson(), lesson(trigger="When else")]}, max_lessons=3)

    assert [answer.trigger for answer in answers] == ["When a customer asks to change a flight", "When else"]


def test_no_lessons_are_none() -> None:
    assert parse({"lessons": []}, max_lessons=3) == ()


@pytest.mark.parametrize("document", [{"lessons": [lesson()] * 4}, lesson(), {"lessons": {}}, {}])
def test_too_many_or_wrongly_wrapped_lessons_are_unusable(document: dict[str, Any]) -> None:
    assert code_of(document, max_lessons=3) == "wrong_shape"


# ── Schema ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_schema_and_model_have_the_same_members() -> None:
    assert list(answer_schema(1)["properties"]) == list(LessonAnswer.model_fields)


@pytest.mark.parametrize("schema", [answer_schema(1), answer_schema(3)["properties"]["lessons"]["items"]])
def test_schema_is_closed_as_strict_mode_requires(schema: dict[str, Any]) -> None:
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
