"""Rules for calls to other services: which URLs, which addresses, and when to stop asking.

The operator sets the URLs of language models, rerankers and embedders, so their rule prevents mistakes: sending keys or
runs unencrypted, or a typo that reaches a cloud's metadata service. The URLs of webhooks are set in projects, so they
reach public addresses alone, apart from hosts that the operator names. Clients do not follow redirects (reliability
D8). A service that does not answer is not asked for a while, so that tasks do not wait for it (A16).
"""

import ipaddress
import time
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def find_url_fault(url: str) -> str:
    """Return why this URL must not be used, as a sentence, or "" if it is fine."""
    try:
        parts = urlsplit(url)
        # "localhost." with the root's dot is the same host, and must not pass as another.
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return "The URL is not valid."
    if parts.scheme not in ("http", "https") or not host:
        return "The URL must start with https:// and name a host."
    if "@" in parts.netloc:
        return "The URL must not contain a user name or password; use the setting for the key."
    address = _read_address(host)
    if address is not None and _is_metadata(address):
        return "The host is an address at which clouds offer their metadata service."
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    if parts.scheme == "http" and not is_local and host not in settings.ERL_HTTP_HOSTS:
        return "The URL must start with https://. For a host in your own network, add the host to ERL_HTTP_HOSTS."
    return ""


def goes_through_proxy(host: str) -> bool:
    """Tell whether the operator's proxy stands between ERL and a host: not this machine, and no host of their own."""
    host = host.strip("[]").rstrip(".").lower()
    if not settings.ERL_HTTP_PROXY or host == "localhost" or host in settings.ERL_HTTP_HOSTS:
        return False
    address = _read_address(host)
    return address is None or not address.is_loopback


def split_options(url: str, *names: str) -> tuple[str, dict[str, str]]:
    """Return a URL of a setting without the options in its query, and these: https://host/v1?model=name."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    rest = urlencode([(name, value) for name, value in given if name not in names])
    return urlunsplit(parts._replace(query=rest)), {name: value for name, value in given if name in names}


def find_project_url_fault(url: str) -> str:
    """Return why a project must not send anything to this URL, as a sentence, or "" if nothing speaks against it.

    What the name of the host stands for is checked by `find_address_fault` when a connection is made.
    """
    if fault := find_url_fault(url):
        return fault
    host = (urlsplit(url).hostname or "").rstrip(".")
    # The name is known to mean this machine, so it need not wait for a connection to be refused.
    address = _read_address("127.0.0.1" if host == "localhost" else host)
    return "" if address is None else find_address_fault(host, str(address))


def find_address_fault(host: str, address: str) -> str:
    """Return why a project must not send anything to this address of a host, as a sentence, or "" if it may."""
    read = _read_address(address)
    if read is None or _is_metadata(read):
        return "The host is an address at which clouds offer their metadata service."
    if host.rstrip(".").lower() in settings.ERL_HTTP_HOSTS or _is_public(read):
        return ""
    return "The host is in a private network. If it is one of yours, add the host to ERL_HTTP_HOSTS."


# The special-purpose registries of IANA (2025-10), as networks: what `is_global` says differs between Pythons. Those
# that are reachable but stand for other services (AS112, AMT, relays) are no hosts of anyone either.
_SPECIAL_IPV4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")  # nothing else is assigned to hosts
_SPECIAL_IPV6 = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
# IPv6 networks whose last 32 bits are an IPv4 address: IPv4-compatible, translated, NAT64
_ENDING_IN_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
# Of metadata services that are not link-local: Alibaba, Oracle, AWS
_METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "192.0.0.192", "fd00:ec2::254")))


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    return address in _GLOBAL_IPV6 and not any(address in network for network in _SPECIAL_IPV6)


def _is_metadata(address: _Address) -> bool:
    """Tell whether an address, or one that stands in it, is one at which clouds offer their metadata."""
    inner = [address, *_embedded(address)]
    return any(candidate.is_link_local or candidate in _METADATA for candidate in inner)


def _embedded(address: _Address) -> list[_Address]:
    """Return the IPv4 addresses in an IPv6 address: of NAT64, of 6to4, of both ends of Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    if any(address in network for network in _ENDING_IN_IPV4):
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [inner for inner in (address.sixtofour, *(address.teredo or ())) if inner is not None]


def _read_address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    # ::ffff:10.0.0.1 reaches 10.0.0.1, so it is judged as that.
    return getattr(address, "ipv4_mapped", None) or address


class Breaker:
    """Counts failures in a row; after `failures` of them the service rests. Each process has one for each service."""

    def __init__(self, *, failures: int = 3, rest_seconds: float = 30.0) -> None:
        self._allowed = failures
        self._rest_seconds = rest_seconds
        self._failures = 0
        self._resting_until = 0.0

    @property
    def is_resting(self) -> bool:
        return time.monotonic() < self._resting_until

    def note(self, *, answered: bool) -> None:
        """Count an answer or a failure. After a rest one more failure starts the next."""
        self._failures = 0 if answered else self._failures + 1
        if self._failures >= self._allowed:
            # After the rest a single failure is enough for the next one.
            self._failures = self._allowed - 1
            self._resting_until = time.monotonic() + self._rest_seconds

    def reset(self) -> None:
        """Forget every failure."""
        self._failures, self._resting_until = 0, 0.0
