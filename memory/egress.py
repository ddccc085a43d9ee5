"""Rules for calls to other services: which URLs, which addresses, and when to stop asking.

The operator sets the URLs of language models, rerankers and embedders, so their rule prevents mistakes: sending keys or
runs unencrypted, or a typo that reaches a cloud's metadata service. The URLs of webhooks are set in projects, so they
reach public addresses alone, apart from hosts that the operator names. Clients do not follow redirects (reliability
D8). A service that does not answer is not asked for a while, so that tasks do not wait for it (A16).
"""

import ipaddress
import time
from urllib.parse import urlsplit

from django.conf import settings


def find_url_fault(url: str) -> str:
    """Return why this URL must not be used, as a sentence, or "" if it is fine."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return "The URL is not valid."
    if parts.scheme not in ("http", "https") or not host:
        return "The URL must start with https:// and name a host."
    if "@" in parts.netloc:
        return "The URL must not contain a user name or password; use the setting for the key."
    address = _read_address(host)
    if address is not None and address.is_link_local:
        return "The host is a link-local address, which clouds use for their metadata service."
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    if parts.scheme == "http" and not is_local and host not in settings.ERL_HTTP_HOSTS:
        return "The URL must start with https://. For a host in your own network, add the host to ERL_HTTP_HOSTS."
    return ""


def find_project_url_fault(url: str) -> str:
    """Return why a project must not send anything to this URL, as a sentence, or "" if nothing speaks against it.

    What the name of the host stands for is checked by `find_address_fault` when a connection is made.
    """
    if fault := find_url_fault(url):
        return fault
    host = (urlsplit(url).hostname or "").rstrip(".")
    address = _read_address("127.0.0.1" if host == "localhost" else host)
    return "" if address is None else find_address_fault(host, str(address))


def find_address_fault(host: str, address: str) -> str:
    """Return why a project must not send anything to this address of a host, as a sentence, or "" if it may."""
    read = _read_address(address)
    if read is None or read.is_link_local:
        return "The host is a link-local address, which clouds use for their metadata service."
    if host.rstrip(".").lower() in settings.ERL_HTTP_HOSTS or _is_public(read):
        return ""
    return "The host is in a private network. If it is one of yours, add the host to ERL_HTTP_HOSTS."


# Addresses that stand for others behind them: NAT64, 6to4 and Teredo
_TRANSLATED = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_translated = address.version == 6 and any(address in network for network in _TRANSLATED)
    return address.is_global and not address.is_multicast and not is_translated


def _read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
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
            self._failures = self._allowed - 1
            self._resting_until = time.monotonic() + self._rest_seconds

    def reset(self) -> None:
        """Forget every failure."""
        self._failures, self._resting_until = 0, 0.0
