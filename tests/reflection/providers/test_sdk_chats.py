"""Chats with tools and streams: the scripted provider against the real SDKs, and our adapters against both."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.reflection.providers.asking import KEY, Make
from tests.reflection.providers.chatting import (
    SCRIPT,
    TRANSCRIPT,
    converse,
    converse_by_anthropic_sdk,
    converse_by_openai_sdk,
)
from tests.scripted_answers import Behaviour, begins, breaks, ends, resets, says
from tests.scripted_provider import ScriptedProvider

ONE: Any = [{"role": "user", "content": "Hello?"}]


@pytest.fixture
def openai_sdk(server: ScriptedProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.openai_url, api_key=KEY, max_retries=0, timeout=10) as client:
        yield client


@pytest.fixture
def anthropic_sdk(server: ScriptedProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.anthropic_url, api_key=KEY, max_retries=0, timeout=10) as client:
        yield client


@pytest.mark.parametrize("streamed", [False, True])
def test_conversation_is_the_same_by_sdk_and_adapter_of_openai(
    streamed: bool, server: ScriptedProvider, make: Make, openai_sdk: openai.OpenAI
) -> None:
    server.script(*SCRIPT, *SCRIPT)

    assert converse_by_openai_sdk(openai_sdk, streamed=streamed) == TRANSCRIPT
    assert converse(make("openai"), streamed=streamed) == TRANSCRIPT
    assert _messages(server, 3, 6) == _messages(server, 0, 3)


@pytest.mark.parametrize("streamed", [False, True])
def test_conversation_is_the_same_by_sdk_and_adapter_of_anthropic(
    streamed: bool, server: ScriptedProvider, make: Make, anthropic_sdk: anthropic.Anthropic
) -> None:
    server.script(*SCRIPT, *SCRIPT)

    assert converse_by_anthropic_sdk(anthropic_sdk, streamed=streamed) == TRANSCRIPT
    assert converse(make("anthropic"), streamed=streamed) == TRANSCRIPT
    assert [sent.body for sent in server.requests[3:]] == [sent.body for sent in server.requests[:3]]


def _messages(server: ScriptedProvider, first: int, end: int) -> list[list[dict[str, Any]]]:
    """Return what was sent; the SDK leaves a text out where ours is empty."""
    return [
        [said | {"content": said.get("content") or ""} for said in sent.body["messages"]]
        for sent in server.requests[first:end]
    ]


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (begins(breaks("overloaded_error")), openai.APIError),
        (begins(resets()), openai.APIConnectionError),
        (begins(says("data: {not json\n\n")), ValueError),
    ],
)
def test_openai_sdk_raises_at_broken_streams(
    behaviour: Behaviour, error: type[Exception], server: ScriptedProvider, openai_sdk: openai.OpenAI
) -> None:
    server.script(behaviour)

    with pytest.raises(error):
        list(openai_sdk.chat.completions.create(model="m", messages=ONE, stream=True))


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (begins(breaks("overloaded_error")), anthropic.APIStatusError),
        (begins(says("event: content_block_delta\ndata: {not json\n\n")), ValueError),
    ],
)
def test_anthropic_sdk_raises_at_broken_streams(
    behaviour: Behaviour, error: type[Exception], server: ScriptedProvider, anthropic_sdk: anthropic.Anthropic
) -> None:
    server.script(behaviour)

    with pytest.raises(error):
        list(anthropic_sdk.messages.create(model="m", max_tokens=9, messages=ONE, stream=True))


def test_sdk_takes_half_an_answer_where_the_adapter_does_not(
    server: ScriptedProvider, openai_sdk: openai.OpenAI
) -> None:
    server.script(begins(ends()))

    pieces = list(openai_sdk.chat.completions.create(model="m", messages=ONE, stream=True))

    assert pieces[-1].choices[0].finish_reason is None
