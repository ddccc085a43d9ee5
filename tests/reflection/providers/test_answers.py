"""How both adapters read answers."""

import pytest

from reflection.llm.base import Completion, Provider, estimate_tokens
from reflection.llm.chat import TOKENS_AROUND
from tests.reflection.providers.asking import REQUEST, Make
from tests.scripted_answers import MODEL, Behaviour, answer, cut_off, empty, lesson, nul, prose, raw, refuses
from tests.scripted_provider import ScriptedProvider


def test_answer_is_returned_with_its_ledger_figures(server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer(lesson(), input_tokens=321, output_tokens=45))

    completion = provider.complete(REQUEST)

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

    completion = provider.complete(REQUEST)

    assert (completion.text, completion.finish_reason) == (text, finish_reason)


def test_refusal_is_named(server: ScriptedProvider, provider: Provider) -> None:
    server.script(refuses())

    assert provider.complete(REQUEST).finish_reason == "refusal"


def test_openai_content_filter_is_named(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("", finish="refusal"))

    assert make("openai").complete(REQUEST).finish_reason == "content_filter"


def test_answer_without_usage_is_counted_by_estimate(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}]}'))

    completion = make("openai").complete(REQUEST)

    assert completion.output_tokens == 3
    assert completion.input_tokens == estimate_tokens("Be brief.\nWhat now?") + 2 * TOKENS_AROUND + 1


def test_completion_is_a_value() -> None:
    completion = Completion(text="a", finish_reason="stop", input_tokens=1, output_tokens=1, model="m", latency_ms=1.0)

    with pytest.raises(AttributeError):
        completion.text = "b"  # type: ignore[misc]
