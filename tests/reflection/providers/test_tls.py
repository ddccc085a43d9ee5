"""A private authority is trusted only if the operator names it (reliability D8)."""

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from memory.connections import BoundedTransport, default_ssl_context
from tests.reflection.providers.listening import TRUSTS_SYSTEM
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider

# A certificate for llm.internal with its key, signed by itself; nothing but these tests knows it
CERTIFICATE = Path(__file__).parent.parent / "data" / "llm.internal.pem"


@pytest.fixture
def tls_server() -> Iterator[ScriptedProvider]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with ScriptedProvider(answer("Yes."), tls=context) as server:
        yield server


@pytest.fixture(autouse=True)
def every_name_leads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **named: ask("127.0.0.1", *rest, **named))


def fetch(url: str, context: ssl.SSLContext) -> httpx.Response:
    transport = BoundedTransport(ssl_context=context)
    with httpx.Client(transport=transport, trust_env=False, timeout=2) as client:
        return client.post(url, json={})


def test_private_authority_is_trusted_when_named(tls_server: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(CERTIFICATE))

    response = fetch(f"https://llm.internal:{tls_server.port}/v1/messages", default_ssl_context())

    assert response.status_code == 200


def test_unknown_authority_is_refused(tls_server: ScriptedProvider) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(f"https://llm.internal:{tls_server.port}/v1/messages", TRUSTS_SYSTEM)


def test_certificate_for_another_name_is_refused(tls_server: ScriptedProvider) -> None:
    context = ssl.create_default_context(cafile=str(CERTIFICATE))

    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(f"https://other.internal:{tls_server.port}/v1/messages", context)
