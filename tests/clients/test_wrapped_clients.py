"""Calls of the real SDKs of OpenAI and Anthropic, captured by the run they are made in."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from erl_client import ERL

from memory.runs.models import Trajectory
from tests.scripted_answers import Behaviour, answer, fails, raw
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


TASK = "Cancel reservation EHGLP3."
TOOL = {"name": "get_reservation", "description": "Reads it.", "parameters": {"type": "object", "properties": {}}}
OPENAI_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_reservation", "arguments": '{"id": "EHGLP3"}'},
}
ANTHROPIC_CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_reservation", "input": {"id": "EHGLP3"}}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def openai_answer(message: dict[str, Any]) -> Behaviour:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": USAGE}
    return raw(json.dumps(body).encode())


def anthropic_answer(*content: dict[str, Any]) -> Behaviour:
    usage = {"input_tokens": 10, "output_tokens": 5}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": content, "usage": usage}
    return raw(json.dumps({**body, "stop_reason": "end_turn", "stop_sequence": None}).encode())


def events(*data: dict[str, Any], last: str = "") -> Behaviour:
    lines = [f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in data]
    return raw("".join([*lines, last]).encode(), headers={"Content-Type": "text/event-stream"})


def chunk(**delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


@pytest.fixture
def openai_sdk(erl: ERL, provider: ScriptedProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="k", max_retries=0) as client:
        assert erl.wrap(client) is client
        yield client


@pytest.fixture
def anthropic_sdk(erl: ERL, provider: ScriptedProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="k", max_retries=0) as client:
        yield erl.wrap(erl.wrap(client))


def recorded(erl: ERL) -> Trajectory:
    assert erl.flush()
    return Trajectory.objects.get()


def actions(run: Trajectory) -> list[Any]:
    return [step["action"] for step in run.steps if step["action"]]


GET = {"name": "get_reservation", "arguments": {"id": "EHGLP3"}}
SAY = {"name": "respond", "arguments": {"content": "It cannot be cancelled."}}


def test_openai_loop_becomes_one_run(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    provider.script(openai_answer({"content": None, "tool_calls": [OPENAI_CALL]}))
    provider.script(openai_answer({"content": "It cannot be cancelled."}))
    messages: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": TASK}]
    tools: Any = [{"type": "function", "function": TOOL}]

    with erl.run(TASK) as run:
        first = openai_sdk.chat.completions.create(model="m", messages=messages, tools=tools)
        messages.append(first.choices[0].message)
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "basic economy"})
        openai_sdk.chat.completions.create(model="m", messages=messages, tools=tools)
        run.success()

    stored = recorded(erl)
    assert actions(stored) == [GET, SAY]
    assert stored.steps[1]["observation"] == "basic economy"
    assert (stored.tokens, stored.model, stored.tools) == (30, "m-1", tools)
    assert str(stored.system_prompt) == "Be kind."


def test_anthropic_loop_becomes_one_run(
    erl: ERL, provider: ScriptedProvider, anthropic_sdk: anthropic.Anthropic
) -> None:
    provider.script(anthropic_answer({"type": "text", "text": "I look."}, ANTHROPIC_CALL))
    provider.script(anthropic_answer({"type": "text", "text": "It cannot be cancelled."}))
    messages: list[Any] = [{"role": "user", "content": TASK}]

    with erl.run(TASK) as run:
        first = anthropic_sdk.messages.create(model="m", max_tokens=9, messages=messages, system="Be kind.")
        messages.append({"role": "assistant", "content": first.content})
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such thing", "is_error": True}
        messages.append({"role": "user", "content": [result]})
        anthropic_sdk.messages.create(model="m", max_tokens=9, messages=messages)
        run.failure(reason="Basic economy.")

    stored = recorded(erl)
    assert actions(stored) == [GET, SAY]
    assert stored.steps[1]["thought"] == "I look."
    assert stored.steps[1]["error"] == "no such thing"
    assert stored.steps[-1]["error"] == "Basic economy."
    assert (stored.tokens, str(stored.system_prompt)) == (30, "Be kind.")


def test_openai_responses_are_captured(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    text = {"type": "output_text", "text": "It cannot be cancelled.", "annotations": []}
    output = [
        {"type": "message", "id": "1", "role": "assistant", "status": "completed", "content": [text]},
    ]
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m-1", "output": output, "tools": []}
    provider.script(raw(json.dumps(body).encode()))

    with erl.run(TASK):
        openai_sdk.responses.create(model="m", input=TASK)

    assert actions(recorded(erl)) == [SAY]


def test_streamed_openai_answer_is_captured(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    begin = {**OPENAI_CALL, "index": 0, "function": {"name": "get_reservation", "arguments": '{"id": '}}
    end = {"index": 0, "function": {"arguments": '"EHGLP3"}'}}
    chunks = [chunk(role="assistant", content="I "), chunk(content="look."), chunk(tool_calls=[begin])]
    provider.script(events(*chunks, chunk(tool_calls=[end]), last="data: [DONE]\n\n"))

    with erl.run(TASK):
        stream = openai_sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": TASK}], stream=True
        )
        said = [part.choices[0].delta.content for part in stream]

    assert said[:2] == ["I ", "look."]
    stored = recorded(erl)
    assert actions(stored) == [GET]
    assert stored.steps[1]["thought"] == "I look."


def test_streamed_anthropic_answer_is_captured(
    erl: ERL, provider: ScriptedProvider, anthropic_sdk: anthropic.Anthropic
) -> None:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [],
        "stop_reason": None,
    }
    usage = {"input_tokens": 10, "output_tokens": 1}
    partial = {"type": "input_json_delta", "partial_json": '{"id": "EHGLP3"}'}
    provider.script(
        events(
            {"type": "message_start", "message": {**message, "stop_sequence": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {**ANTHROPIC_CALL, "input": {}}},
            {"type": "content_block_delta", "index": 0, "delta": partial},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )
    )
    messages: list[Any] = [{"role": "user", "content": TASK}]

    with erl.run(TASK), anthropic_sdk.messages.create(model="m", max_tokens=9, messages=messages, stream=True) as them:
        kinds = [event.type for event in them]

    assert kinds[-1] == "message_stop"
    stored = recorded(erl)
    assert actions(stored) == [GET]
    assert stored.tokens == 15


def test_stream_helpers_of_both_sdks_are_captured(
    erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI, anthropic_sdk: anthropic.Anthropic
) -> None:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [],
        "stop_reason": None,
    }
    begin = {**message, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    provider.script(
        events(chunk(role="assistant", content="It cannot be "), chunk(content="cancelled."), last="data: [DONE]\n\n"),
        events(
            {"type": "message_start", "message": begin},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Ask again."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_stop"},
        ),
    )
    question: list[Any] = [{"role": "user", "content": TASK}]

    with erl.run(TASK):
        with openai_sdk.chat.completions.stream(model="m", messages=question) as chunks:
            assert [event for event in chunks if event.type == "content.delta"]
        with anthropic_sdk.messages.stream(model="m", max_tokens=9, messages=question) as stream:
            assert stream.get_final_text() == "Ask again."

    assert actions(recorded(erl)) == [SAY, {"name": "respond", "arguments": {"content": "Ask again."}}]


def test_call_that_failed_is_told_and_raised(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    provider.script(fails(429))

    with pytest.raises(openai.RateLimitError), erl.run(TASK):
        openai_sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": TASK}])

    assert recorded(erl).steps[-1]["error"].startswith("RateLimitError")


def test_calls_outside_of_a_run_are_left_alone(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    provider.script(answer("Hello."), answer("Hello."))

    openai_sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Outside"}])
    with erl.run(TASK):
        openai_sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Inside"}])

    assert recorded(erl).steps[0]["observation"] == "Inside"


def test_raw_responses_are_captured(erl: ERL, provider: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    provider.script(openai_answer({"content": "It cannot be cancelled."}))

    with erl.run(TASK):
        response = openai_sdk.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": TASK}]
        )

    assert response.parse().choices[0].message.content == "It cannot be cancelled."
    assert actions(recorded(erl)) == [SAY]


def test_what_cannot_be_wrapped_comes_back_as_it_was(erl: ERL, caplog: pytest.LogCaptureFixture) -> None:
    thing = object()

    assert erl.wrap(thing) is thing
    assert "object cannot be captured" in caplog.text
