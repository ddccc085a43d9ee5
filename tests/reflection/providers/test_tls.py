"""A private authority is trusted where the operator names it, and no other (reliability D8)."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reflection.llm.transport import EgressPolicy, EgressTransport, default_ssl_context
from tests.reflection.providers.listening import fetch, transport
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


def test_private_authority_is_trusted_when_named(tls_server: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(CERTIFICATE))
    policy = EgressPolicy(allowed_hosts=frozenset({"llm.internal"}))
    through = EgressTransport(
        policy=policy, ssl_context=default_ssl_context(), resolve=lambda host, port: ["127.0.0.1"]
    )

    response = fetch(f"https://llm.internal:{tls_server.port}/v1/messages", through)

    assert response.status_code == 200  # so SNI and the checked name were llm.internal, not the address


def test_unknown_authority_is_refused(tls_server: ScriptedProvider) -> None:
    policy = EgressPolicy(allowed_hosts=frozenset({"llm.internal"}))
    through = transport(policy, lambda host, port: ["127.0.0.1"])

    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(f"https://llm.internal:{tls_server.port}/v1/messages", through)


def test_certificate_for_another_name_is_refused(tls_server: ScriptedProvider) -> None:
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    policy = EgressPolicy(allowed_hosts=frozenset({"other.internal"}))
    through = EgressTransport(policy=policy, ssl_context=context, resolve=lambda host, port: ["127.0.0.1"])

    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(f"https://other.internal:{tls_server.port}/v1/messages", through)
