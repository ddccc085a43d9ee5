"""Requests follow no redirects, use no proxies from the environment, and avoid refused addresses (reliability D8)."""

import httpx
import pytest

from reflection.llm.base import ProviderError
from tests.reflection.providers.asking import REQUEST, Make
from tests.reflection.providers.listening import Listener
from tests.scripted_answers import answer, redirects
from tests.scripted_provider import ScriptedProvider


def test_listener_counts_connections(listener: Listener) -> None:
    """The control: an ordinary client reaches the listener."""
    with pytest.raises(httpx.TransportError), httpx.Client(trust_env=False, timeout=2) as client:
        client.post(f"http://127.0.0.1:{listener.port}/", json={})

    assert listener.connections == 1


def test_refused_address_is_never_connected_to(make: Make, listener: Listener) -> None:
    with pytest.raises(ProviderError, match="ERL_HTTP_HOSTS") as caught:
        make("openai", base_url=f"http://0.0.0.0:{listener.port}/v1").chat(REQUEST)

    assert (caught.value.transient, caught.value.code) == (False, "egress_refused")
    assert listener.connections == 0


def test_redirect_is_not_followed(make: Make, server: ScriptedProvider, listener: Listener) -> None:
    server.script(redirects(f"http://127.0.0.1:{listener.port}/"))

    with pytest.raises(ProviderError, match="sent a redirect"):
        make("openai").chat(REQUEST)

    assert listener.connections == 0


def test_environment_proxy_is_ignored(
    make: Make, server: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, listener: Listener
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    server.script(answer("Yes."))

    assert make("anthropic").chat(REQUEST).text == "Yes."
    assert listener.connections == 0
