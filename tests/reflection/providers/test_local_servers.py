"""Servers of one's own, and Gemini: one setting is enough, in the shapes in which these servers answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from reflection.llm.base import ProviderError
from reflection.llm.registry import close_provider, find_config, get_provider
from tests.reflection.providers.asking import KEY, REQUEST, Make, failure_of
from tests.scripted_answers import Behaviour, Exchange, answer, raw
from tests.scripted_provider import ScriptedProvider

NOTHING = {"ERL_LLM_PROVIDER": "", "ERL_LLM_MODEL": "", "ERL_LLM_API_KEY": "", "ERL_LLM_BASE_URL": ""}


def lists(*models: dict[str, Any], **extra: Any) -> Behaviour:
    """Answer GET /v1/models."""

    def play(exchange: Exchange) -> None:
        assert exchange.request.path == "/v1/models"
        exchange.send(200, json.dumps({"object": "list", "data": list(models) or None, **extra}).encode())

    return play


# As the servers' own documentation shows them
OLLAMA = lists(
    {"id": "qwen3:8b", "object": "model", "created": 1760000000, "owned_by": "library"},
    {"id": "nomic-embed-text:latest", "object": "model", "created": 1750000000, "owned_by": "library"},
)
VLLM = lists(
    {
        "id": "Qwen/Qwen3-8B",
        "object": "model",
        "created": 1760000000,
        "owned_by": "vllm",
        "root": "Qwen/Qwen3-8B",
        "parent": None,
        "max_model_len": 32768,
        "permission": [],
    }
)
LLAMACPP = lists(
    {"id": "qwen3.gguf", "object": "model", "created": 1760000000, "owned_by": "llamacpp", "meta": {"n_vocab": 1}},
    models=[{"name": "qwen3.gguf", "type": "model", "capabilities": ["completion"]}],
)
# vLLM and reasoning models: no refusal, extra members, and usage without details
PLAIN = raw(
    b'{"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", '
    b'"content": "Fine.", "reasoning_content": "Hm.", "tool_calls": []}, "finish_reason": "stop", "stop_reason": null}]'
    b', "usage": {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2}, "timings": {"prompt_n": 7}}'
)


@pytest.fixture(autouse=True)
def close_afterwards() -> Iterator[None]:
    yield
    close_provider()


@pytest.mark.parametrize(
    ("name", "models", "model"),
    [
        ("ollama", OLLAMA, "qwen3:8b"),
        ("vllm", VLLM, "Qwen/Qwen3-8B"),
        ("llamacpp", LLAMACPP, "qwen3.gguf"),
        ("", LLAMACPP, "qwen3.gguf"),
    ],
    ids=["ollama", "vllm", "llamacpp", "address alone"],
)
def test_server_with_one_model_needs_neither_key_nor_model(
    name: str, models: Behaviour, model: str, server: ScriptedProvider
) -> None:
    server.script(models, PLAIN, answer("Again."))

    with override_settings(**NOTHING | {"ERL_LLM_PROVIDER": name, "ERL_LLM_BASE_URL": server.openai_url}):
        texts = [get_provider().chat(REQUEST).text for _ in range(2)]

    assert texts == ["Fine.", "Again."]
    assert [request.path for request in server.requests] == ["/v1/models", *["/v1/chat/completions"] * 2]
    assert {request.body["model"] for request in server.requests[1:]} == {model}
    assert not any("authorization" in request.headers for request in server.requests)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("ollama", "http://localhost:11434/v1"),
        ("vllm", "http://localhost:8000/v1"),
        ("llamacpp", "http://localhost:8080/v1"),
    ],
)
def test_name_alone_is_enough_for_a_server_at_its_usual_address(name: str, url: str) -> None:
    with override_settings(**NOTHING | {"ERL_LLM_PROVIDER": name}):
        config = find_config()

    assert config is not None
    assert (config.name, config.base_url) == (name, url)


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/", "http://localhost:11434/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://gateway.example/llm/api", "https://gateway.example/llm/api"),
    ],
)
def test_address_without_a_path_gets_the_usual_one(written: str, used: str) -> None:
    with override_settings(**NOTHING | {"ERL_LLM_BASE_URL": written}):
        config = find_config()

    assert config is not None
    assert (config.name, config.base_url) == ("openai-compatible", used)


def test_server_with_several_models_says_which(server: ScriptedProvider) -> None:
    server.script(lists({"id": "qwen3:8b"}, {"id": "gemma3:4b"}))

    with override_settings(**NOTHING | {"ERL_LLM_PROVIDER": "ollama", "ERL_LLM_BASE_URL": server.openai_url}):
        error = failure_of(get_provider())

    assert (error.code, error.transient) == ("model_not_chosen", False)
    assert "qwen3:8b, gemma3:4b. Set ERL_LLM_MODEL" in str(error)


def test_server_without_models_is_asked_again_later(server: ScriptedProvider) -> None:
    server.script(lists())  # Ollama answers "data": null

    with override_settings(**NOTHING | {"ERL_LLM_PROVIDER": "ollama", "ERL_LLM_BASE_URL": server.openai_url}):
        error = failure_of(get_provider())

    assert error.transient
    assert "ollama has no model" in str(error)


# ── Gemini ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_gemini_has_its_address_and_wants_key_and_model() -> None:
    with override_settings(
        **NOTHING | {"ERL_LLM_PROVIDER": "gemini", "ERL_LLM_MODEL": "gemini-2.5-flash", "ERL_LLM_API_KEY": KEY}
    ):
        config = find_config()

    assert config is not None
    assert config.base_url == "https://generativelanguage.googleapis.com/v1beta/openai"


def test_gemini_is_asked_with_its_key_as_bearer(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Fine."))
    url = f"{server.anthropic_url}/v1beta/openai"

    assert make("gemini", base_url=url).chat(REQUEST).text == "Fine."

    assert server.requests[0].path == "/v1beta/openai/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def gemini_error(code: int, message: str, status: str) -> Behaviour:
    """Answer an error in a list, as Gemini's OpenAI-compatible route does."""
    return raw(json.dumps([{"error": {"code": code, "message": message, "status": status}}]).encode(), status=code)


def failure(server: ScriptedProvider, make: Make, behaviour: Behaviour) -> ProviderError:
    server.script(behaviour)
    return failure_of(make("gemini"))


def test_gemini_error_is_read_out_of_its_list(server: ScriptedProvider, make: Make) -> None:
    error = failure(server, make, gemini_error(404, "models/gemini-0 is not found.", "NOT_FOUND"))

    assert "404 (NOT_FOUND: models/gemini-0 is not found.)" in str(error)


def test_gemini_wrong_key_is_an_authentication_failure(server: ScriptedProvider, make: Make) -> None:
    message = "API key not valid. Please pass a valid API key."
    error = failure(server, make, gemini_error(400, message, "INVALID_ARGUMENT"))

    assert (error.code, error.transient) == ("authentication", False)
    assert "Check ERL_LLM_API_KEY" in str(error)


def test_gemini_quota_is_not_tried_again(server: ScriptedProvider, make: Make) -> None:
    message = "You exceeded your current quota, please check your plan and billing details."
    error = failure(server, make, gemini_error(429, message, "RESOURCE_EXHAUSTED"))

    assert (error.code, error.transient) == ("quota", False)


def test_gemini_limit_of_a_minute_is_waited_for(server: ScriptedProvider, make: Make) -> None:
    body = {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
    }
    error = failure(server, make, raw(json.dumps([{"error": body}]).encode(), status=429))

    assert (error.transient, error.retry_after_seconds) == (True, 37.0)
