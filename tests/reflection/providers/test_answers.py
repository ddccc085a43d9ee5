"""How both adapters read answers."""

import json
from typing import Any

import pytest

from reflection.llm.base import Provider, estimate_tokens
from reflection.llm.chat import TOKENS_AROUND, ChatAnswer
from tests.reflection.providers.asking import REQUEST, Make
from tests.scripted_answers import MODEL, Behaviour, answer, cut_off, empty, lesson, nul, prose, raw, refuses
from tests.scripted_provider import ScriptedProvider


def test_answer_is_returned_with_its_ledger_figures(server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer(lesson(), input_tokens=321, output_tokens=45))

    completion = provider.chat(REQUEST)

    assert completion.text.startswith('{"learn": true')
    assert completion.finish_reason == "stop"
    assert (completion.input_tokens, completion.output_tokens) == (321, 45)
    assert completion.model == MODEL
    assert completion.latency_ms > 0


@pytest.mark.parametrize(
    ("behaviour", "text", "finish_reason"),
    [
        (cut_off(), '{"learn": true, "skip_reason": "", "trigger": "When a cust', "length"),
        (prose(), "Sure! The agent should have looked the reservation up before changing it.", "stop"),
        (empty(), "", "stop"),
        (nul(), "a�b�c", "stop"),
    ],
    ids=["cut_off", "prose", "empty", "nul"],
)
def test_odd_answers_come_back_as_they_are(
    behaviour: Behaviour, text: str, finish_reason: str, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(behaviour)

    completion = provider.chat(REQUEST)

    assert (completion.text, completion.finish_reason) == (text, finish_reason)


def test_refusal_is_named(server: ScriptedProvider, provider: Provider) -> None:
    server.script(refuses())

    assert provider.chat(REQUEST).finish_reason == "refusal"


def test_openai_content_filter_is_named(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("", finish="refusal"))

    assert make("openai").chat(REQUEST).finish_reason == "content_filter"


def test_answer_without_usage_is_counted_by_estimate(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}]}'))

    completion = make("openai").chat(REQUEST)

    assert completion.output_tokens == 3
    assert completion.input_tokens == estimate_tokens("Be brief.\nWhat now?") + 2 * TOKENS_AROUND + 1


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 5.0, "completion_tokens": 3.5}, (5, 3)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": [], "cost": "free"}, (5, 3)),
        ({"prompt_tokens": None, "completion_tokens": None}, (None, 1)),
        ({"prompt_tokens": "5", "completion_tokens": "3"}, (None, 1)),
        ({"prompt_tokens": 10**15, "completion_tokens": 10**15}, (None, 1)),
        ([], (None, 1)),
    ],
)
def test_odd_usage_is_read_or_estimated(
    usage: Any, counted: tuple[int | None, int], server: ScriptedProvider, make: Make
) -> None:
    choice = {"message": {"content": "x"}, "finish_reason": "stop"}
    server.script(raw(json.dumps({"choices": [choice], "usage": usage}).encode()))

    completion = make("openai").chat(REQUEST)

    estimated = REQUEST.estimated_input_tokens
    assert (completion.input_tokens, completion.output_tokens) == (counted[0] or estimated, counted[1])


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of a count that is no whole number
def test_odd_usage_in_a_stream_is_read(server: ScriptedProvider, make: Make) -> None:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    usage = {"prompt_tokens": 5.0, "completion_tokens": 3.5, "total_tokens": 8.5}
    event = f"data: {json.dumps(chunk | {'usage': usage})}\n\ndata: [DONE]\n\n"
    server.script(raw(event.encode(), headers={"Content-Type": "text/event-stream"}))

    answer = make("openai").chat(REQUEST, on_text=print)

    assert (answer.text, answer.input_tokens, answer.output_tokens) == ("x", 5, 3)


def test_completion_is_a_value() -> None:
    completion = ChatAnswer(text="a", finish_reason="stop", input_tokens=1, output_tokens=1, model="m", latency_ms=1.0)

    with pytest.raises(AttributeError):
        completion.text = "b"  # type: ignore[misc]
