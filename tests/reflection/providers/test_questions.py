"""What both adapters send, and what they leave out where a server does not take it."""

import pytest

from reflection.llm.chat import ChatRequest
from tests.reflection.providers.asking import KEY, REQUEST, SCHEMA, Make, failure_of
from tests.scripted_answers import answer, fails
from tests.scripted_provider import ScriptedProvider


# ── What goes out ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_anthropic_request_is_in_the_messages_format(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("anthropic").chat(REQUEST)

    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert KEY in (sent.headers.get("x-api-key") or sent.headers["authorization"])
    assert (sent.body["model"], sent.body["max_tokens"]) == ("test-model", 200)
    assert sent.body["system"][0]["text"] == "Be brief."
    assert sent.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "What now?"}]}]


def test_anthropic_base_url_may_end_in_v1(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("anthropic", base_url=f"{server.anthropic_url}/v1/").chat(REQUEST)

    assert server.requests[0].path == "/v1/messages"


def test_openai_request_asks_for_the_schema(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("{}"))

    make("openai").chat(REQUEST)

    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What now?"},
    ]
    assert (sent.body["max_completion_tokens"], sent.body["temperature"]) == (200, 0.0)
    form = sent.body["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]["properties"]) == (True, SCHEMA["properties"])


@pytest.mark.parametrize("name", ["groq", "ollama", "vllm", "llamacpp", "openai-compatible"])
def test_servers_that_follow_openai_get_the_older_length_limit(name: str, server: ScriptedProvider, make: Make) -> None:
    server.script(answer("{}"))

    make(name).chat(REQUEST)

    assert server.requests[0].body["max_tokens"] == 200


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

    provider.chat(REQUEST)
    provider.chat(REQUEST)

    assert ["response_format" in sent.body for sent in server.requests] == [True, False, False]


def test_model_that_missed_the_schema_may_meet_it_at_the_next_try(server: ScriptedProvider, make: Make) -> None:
    server.script(fails(400, kind="json_validate_failed", message="Failed to generate JSON."), answer("{}"))
    provider = make("groq")

    assert failure_of(provider).transient
    assert provider.chat(REQUEST).text == "{}"


@pytest.mark.parametrize(
    ("name", "message", "parameter"),
    [
        ("openai", "Unrecognized request argument supplied: temperature", "temperature"),
        ("openai", "Unsupported value: 'temperature' does not support 0 with this model.", "temperature"),
    ],
)
def test_model_that_refuses_a_parameter_is_asked_without_it(
    name: str, message: str, parameter: str, server: ScriptedProvider, make: Make
) -> None:
    server.script(fails(400, message=message), answer("{}"), answer("{}"))
    provider = make(name)

    provider.chat(REQUEST)
    provider.chat(REQUEST)

    assert [parameter in sent.body for sent in server.requests] == [True, False, False]


def test_server_with_the_newer_length_limit_is_asked_with_that(server: ScriptedProvider, make: Make) -> None:
    refusal = fails(400, message="'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
    server.script(refusal, answer("{}"))

    make("openai-compatible").chat(REQUEST)

    assert server.requests[1].body["max_completion_tokens"] == 200
    assert "max_tokens" not in server.requests[1].body


def test_other_bad_request_is_not_asked_again(server: ScriptedProvider, make: Make) -> None:
    server.script(fails(400, kind="context_length_exceeded", message="This is too long."))

    error = failure_of(make("openai"))

    assert (error.transient, error.code) == (False, "context_overflow")
    assert len(server.requests) == 1


def test_fingerprint_changes_with_everything_that_decides_the_answer() -> None:
    variants = [
        REQUEST,
        ChatRequest.single(system="Be long.", user="What now?", max_output_tokens=200, json_schema=SCHEMA),
        ChatRequest.single(system="Be brief.", user="What then?", max_output_tokens=200, json_schema=SCHEMA),
        ChatRequest.single(system="Be brief.", user="What now?", max_output_tokens=201, json_schema=SCHEMA),
        ChatRequest.single(system="Be brief.", user="What now?", max_output_tokens=200),
        ChatRequest.single(
            system="Be brief.", user="What now?", max_output_tokens=200, json_schema=SCHEMA, temperature=1.0
        ),
    ]

    assert len({variant.sha256 for variant in variants}) == len(variants)
