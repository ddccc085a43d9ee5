"""What an operator opens is reached, and nothing beside it (reliability D8)."""

import ipaddress

import pytest

from reflection.llm.addresses import kind_of
from reflection.llm.base import ProviderError
from reflection.llm.transport import EgressPolicy
from tests.reflection.providers.listening import OPEN_LOOPBACK, Listener, fetch, transport
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_reached_when_opened(host: str) -> None:
    with ScriptedProvider(answer("Yes.")) as server:
        response = fetch(f"http://{host}:{server.port}/v1/messages", transport(OPEN_LOOPBACK))

    assert response.status_code == 200


def test_opened_loopback_is_not_for_names_that_lead_there(listener: Listener) -> None:
    through = transport(OPEN_LOOPBACK, lambda host, port: ["127.0.0.1"])

    with pytest.raises(ProviderError):
        fetch(f"https://evil.example:{listener.port}/", through)

    assert listener.connections == 0


def test_localhost_that_leads_elsewhere_is_refused() -> None:
    through = transport(OPEN_LOOPBACK, lambda host, port: ["10.0.0.1"])

    with pytest.raises(ProviderError):
        fetch("http://localhost:1/", through)


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "224.0.0.1", "0.0.0.0", "::ffff:10.0.0.1"])  # noqa: S104
def test_allowed_host_does_not_open_metadata(address: str) -> None:
    policy = EgressPolicy(allowed_hosts=frozenset({"llm.internal"}))

    with pytest.raises(ProviderError):
        fetch("http://llm.internal/", transport(policy, lambda host, port: [address]))


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", "public"),
        ("2606:4700:4700::1111", "public"),
        ("64:ff9b::808:808", "public"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("10.1.2.3", "private"),
        ("fd00::1", "private"),
        ("100.64.1.1", "private"),
        ("169.254.169.254", "forbidden"),
        ("::ffff:8.8.8.8", "forbidden"),
        ("64:ff9b::a00:1", "forbidden"),
        ("2002:808:808::1", "forbidden"),
        ("fec0::1", "forbidden"),
        ("ff0e::1", "forbidden"),
    ],
)
def test_address_is_judged(address: str, kind: str) -> None:
    assert kind_of(ipaddress.ip_address(address)) == kind
