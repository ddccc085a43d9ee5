"""The provider selected by the settings."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from reflection.llm.base import ProviderNotConfigured
from reflection.llm.registry import PROVIDERS, close_provider, find_provider, get_chat_provider, get_provider
from tests.reflection.providers.asking import KEY, REQUEST
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider


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
        "ERL_LLM_MODEL": "vendor/m",
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
    }

    with override_settings(**chosen):
        answers = [get_provider().chat(REQUEST).text for _ in range(2)]

    assert answers == ["One.", "Two."]
    assert server.connections == 1


def test_providers_stand_side_by_side_each_with_its_own_key(server: ScriptedProvider, close_afterwards: None) -> None:
    server.script(answer("One."), answer("Two."), answer("Three."))
    chosen = {
        "ERL_LLM_PROVIDER": "openai",
        "ERL_LLM_MODEL": "m",
        "ERL_LLM_API_KEY": KEY,
        "ERL_LLM_BASE_URL": server.openai_url,
        "ERL_LLM_PROVIDERS": {
            "anthropic": {"api_key": "another-key", "base_url": server.anthropic_url, "input_usd_per_mtok": 3},
            "lab": {"kind": "vllm", "base_url": server.openai_url},
        },
        "ERL_LLM_MODELS": {"rank": "lab:qwen3:8b"},
    }

    with override_settings(**chosen):
        names = [get_provider("reflect").name, get_provider("rank").name, get_chat_provider("anthropic:claude-9").name]
        get_provider("reflect").chat(REQUEST)
        get_provider("rank").chat(REQUEST)
        get_chat_provider("anthropic:claude-9").chat(REQUEST)

    sent = [(request.body["model"], request.headers.get("authorization", "")) for request in server.requests]
    assert names == ["openai", "lab", "anthropic"]
    assert sent == [("m", f"Bearer {KEY}"), ("qwen3:8b", ""), ("claude-9", "Bearer another-key")]


@pytest.mark.parametrize(
    ("providers", "model", "words"),
    [
        ({"mine": {"kind": "clippy"}}, "mine:m", "unknown provider"),
        ({"anthropic": {}}, "anthropic:m", "api_key of anthropic in ERL_LLM_PROVIDERS"),
        ({"anthropic": {"key": "x"}}, "anthropic:m", "anthropic.key"),
    ],
)
def test_fault_of_a_further_provider_names_its_entry(
    providers: dict[str, dict[str, str]], model: str, words: str
) -> None:
    with override_settings(ERL_LLM_PROVIDERS=providers), pytest.raises(ProviderNotConfigured, match=words):
        find_provider(model=model)
