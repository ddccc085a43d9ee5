"""Calls to other services leave through the operator's proxy, which may open their TLS, and never else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from erl_site.diagnosis.egress import check_proxy
from memory.embeddings.http import HttpEmbedder
from memory.errors import EmbedderError
from reflection.llm.chat import ChatRequest, PromptMessage
from reflection.llm.registry import get_provider
from reflection.rankers.cross_encoder import HttpReranker
from reflection.webhooks.transport import DeliveryFailed, post
from runtime.http_tools import RequestFailed, read_request, send_request
from tests.operator.inspecting import InspectingProxy, inspecting_proxy
from tests.scripted_answers import answer, raw
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly
VECTORS = b'{"data": [{"index": 0, "embedding": [1.0, 0.0]}]}'


@pytest.fixture
def beyond() -> Iterator[ScriptedProvider]:
    """Every service that there is beyond the proxy."""
    with ScriptedProvider(otherwise=raw(b"{}", status=200)) as server:
        yield server


@pytest.fixture
def proxy(
    beyond: ScriptedProvider, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InspectingProxy]:
    """The proxy of a company, as its operator tells ERL of it."""
    with inspecting_proxy(beyond.port, tmp_path) as proxy:
        settings.ERL_HTTP_PROXY = proxy.url
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.authority))
        yield proxy


def embed(url: str) -> Any:
    embedder = HttpEmbedder(base_url=url, api_key="k", model="m", dimensions=2)
    try:
        return embedder.embed(["Cancel it"], timeout_seconds=10)
    finally:
        embedder._get_client().close()  # it stays open as long as its process


def call_tool(url: str) -> Any:
    return send_request(read_request({"method": "GET", "url": url}, {}), {}, {})


def test_webhook_leaves_through_the_proxy(proxy: InspectingProxy, beyond: ScriptedProvider) -> None:
    assert post("https://hooks.example/erl", body=b"{}", headers={}) == 200

    assert proxy.targets == ["hooks.example:443"]
    assert beyond.requests[0].path == "/erl"
    assert "Proxy-Authorization: Basic YWdlbnQ6c2VjcmV0" in proxy.heads[0]


def test_http_tool_leaves_through_the_proxy(proxy: InspectingProxy) -> None:
    assert call_tool("https://shop.example/orders").status == 200

    assert proxy.targets == ["shop.example:443"]


def test_embedder_leaves_through_the_proxy(proxy: InspectingProxy, beyond: ScriptedProvider) -> None:
    beyond.script(raw(VECTORS, status=200))

    assert embed("https://embed.example/v1").tolist() == [[1.0, 0.0]]
    assert proxy.targets == ["embed.example:443"]


def test_reranker_leaves_through_the_proxy(proxy: InspectingProxy, beyond: ScriptedProvider) -> None:
    beyond.script(raw(b'{"results": [{"index": 0, "relevance_score": 0.5}]}', status=200))
    url = "https://rank.example/rerank"
    reranker = HttpReranker(url=url, api_key="k", model="m", shape="cohere", deadline_seconds=10)

    scores = reranker.score_texts("Cancel it", ["Read the rules."])
    reranker.close()

    assert scores == {0: 0.5}
    assert proxy.targets == ["rank.example:443"]


@pytest.mark.django_db
def test_language_model_leaves_through_the_proxy(
    proxy: InspectingProxy, beyond: ScriptedProvider, settings: Any
) -> None:
    beyond.script(answer("Yes."))
    settings.ERL_LLM_PROVIDER, settings.ERL_LLM_API_KEY, settings.ERL_LLM_MODEL = "anthropic", "k", "m"
    settings.ERL_LLM_BASE_URL = "https://models.example"
    provider = get_provider()
    request = ChatRequest(messages=(PromptMessage(role="user", content="Well?"),), max_output_tokens=10)

    text = provider.chat(request).text
    provider.close()

    assert text == "Yes."
    assert proxy.targets == ["models.example:443"]


def test_this_machine_is_asked_without_the_proxy(proxy: InspectingProxy, beyond: ScriptedProvider) -> None:
    beyond.script(raw(VECTORS, status=200), raw(VECTORS, status=200))

    embed(f"http://localhost:{beyond.port}/v1")
    embed(f"http://127.0.0.1:{beyond.port}/v1")

    assert proxy.targets == []


def test_host_of_the_operator_is_asked_without_the_proxy(proxy: InspectingProxy, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["inside.example"]

    with pytest.raises(EmbedderError):  # the name is not known here
        embed("https://inside.example/v1")
    assert proxy.targets == []


@pytest.mark.parametrize("url", ["https://10.0.0.1/", "https://169.254.169.254/", "https://localhost/"])
def test_private_addresses_are_not_reached_through_the_proxy(url: str, proxy: InspectingProxy) -> None:
    with pytest.raises(DeliveryFailed, match="host"):
        post(url, body=b"{}", headers={})
    assert proxy.targets == []


def test_name_of_a_private_address_is_not_reached_through_the_proxy(
    proxy: InspectingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = [(2, 1, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr("reflection.webhooks.transport.socket.getaddrinfo", lambda *rest, **named: private)

    with pytest.raises(DeliveryFailed, match="private network"):
        post("https://hooks.example/", body=b"{}", headers={})
    assert proxy.targets == []


def test_tool_that_the_proxy_refuses_certainly_did_nothing(proxy: InspectingProxy) -> None:
    proxy.refuses = True

    with pytest.raises(RequestFailed) as failed:
        call_tool("https://shop.example/orders")
    assert failed.value.is_certain


def test_doctor_says_where_the_proxy_leads(proxy: InspectingProxy, settings: Any) -> None:
    settings.ERL_RERANK_URL = "https://rank.example/rerank"

    (found,) = check_proxy()

    assert found.message == "The proxy 127.0.0.1 leads to: rank.example."


def test_doctor_names_a_host_that_the_proxy_refuses(proxy: InspectingProxy, settings: Any) -> None:
    settings.ERL_RERANK_URL, proxy.refuses = "https://rank.example/rerank", True

    (found,) = check_proxy()

    assert "refuses to connect to https://rank.example: 403 Filtered" in found.message


def test_doctor_asks_for_the_authority_of_the_proxy(
    proxy: InspectingProxy, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ERL_RERANK_URL = "https://rank.example/rerank"
    monkeypatch.delenv("SSL_CERT_FILE")

    (found,) = check_proxy()

    assert "SSL_CERT_FILE" in found.todo


def test_doctor_does_not_ask_for_the_authority_of_an_expired_certificate(proxy: InspectingProxy, settings: Any) -> None:
    settings.ERL_RERANK_URL, proxy.has_expired = "https://rank.example/rerank", True

    (found,) = check_proxy()

    assert "is not trusted: certificate has expired." in found.message
    assert "SSL_CERT_FILE" not in found.todo
