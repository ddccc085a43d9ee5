"""The scripted provider itself, against the real SDKs."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from tests.reflection.providers.asking import KEY, REQUEST, Make
from tests.scripted_answers import Behaviour, answer, fails, resets, silence
from tests.scripted_provider import ScriptedProvider


@pytest.fixture
def openai_sdk(server: ScriptedProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.openai_url, api_key=KEY, max_retries=0, timeout=0.5) as client:
        yield client


@pytest.fixture
def anthropic_sdk(server: ScriptedProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.anthropic_url, api_key=KEY, max_retries=0, timeout=0.5) as client:
        yield client


def ask_openai(client: openai.OpenAI) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello?"}])


def ask_anthropic(client: anthropic.Anthropic) -> anthropic.types.Message:
    return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hello?"}])


def test_openai_sdk_reads_scripted_answers(server: ScriptedProvider, openai_sdk: openai.OpenAI) -> None:
    server.script(answer("Hello.", finish="length", input_tokens=11, output_tokens=3))

    result = ask_openai(openai_sdk)

    assert result.choices[0].message.content == "Hello."
    assert result.choices[0].finish_reason == "length"
    assert result.usage is not None
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (11, 3)


def test_anthropic_sdk_reads_scripted_answers(server: ScriptedProvider, anthropic_sdk: anthropic.Anthropic) -> None:
    server.script(answer("Hello.", finish="length", input_tokens=11, output_tokens=3))

    result = ask_anthropic(anthropic_sdk)

    assert [block.text for block in result.content if block.type == "text"] == ["Hello."]
    assert result.stop_reason == "max_tokens"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (11, 3)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (fails(429, kind="rate_limit_error", retry_after="7"), openai.RateLimitError),
        (fails(500), openai.InternalServerError),
        (fails(401), openai.AuthenticationError),
        (fails(400), openai.BadRequestError),
        (resets(), openai.APIConnectionError),
        (silence(), openai.APITimeoutError),
    ],
)
def test_openai_sdk_raises_its_own_errors_at_scripted_failures(
    behaviour: Behaviour, error: type[Exception], server: ScriptedProvider, openai_sdk: openai.OpenAI
) -> None:
    server.script(behaviour)

    with pytest.raises(error):
        ask_openai(openai_sdk)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (fails(429, kind="rate_limit_error", retry_after="7"), anthropic.RateLimitError),
        (fails(529, kind="overloaded_error"), anthropic.APIStatusError),
        (fails(401, kind="authentication_error"), anthropic.AuthenticationError),
        (fails(400, kind="invalid_request_error"), anthropic.BadRequestError),
        (resets(), anthropic.APIConnectionError),
        (silence(), anthropic.APITimeoutError),
    ],
)
def test_anthropic_sdk_raises_its_own_errors_at_scripted_failures(
    behaviour: Behaviour, error: type[Exception], server: ScriptedProvider, anthropic_sdk: anthropic.Anthropic
) -> None:
    server.script(behaviour)

    with pytest.raises(error):
        ask_anthropic(anthropic_sdk)


def test_both_clients_send_what_their_sdk_sends(
    server: ScriptedProvider, make: Make, openai_sdk: openai.OpenAI, anthropic_sdk: anthropic.Anthropic
) -> None:
    server.script(*[answer("Yes.")] * 4)

    ask_openai(openai_sdk)
    make("openai").complete(REQUEST)
    ask_anthropic(anthropic_sdk)
    make("anthropic").complete(REQUEST)

    sdk_openai, our_openai, sdk_anthropic, our_anthropic = server.requests
    assert our_openai.path == sdk_openai.path
    assert our_openai.headers["authorization"] == sdk_openai.headers["authorization"]
    assert our_anthropic.path == sdk_anthropic.path
    assert our_anthropic.headers["anthropic-version"] == sdk_anthropic.headers["anthropic-version"]
