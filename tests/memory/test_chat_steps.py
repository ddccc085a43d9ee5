"""What becomes of the messages of a chat log."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.runs.step_formats import normalise_steps
from tests.memory.chat import call
from tests.real_runs import load_all_runs, load_native_runs

EMPTY = {"thought": "", "action": None, "observation": "", "error": ""}


def without_index(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in step.items() if name != "index"} for step in steps]


def test_normalise_chat_text_becomes_respond_with_the_answer_heard() -> None:
    steps = normalise_steps(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Who are you?"},
            {"role": "user", "content": "Ana"},
        ]
    )

    assert without_index(steps) == [
        {**EMPTY, "observation": "Hello"},
        {**EMPTY, "action": {"name": "respond", "arguments": {"content": "Who are you?"}}, "observation": "Ana"},
    ]


def test_normalise_chat_text_beside_a_call_becomes_its_thought() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "content": "I look it up.", "tool_calls": [call("find", '{"q": "x"}')]},
            {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "nothing"},
        ]
    )

    assert without_index(steps) == [
        {
            "thought": "I look it up.",
            "action": {"name": "find", "arguments": {"q": "x"}},
            "observation": "nothing",
            "error": "",
        }
    ]


def test_normalise_chat_several_calls_are_matched_by_id() -> None:
    steps = normalise_steps(
        {
            "messages": [
                {"role": "assistant", "content": None, "tool_calls": [call("a", id_="1"), call("b", id_="2")]},
                {"role": "tool", "tool_call_id": "2", "content": "from b"},
                {"role": "tool", "tool_call_id": "1", "content": "from a"},
            ]
        }
    )

    assert [(step["action"]["name"], step["observation"]) for step in steps] == [("a", "from a"), ("b", "from b")]


def test_normalise_chat_unmatched_result_is_kept_as_its_own_step() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "tool_calls": [call("a", id_="1")]},
            {"role": "tool", "tool_call_id": "9", "content": "stray"},
        ]
    )

    assert [(step["action"] and step["action"]["name"], step["observation"]) for step in steps] == [
        ("a", ""),
        (None, "stray"),
    ]


def test_normalise_chat_second_result_for_a_call_is_kept() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "tool_calls": [call("a", id_="1")]},
            {"role": "tool", "tool_call_id": "1", "content": "first"},
            {"role": "tool", "tool_call_id": "1", "content": "second"},
        ]
    )

    assert [step["observation"] for step in steps] == ["first", "second"]


def test_normalise_chat_legacy_function_call_is_matched_by_name() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"x": 1}'}},
            {"role": "function", "name": "f", "content": "done"},
        ]
    )

    assert without_index(steps) == [{**EMPTY, "action": {"name": "f", "arguments": {"x": 1}}, "observation": "done"}]


def test_normalise_chat_broken_arguments_are_kept_as_written() -> None:
    steps = normalise_steps([{"role": "assistant", "tool_calls": [call("f", '{"x": ')]}])

    assert steps[0]["action"] == {"name": "f", "arguments": {"input": '{"x": '}}


def test_normalise_chat_custom_tool_input_is_an_argument() -> None:
    steps = normalise_steps(
        [{"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}]
    )

    assert steps[0]["action"] == {"name": "sh", "arguments": {"input": "ls"}}


def test_normalise_chat_content_parts_are_joined_and_files_named() -> None:
    steps = normalise_steps(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},
        ]
    )

    assert steps[0]["observation"] == "See\n[image image/png, 3 bytes, sha256 709e80c88487a241]"
    assert steps[1]["action"]["arguments"] == {"content": "I will not."}


def test_normalise_chat_two_user_messages_are_both_heard() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": "One"},
            {"role": "user", "content": "Two"},
        ]
    )

    assert steps[0]["observation"] == "One\n\nTwo"


def test_normalise_chat_user_message_after_a_call_is_its_own_step() -> None:
    steps = normalise_steps(
        [
            {"role": "assistant", "tool_calls": [call("f")]},
            {"role": "user", "content": "Stop!"},
            {"role": "tool", "tool_call_id": "c1", "content": "late"},
        ]
    )

    assert [step["observation"] for step in steps] == ["late", "Stop!"]


def test_normalise_chat_reasoning_is_the_thought() -> None:
    steps = normalise_steps([{"role": "assistant", "reasoning_content": "hm", "content": "Hi", "tool_calls": None}])

    assert steps[0]["thought"] == "hm"
    assert steps[0]["action"] == {"name": "respond", "arguments": {"content": "Hi"}}


texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "content": texts}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": texts}),
        st.builds(
            lambda text, ids: {"role": "assistant", "content": text, "tool_calls": [call("f", id_=i) for i in ids]},
            texts,
            st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.sampled_from("abcd"), "content": texts}),
    ),
    max_size=12,
)


@given(messages)
def test_normalise_chat_loses_no_text(chat: list[dict[str, Any]]) -> None:
    kept = json.dumps(normalise_steps(chat), ensure_ascii=False)

    assert [m for m in chat if json.dumps(m["content"], ensure_ascii=False)[1:-1] not in kept] == []


@given(messages)
def test_normalise_twice_changes_nothing(chat: list[dict[str, Any]]) -> None:
    once = normalise_steps(chat)

    assert normalise_steps(once) == once


def test_normalise_real_runs_keeps_every_step() -> None:
    runs = load_all_runs()

    assert len(runs) >= 52
    assert [len(normalise_steps(run["steps"])) for run in runs] == [len(run["steps"]) for run in runs]


def test_normalise_real_runs_keeps_every_observation() -> None:
    runs = load_all_runs()

    kept = [[step["observation"] for step in normalise_steps(run["steps"])] for run in runs]

    assert kept == [[step["observation"] for step in run["steps"]] for run in runs]


def test_normalise_native_runs_equal_their_converted_form() -> None:
    converted = {(run["metadata"].get("task_id"), run["metadata"].get("trial")): run for run in load_all_runs()}
    native = load_native_runs()

    from_chat = [without_index(normalise_steps(run["traj"])[1:]) for run in native]

    assert len(native) >= 2
    assert from_chat == [
        without_index(normalise_steps(converted[run["task_id"], run["trial"]]["steps"])) for run in native
    ]
