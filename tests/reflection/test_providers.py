"""Both adapters against the scripted provider, and the scripted provider against the real SDKs."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anthropic
import openai
import pytest
from django.test import override_settings

from reflection.providers.base import (
    Completion,
    CompletionRequest,
    Provider,
    ProviderError,
    ProviderNotConfigured,
    estimate_tokens,
)
from reflection.providers.http import MAX_RESPONSE_BYTES
from reflection.providers.registry import (
    PROVIDERS,
    ProviderConfig,
    build_provider,
    close_provider,
    find_provider,
    get_provider,
)
from reflection.providers.transport import EgressPolicy, EgressTransport, default_ssl_context
from tests.scripted_provider import (
    MODEL,
    Behaviour,
    Flood,
    ScriptedProvider,
    answer,
    cut_off,
    drips,
    empty,
    fails,
    lesson,
    nul,
    prose,
    raw,
    redirects,
    refuses,
    resets,
    resets_mid_body,
    silence,
)

KEY = "sk-test-0123456789abcdefghijklmnop"
SCHEMA = {"type": "object", "properties": {"learn": {"type": "boolean"}}, "required": ["learn"]}
REQUEST = CompletionRequest(system="Be brief.", user="What now?", max_output_tokens=200, json_schema=SCHEMA)
TRUSTS_SYSTEM = default_ssl_context()

Make = Callable[..., Provider]


@pytest.fixture
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture
def make(server: ScriptedProvider) -> Iterator[Make]:
    made: list[Provider] = []

    def build(name: str, *, timeout_seconds: float = 5.0, base_url: str = "") -> Provider:
        url = server.anthropic_url if name == "anthropic" else server.openai_url
        provider = build_provider(
            ProviderConfig(
                name=name,
                model="test-model",
                base_url=base_url or url,
                timeout_seconds=timeout_seconds,
                policy=EgressPolicy(allow_loopback=True),
                api_key=KEY,
            ),
            transport=EgressTransport(policy=EgressPolicy(allow_loopback=True), ssl_context=TRUSTS_SYSTEM),
        )
        made.append(provider)
        return provider

    yield build
    for provider in made:
        provider.close()


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest, make: Make) -> Provider:
    return make(request.param)


def failure_of(provider: Provider, request: CompletionRequest = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.complete(request)
    return caught.value


# ── What goes out ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_anthropic_request_is_in_the_messages_format(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("anthropic").complete(REQUEST)

    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == "2026-10-21"
    assert sent.body == {
        "model": "test-model",
        "max_tokens": 200,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "What now?"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


def test_anthropic_base_url_may_end_in_v1(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("anthropic", base_url=f"{server.anthropic_url}/v1/").complete(REQUEST)

    assert server.requests[0].path == "/v1/messages"


def test_openai_request_asks_for_the_schema(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("{}"))

    make("openai").complete(REQUEST)

    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "test-model",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What now?"}],
        "max_completion_tokens": 200,
        "temperature": 0.0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }


@pytest.mark.parametrize("name", ["groq", "ollama", "vllm", "llamacpp", "openai-compatible"])
def test_servers_that_follow_openai_get_the_older_length_limit(name: str, server: ScriptedProvider, make: Make) -> None:
    server.script(answer("{}"))

    make(name).complete(REQUEST)

    assert server.requests[0].body["max_tokens"] == 200


# ── What comes back ───────────────────────────────────────────────────────────────────────────────────────────────
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


def test_openai_content_filter_is_a_refusal(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("", finish="refusal"))

    assert make("openai").complete(REQUEST).finish_reason == "refusal"


def test_answer_without_usage_is_counted_by_estimate(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"choices": [{"message": {"content": "12345678"}, "finish_reason": "stop"}]}'))

    completion = make("openai").complete(REQUEST)

    assert completion.output_tokens == 3
    assert completion.input_tokens == estimate_tokens("Be brief.What now?")


# ── What goes wrong (reliability B9) ──────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_status_that_may_pass_is_transient(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status))

    error = failure_of(provider)

    assert error.transient
    assert error.status == status


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_status_that_stays_is_final(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status))

    error = failure_of(provider)

    assert not error.transient
    assert len(server.requests) == 1


def test_adapter_never_retries_by_itself(server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(529), answer("Yes."))

    failure_of(provider)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("1.5", 1.5), ("-3", 0.0), ("86400", 3600.0), ("soon", None), ("nan", None), ("", None)],
)
def test_retry_after_in_seconds_is_read_and_capped(
    header: str, seconds: float | None, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(fails(429, kind="rate_limit_error", retry_after=header))

    assert failure_of(provider).retry_after_seconds == seconds


def test_retry_after_as_date_is_read(server: ScriptedProvider, provider: Provider) -> None:
    at = datetime.now(UTC) + timedelta(seconds=100)
    server.script(fails(503, retry_after=format_datetime(at, usegmt=True)))

    wait = failure_of(provider).retry_after_seconds

    assert wait is not None
    assert 90 < wait <= 100


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("insufficient_quota", "You exceeded your current quota, please check your plan and billing details."),
        ("rate_limit_error", "Your credit balance is too low."),
    ],
)
def test_exhausted_quota_is_final_although_429(
    kind: str, message: str, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(fails(429, kind=kind, message=message, retry_after="5"))

    error = failure_of(provider)

    assert (error.transient, error.code, error.retry_after_seconds) == (False, "quota", None)


@pytest.mark.parametrize("behaviour", [resets(), resets_mid_body()], ids=["at_once", "mid_body"])
def test_reset_connection_is_transient(behaviour: Behaviour, server: ScriptedProvider, provider: Provider) -> None:
    server.script(behaviour)

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "connection")


def test_adapter_works_again_after_a_reset(server: ScriptedProvider, provider: Provider) -> None:
    server.script(resets_mid_body(), answer("Yes."))
    failure_of(provider)

    assert provider.complete(REQUEST).text == "Yes."


@pytest.mark.parametrize("name", ["anthropic", "openai"])
@pytest.mark.parametrize("behaviour", [silence(), drips()], ids=["silence", "drips"])
def test_whole_call_ends_at_the_time_limit(
    name: str, behaviour: Behaviour, server: ScriptedProvider, make: Make
) -> None:
    server.script(behaviour)
    provider = make(name, timeout_seconds=0.4)
    started = time.monotonic()

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "timeout")
    assert time.monotonic() - started < 10  # the server would go on for a minute, or for ever


def test_server_that_is_not_there_is_transient(make: Make) -> None:
    error = failure_of(make("openai", base_url="http://127.0.0.1:9/v1"))

    assert (error.transient, error.code) == (True, "connection")


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_endless_answer_is_cut_at_one_mebibyte(name: str, server: ScriptedProvider, make: Make) -> None:
    flood = Flood()
    server.script(flood)

    error = failure_of(make(name, timeout_seconds=30))

    assert (error.transient, error.code) == (False, "response_too_large")
    assert flood.ended.wait(10)
    # What the sockets buffer on both sides comes on top
    assert flood.sent_bytes < MAX_RESPONSE_BYTES + 16 * 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Bad gateway</html>",
        b"",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"choices": []}',
        b'{"choices": [1]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": {}, "content": "x"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"content": ',
    ],
)
def test_body_in_no_known_envelope_is_transient(body: bytes, server: ScriptedProvider, provider: Provider) -> None:
    server.script(raw(body))

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "bad_envelope")


def test_compressed_answer_is_refused(server: ScriptedProvider, provider: Provider) -> None:
    server.script(raw(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))

    assert failure_of(provider).code == "bad_envelope"


def test_redirect_is_not_followed(server: ScriptedProvider, provider: Provider) -> None:
    server.script(redirects(f"{server.anthropic_url}/elsewhere"))

    error = failure_of(provider)

    assert (error.transient, error.code) == (False, "redirect")
    assert len(server.requests) == 1


def test_gateway_error_inside_a_success_is_classified(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"error": {"code": 429, "message": "Slow down."}}'))

    error = failure_of(make("openai"))

    assert (error.transient, error.code) == (True, "rate_limited")


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_key_shows_in_no_message(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status, message=f"Incorrect API key provided: {KEY} (sk-te***************mnop)."))

    error = failure_of(provider)

    shown = f"{error} {error.detail} {error!r} {provider!r} {vars(provider)}"
    assert KEY not in shown
    assert "mnop" not in shown


def test_key_shows_in_no_repr_of_the_configuration() -> None:
    config = ProviderConfig(
        name="openai", model="m", base_url="https://x", timeout_seconds=1, policy=EgressPolicy(), api_key=KEY
    )

    assert KEY not in repr(config)


# ── Parameters that a server does not take ────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "message",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This model does not support response format `json_schema`.",
        "Failed to parse grammar",
    ],
)
def test_server_without_schemas_gets_the_question_without(
    status: int, message: str, server: ScriptedProvider, make: Make
) -> None:
    server.script(fails(status, message=message), answer("{}"), answer("{}"))
    provider = make("openai")

    provider.complete(REQUEST)
    provider.complete(REQUEST)

    assert ["response_format" in sent.body for sent in server.requests] == [True, False, False]


def test_model_that_missed_the_schema_is_asked_without_it_once(server: ScriptedProvider, make: Make) -> None:
    missed = fails(400, kind="json_validate_failed", message="Failed to generate JSON.")
    server.script(missed, answer("{}"), answer("{}"))
    provider = make("groq")

    provider.complete(REQUEST)
    provider.complete(REQUEST)

    assert ["response_format" in sent.body for sent in server.requests] == [True, False, True]


def test_claude_model_without_schemas_is_asked_without(server: ScriptedProvider, make: Make) -> None:
    refusal = fails(400, message="output_config.format: this model does not support structured outputs.")
    server.script(refusal, answer("{}"), answer("{}"))
    provider = make("anthropic")

    provider.complete(REQUEST)
    provider.complete(REQUEST)

    assert ["output_config" in sent.body for sent in server.requests] == [True, False, False]


def test_model_without_temperature_is_asked_without(server: ScriptedProvider, make: Make) -> None:
    refusal = fails(400, message="Unsupported value: 'temperature' does not support 0 with this model.")
    server.script(refusal, answer("{}"), answer("{}"))
    provider = make("openai")

    provider.complete(REQUEST)
    provider.complete(REQUEST)

    assert ["temperature" in sent.body for sent in server.requests] == [True, False, False]


def test_server_with_the_newer_length_limit_is_asked_with_that(server: ScriptedProvider, make: Make) -> None:
    refusal = fails(400, message="'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
    server.script(refusal, answer("{}"))

    make("openai-compatible").complete(REQUEST)

    assert server.requests[1].body["max_completion_tokens"] == 200
    assert "max_tokens" not in server.requests[1].body


def test_other_bad_request_is_not_asked_again(server: ScriptedProvider, make: Make) -> None:
    server.script(fails(400, kind="context_length_exceeded", message="This is too long."))

    error = failure_of(make("openai"))

    assert (error.transient, error.code) == (False, "bad_request")
    assert len(server.requests) == 1


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def close_afterwards() -> Iterator[None]:
    yield
    close_provider()


def test_no_provider_is_found_without_settings() -> None:
    with override_settings(ERL_LLM_PROVIDER=""):
        assert find_provider() is None


def test_asking_for_the_provider_without_settings_says_what_to_set() -> None:
    with override_settings(ERL_LLM_PROVIDER=""), pytest.raises(ProviderNotConfigured, match="ERL_LLM_PROVIDER"):
        get_provider()


@pytest.mark.parametrize(
    ("overrides", "setting"),
    [
        ({"ERL_LLM_PROVIDER": "clippy"}, "ERL_LLM_PROVIDER"),
        ({"ERL_LLM_MODEL": ""}, "ERL_LLM_MODEL"),
        ({"ERL_LLM_API_KEY": ""}, "ERL_LLM_API_KEY"),
        ({"ERL_LLM_PROVIDER": "openai-compatible", "ERL_LLM_BASE_URL": ""}, "ERL_LLM_BASE_URL"),
    ],
)
def test_incomplete_settings_name_the_setting(overrides: dict[str, str], setting: str) -> None:
    complete = {"ERL_LLM_PROVIDER": "openai", "ERL_LLM_MODEL": "m", "ERL_LLM_API_KEY": KEY}

    with override_settings(**complete | overrides), pytest.raises(ProviderNotConfigured, match=setting):
        get_provider()


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_registered_provider_can_be_built_from_settings(name: str, close_afterwards: None) -> None:
    chosen = {
        "ERL_LLM_PROVIDER": name,
        "ERL_LLM_MODEL": "m",
        "ERL_LLM_API_KEY": KEY,
        "ERL_LLM_BASE_URL": "https://llm.example/v1",
    }

    with override_settings(**chosen):
        assert get_provider().name == name


def test_one_process_keeps_one_client(server: ScriptedProvider, close_afterwards: None) -> None:
    server.script(answer("One."), answer("Two."))
    chosen = {
        "ERL_LLM_PROVIDER": "openai",
        "ERL_LLM_MODEL": "m",
        "ERL_LLM_API_KEY": KEY,
        "ERL_LLM_BASE_URL": server.openai_url,
        "ERL_LLM_ALLOW_LOOPBACK": True,
    }

    with override_settings(**chosen):
        answers = [get_provider().complete(REQUEST).text for _ in range(2)]

    assert answers == ["One.", "Two."]
    assert server.connections == 1


def test_fingerprint_changes_with_everything_that_decides_the_answer() -> None:
    variants = [
        REQUEST,
        CompletionRequest(system="Be long.", user="What now?", max_output_tokens=200, json_schema=SCHEMA),
        CompletionRequest(system="Be brief.", user="What then?", max_output_tokens=200, json_schema=SCHEMA),
        CompletionRequest(system="Be brief.", user="What now?", max_output_tokens=201, json_schema=SCHEMA),
        CompletionRequest(system="Be brief.", user="What now?", max_output_tokens=200),
        CompletionRequest(
            system="Be brief.", user="What now?", max_output_tokens=200, json_schema=SCHEMA, temperature=1.0
        ),
    ]

    assert len({variant.sha256 for variant in variants}) == len(variants)


# ── The scripted provider itself, against the real SDKs ───────────────────────────────────────────────────────────
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


def test_completion_is_a_value() -> None:
    completion = Completion(text="a", finish_reason="stop", input_tokens=1, output_tokens=1, model="m", latency_ms=1.0)

    with pytest.raises(AttributeError):
        completion.text = "b"  # type: ignore[misc]
