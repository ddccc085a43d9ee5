"""Servers that follow OpenAI's format loosely: their answers are read, whole and streamed, and a page is no answer."""

import json
from typing import Any

import pytest

from reflection.llm.base import ProviderError
from tests.reflection.providers.asking import REQUEST, Make, failure_of
from tests.reflection.providers.chatting import chat_request, failure_of_chat
from tests.scripted_answers import Behaviour, raw
from tests.scripted_provider import ScriptedProvider

STREAM = {"Content-Type": "text/event-stream"}
ORDER = '{"order": "A1"}'
PAGE = b"<!doctype html>\n<html><title>Sign in</title></html>"
FUNCTION = {"name": "get_order", "arguments": ORDER}


def event(choices: Any, **members: Any) -> str:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **members}
    return f"data: {json.dumps(chunk)}\n\n"


def said(delta: dict[str, Any], finish: Any = None) -> str:
    return event([{"index": 0, "delta": delta, "finish_reason": finish}])


def streams(*events: str) -> Behaviour:
    return raw("".join([*events, "data: [DONE]\n\n"]).encode(), headers=STREAM)


def answers(message: dict[str, Any], finish: Any = "stop") -> Behaviour:
    return raw(json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode())


def call(arguments: Any) -> dict[str, Any]:
    return {"index": 0, "id": "c1", "type": "function", "function": {"name": "get_order", "arguments": arguments}}


@pytest.mark.parametrize(
    "behaviour",
    [
        streams("\ufeff" + said({"content": "Fi"}), said({"content": "ne."}), said({}, "stop")),
        streams("data:\n\n", said({"content": "Fi"}), "data: \r\n\r\n", said({"content": "ne."}), said({}, "stop")),
        streams(said({"content": "Fi"}), said({"content": "ne."}), said({}, 0)),
        streams(event([]), event(None), said({"content": "Fine."}), said({}, "stop"), event([])),
    ],
    ids=["byte-order mark", "empty data", "numeric end", "no choices"],
)
def test_words_of_a_loose_server_are_read(behaviour: Behaviour, server: ScriptedProvider, make: Make) -> None:
    server.script(behaviour)

    answer = make("openai").chat(chat_request(), on_text=print)

    assert (answer.text, answer.finish_reason) == ("Fine.", "stop")


def test_numeric_end_of_a_whole_answer_is_an_end(server: ScriptedProvider, make: Make) -> None:
    server.script(answers({"content": "Fine."}, finish=0))

    assert make("openai").chat(chat_request()).finish_reason == "stop"


@pytest.mark.parametrize("arguments", [json.dumps(ORDER), json.dumps(json.dumps(ORDER)), f"```json\n{ORDER}\n```"])
@pytest.mark.parametrize("kind", ["openai", "groq"])
def test_arguments_in_a_wrapping_are_read(arguments: str, kind: str, server: ScriptedProvider, make: Make) -> None:
    server.script(answers({"tool_calls": [call(arguments)]}), streams(said({"tool_calls": [call(arguments)]}, "stop")))

    whole, streamed = (make(kind).chat(chat_request(), on_text=each) for each in (None, print))

    assert [answer.tool_calls[0].arguments for answer in (whole, streamed)] == [{"order": "A1"}] * 2


@pytest.mark.parametrize(
    "behaviour",
    [
        answers({"content": None, "function_call": FUNCTION}, finish="function_call"),
        streams(
            said({"role": "assistant", "function_call": {"name": "get_order", "arguments": ""}}),
            said({"function_call": {"arguments": ORDER[:5]}}),
            said({"function_call": {"arguments": ORDER[5:]}}),
            said({}, "function_call"),
        ),
    ],
    ids=["whole", "streamed"],
)
def test_call_in_the_older_member_is_read(behaviour: Behaviour, server: ScriptedProvider, make: Make) -> None:
    server.script(behaviour)

    answer = make("openai").chat(chat_request(), on_text=print)

    assert [(each.name, each.arguments) for each in answer.tool_calls] == [("get_order", {"order": "A1"})]
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("choices", [[], None])
def test_answer_without_choices_is_none(choices: Any, server: ScriptedProvider, make: Make) -> None:
    server.script(raw(json.dumps({"choices": choices}).encode()))

    error = failure_of(make("openai"))

    assert (error.code, error.transient) == ("bad_envelope", True)


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [("1500", 1.5), ("soon", 7.0), ("-5", 0.0), ("99999999999", 3600.0)]
)
def test_wait_in_milliseconds_is_kept(milliseconds: str, seconds: float, server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b"{}", status=429, headers={"retry-after-ms": milliseconds, "retry-after": "7"}))

    assert failure_of(make("openai")).retry_after_seconds == seconds


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "mistral"])
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/json"])
def test_page_is_a_wrong_address(kind: str, content_type: str, server: ScriptedProvider, make: Make) -> None:
    server.script(*[raw(PAGE, headers={"Content-Type": content_type})] * 2)
    provider = make(kind, timeout_seconds=9.0)

    errors: list[ProviderError] = [failure_of(provider, REQUEST), failure_of_chat(provider)]

    assert {(error.code, error.transient) for error in errors} == {("not_an_api", False)}
    assert all(f"127.0.0.1:{server.port}" in str(error) and "a web page" in str(error) for error in errors)
