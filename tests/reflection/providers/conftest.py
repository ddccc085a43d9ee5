"""A scripted provider, the adapters under test, and a socket that must not be reached."""

from collections.abc import Iterator

import pytest

from reflection.llm.base import Provider, ProviderConfig
from reflection.llm.registry import build_provider
from tests.reflection.providers.asking import KEY, Make
from tests.reflection.providers.listening import Listener
from tests.scripted_provider import ScriptedProvider


@pytest.fixture
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture
def make(server: ScriptedProvider) -> Iterator[Make]:
    made: list[Provider] = []

    def build(name: str, *, timeout_seconds: float = 5.0, base_url: str = "", api_key: str = KEY) -> Provider:
        url = server.anthropic_url if name == "anthropic" else server.openai_url
        provider = build_provider(
            ProviderConfig(
                name=name,
                model="test-model",
                base_url=base_url or url,
                timeout_seconds=timeout_seconds,
                api_key=api_key,
            ),
        )
        made.append(provider)
        return provider

    yield build
    for provider in made:
        provider.close()


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest, make: Make) -> Provider:
    return make(request.param)


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()
