"""A scripted model that the settings name, in both wire formats."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from reflection.llm.registry import close_provider
from tests.scripted_provider import ScriptedProvider


@pytest.fixture(params=["anthropic", "openai"])
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedProvider]:
    """A scripted provider that the settings name."""
    with ScriptedProvider() as server:
        base_url = server.anthropic_url if request.param == "anthropic" else server.openai_url
        with override_settings(
            ERL_REFLECTOR="auto",
            ERL_LLM_PROVIDER=request.param,
            ERL_LLM_MODEL="m",
            ERL_LLM_API_KEY="test-key",
            ERL_LLM_BASE_URL=base_url,
            ERL_LLM_TIMEOUT_SECONDS=5.0,
        ):
            yield server
            close_provider()
