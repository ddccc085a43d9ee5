"""No connection leaves for an address that the operator did not open (reliability D8)."""

import httpx
import pytest

from reflection.llm.base import ProviderError
from reflection.llm.registry import ProviderConfig, build_provider
from reflection.llm.transport import EgressPolicy
from tests.reflection.providers.asking import REQUEST
from tests.reflection.providers.listening import CLOSED, OPEN_LOOPBACK, Listener, fetch, transport
from tests.scripted_answers import answer, redirects
from tests.scripted_provider import ScriptedProvider

FORBIDDEN_HOSTS = [
    # Loopback, in every spelling
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    # This network, unspecified, broadcast
    "0.0.0.0",  # noqa: S104
    "0",
    "[::]",
    "255.255.255.255",
    # Private
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.254",
    "[fc00::1]",
    "[fd12:3456:789a::1]",
    "[::ffff:10.0.0.1]",
    "[64:ff9b::a00:1]",
    "[2002:c0a8:101::1]",
    # Metadata of clouds, and link-local
    "169.254.169.254",
    "[::ffff:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "0xa9fea9fe",
    "2852039166",
    "169.254.1.1",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "100.100.100.200",
    "168.63.129.16",
    # Multicast, reserved, documentation, benchmarking
    "224.0.0.1",
    "239.255.255.250",
    "[ff02::1]",
    "240.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
]


def test_listener_counts_connections(listener: Listener) -> None:
    """The control: an ordinary client does reach what the tests below must not."""
    with pytest.raises(httpx.TransportError), httpx.Client(trust_env=False, timeout=2) as client:
        client.post(f"http://127.0.0.1:{listener.port}/", json={})

    assert listener.connections == 1


@pytest.mark.parametrize("host", FORBIDDEN_HOSTS)
def test_forbidden_host_is_never_connected_to(host: str, listener: Listener) -> None:
    with pytest.raises((ProviderError, httpx.TransportError, httpx.InvalidURL)) as caught:
        fetch(f"https://{host}:{listener.port}/v1/messages", transport(CLOSED))

    # A transport error is allowed only where the name means nothing, never after a connection
    assert not isinstance(caught.value, httpx.TransportError) or "resolve" in str(caught.value)
    assert listener.connections == 0


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433"])  # noqa: S104
def test_opened_loopback_opens_nothing_else(host: str, listener: Listener) -> None:
    with pytest.raises(ProviderError):
        fetch(f"https://{host}:{listener.port}/", transport(OPEN_LOOPBACK))

    assert listener.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "http://api.example.com/",
        "https://user:secret@api.example.com/",
        "https://api.example.com@127.0.0.1/",
        "gopher://127.0.0.1/",
    ],
)
def test_url_out_of_bounds_is_refused_before_its_name_is_resolved(url: str) -> None:
    def resolve(name: str, port: int) -> list[str]:
        raise AssertionError("resolved")

    with pytest.raises((ProviderError, httpx.UnsupportedProtocol)):
        fetch(url, transport(CLOSED, resolve))


def test_one_forbidden_address_among_public_ones_refuses_the_host(listener: Listener) -> None:
    through = transport(CLOSED, lambda host, port: ["93.184.216.34", "127.0.0.1"])

    with pytest.raises(ProviderError) as caught:
        fetch(f"https://api.example.com:{listener.port}/", through)

    assert (caught.value.transient, caught.value.code) == (False, "egress_refused")
    assert listener.connections == 0


def test_name_that_rebinds_gains_nothing(listener: Listener) -> None:
    """The first answer is public, every later one is loopback: the checked address is the one connected to."""
    answers = iter([["192.0.2.1"], ["127.0.0.1"]])
    through = transport(CLOSED, lambda host, port: next(answers))

    for _ in range(2):
        with pytest.raises(ProviderError):
            fetch(f"https://rebind.example:{listener.port}/", through)

    assert listener.connections == 0


def test_name_is_resolved_once_for_a_connection() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with ScriptedProvider(answer("Yes.")) as server:
        policy = EgressPolicy(allowed_hosts=frozenset({"llm.internal"}))
        fetch(f"http://llm.internal:{server.port}/v1/messages", transport(policy, resolve))

        assert asked == ["llm.internal"]
        assert server.requests[0].headers["host"] == f"llm.internal:{server.port}"


def test_redirect_to_loopback_is_not_followed(listener: Listener) -> None:
    with ScriptedProvider(redirects(f"http://127.0.0.1:{listener.port}/")) as server:
        provider = build_provider(
            ProviderConfig(
                name="openai",
                model="m",
                base_url=server.openai_url,
                timeout_seconds=5,
                policy=OPEN_LOOPBACK,
                api_key="k",
            )
        )
        with pytest.raises(ProviderError, match="another address"):
            provider.complete(REQUEST)
        provider.close()

    assert listener.connections == 0


def test_environment_proxy_is_ignored(monkeypatch: pytest.MonkeyPatch, listener: Listener) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    with ScriptedProvider(answer("Yes.")) as server:
        provider = build_provider(
            ProviderConfig(
                name="anthropic",
                model="m",
                base_url=server.anthropic_url,
                timeout_seconds=5,
                policy=OPEN_LOOPBACK,
                api_key="k",
            )
        )
        text = provider.complete(REQUEST).text
        provider.close()

    assert text == "Yes."
    assert listener.connections == 0


def test_second_address_is_tried_when_the_first_is_dead() -> None:
    policy = EgressPolicy(allowed_hosts=frozenset({"llm.internal"}))
    with ScriptedProvider(answer("Yes.")) as server:
        through = transport(policy, lambda host, port: ["127.9.9.9", "127.0.0.1"])
        response = fetch(f"http://llm.internal:{server.port}/v1/messages", through)

    assert response.status_code == 200


@pytest.mark.parametrize("answer_of_dns", [[], ["fe80::1%eth0"], ["nonsense"]])
def test_odd_answers_of_the_dns_are_refused(answer_of_dns: list[str]) -> None:
    with pytest.raises((ProviderError, httpx.ConnectError)):
        fetch("https://odd.example/", transport(CLOSED, lambda host, port: answer_of_dns))


def test_host_that_does_not_exist_is_a_connect_error() -> None:
    with pytest.raises(httpx.ConnectError, match="resolved"):
        fetch("https://does-not-exist.invalid/", transport(CLOSED))
