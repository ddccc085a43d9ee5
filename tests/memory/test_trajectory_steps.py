"""What the API and the importer accept as the steps of a run."""

from hashlib import sha256
from typing import Any

import pytest

from memory.errors import InvalidSteps
from memory.limits import MAX_OBSERVATION_CHARS, MAX_STEPS, MAX_TEXT_CHARS
from memory.runs.step_formats import normalise_steps
from memory.runs.steps import parse_action
from tests.memory.chat import call


def test_normalise_own_form_fills_what_is_left_out() -> None:
    steps = normalise_steps([{"thought": "look"}, {"action": {"name": "open"}, "error": "locked"}])

    assert steps == [
        {"index": 1, "thought": "look", "action": None, "observation": "", "error": ""},
        {"index": 2, "thought": "", "action": {"name": "open", "arguments": {}}, "observation": "", "error": "locked"},
    ]


def test_normalise_nothing_gives_no_steps() -> None:
    assert normalise_steps(None) == normalise_steps([]) == normalise_steps({"messages": []}) == []


def test_normalise_arguments_as_json_string_are_read() -> None:
    steps = normalise_steps([{"action": {"name": "open", "arguments": '{"door": 2}'}}])

    assert steps[0]["action"] == {"name": "open", "arguments": {"door": 2}}


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('get_user({"user_id": "u1"})', "get_user", {"user_id": "u1"}),
        ("list_all()", "list_all", {}),
        ("list_all({})", "list_all", {}),
        ("Finish(42)", "Finish", {"input": "42"}),
        ("search[red [wide] shoes (men)]", "search", {"input": "red [wide] shoes (men)"}),
        ("click[< Prev]", "click", {"input": "< Prev"}),
        ("go to desk 1", "go", {"input": "to desk 1"}),
        ("look", "look", {}),
        ('  f({"a": "x\\ny"})  ', "f", {"a": "x\ny"}),
        ('f({"a": 1, ...})', "f", {"input": '{"a": 1, ...}'}),
        ("ls -la (all)", "ls", {"input": "-la (all)"}),
    ],
)
def test_parse_action_reads_string_forms(text: str, name: str, arguments: dict[str, Any]) -> None:
    assert parse_action(text) == {"name": name, "arguments": arguments}


def test_parse_action_blank_is_no_action() -> None:
    assert parse_action("  ") is None


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("search[x]", "steps must be a list of steps or of chat messages, not a string."),
        ({"steps": []}, "steps must be a list of steps or of chat messages, not an object."),
        ({"messages": "hi"}, "steps.messages must be a list of chat messages"),
        ([{}, "search[x]"], "steps[1] must be an object with thought, action and observation, not a string."),
        ([{"thoughts": "x"}], "steps[0] has an unknown member 'thoughts'"),
        ([{}, {}, {}, {"action": {"name": 5}}], "steps[3].action.name must be the tool's name"),
        ([{"action": {"name": " "}}], "steps[0].action.name must be"),
        ([{"action": {"name": "x" * 201}}], "steps[0].action.name is 201 characters long"),
        ([{"action": {"name": "x", "args": {}}}], "steps[0].action has an unknown member 'args'"),
        ([{"action": {"name": "x", "arguments": [1]}}], "steps[0].action.arguments must be an object"),
        ([{"action": 7}], "steps[0].action must be an object with name and arguments, a string or null, not a number"),
        ([{"observation": {"a": 1}}], "steps[0].observation must be a string."),
        ([{"index": 0}], "steps[0].index must be 1"),
        ([{"index": True}], "steps[0].index must be 1"),
        ([{"thought": "x" * (MAX_TEXT_CHARS + 1)}], f"steps[0].thought is {MAX_TEXT_CHARS + 1:,} characters long"),
        ([{}] * (MAX_STEPS + 1), f"steps has {MAX_STEPS + 1} entries"),
        ([{"thought": "a\x00b"}], "steps[0].thought holds a NUL character"),
        ([{"thought": "a\ud800b"}], "steps[0].thought holds half of a surrogate pair"),
        (
            [{"action": {"name": "x", "arguments": {"a": ["\x00"]}}}],
            "steps[0].action.arguments cannot be stored. Leave out the character U+0000. (at /a/0)",
        ),
        (
            [{"action": {"name": "x", "arguments": {"a": float("nan")}}}],
            "steps[0].action.arguments cannot be stored. Send finite numbers",
        ),
        ([{"role": "user", "content": "x"}, {"thought": "x"}], "steps[1].role must be one of"),
        ([{"role": "robot"}], "steps[0].role must be one of"),
        ([{"role": "user", "text": "x"}], "steps[0].content is missing"),
        ([{"role": "user", "content": 5}], "steps[0].content must be a string."),
        ([{"role": "user", "content": [{"texts": "x"}]}], "steps[0].content[0] must be a content part"),
        ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], "steps[0].tool_calls[0].function must be an object"),
        ([{"role": "assistant", "tool_calls": [call("")]}], "steps[0].tool_calls[0].function.name must be"),
        ([{"role": "assistant", "tool_calls": "x"}], "steps[0].tool_calls must be a list."),
    ],
)
def test_normalise_refuses_other_forms_naming_the_place(raw: Any, message: str) -> None:
    with pytest.raises(InvalidSteps) as refused:
        normalise_steps(raw)

    assert str(refused.value).startswith(message)


def test_step_keeps_what_agents_log_besides_and_takes_error_flags() -> None:
    steps = normalise_steps(
        [
            {
                "action": "look",
                "observation": "no light",
                "is_error": True,
                "timestamp": "2026-01-01",
                "metadata": {"a": 1},
            }
        ]
    )

    assert (steps[0]["observation"], steps[0]["error"]) == ("", "no light")
    assert steps[0]["metadata"] == {"a": 1, "timestamp": "2026-01-01"}
    assert normalise_steps(steps) == steps


def test_long_observation_is_cut_in_the_middle_with_its_length_and_hash() -> None:
    text = "start " + "x" * 150_000 + " end"

    steps = normalise_steps([{"action": "cat", "observation": text}])

    kept = steps[0]["observation"]
    assert len(kept) == MAX_OBSERVATION_CHARS
    assert kept.startswith("start x")
    assert kept.endswith("x end")
    assert f"the whole has {len(text):,} characters, sha256 {sha256(text.encode()).hexdigest()[:16]}" in kept
    assert normalise_steps(steps) == steps


def test_normalise_refuses_arguments_nested_too_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"a": deep}

    with pytest.raises(InvalidSteps, match=r"steps\[0\].action.arguments cannot be stored. Nest at most 32"):
        normalise_steps([{"action": {"name": "x", "arguments": deep}}])
