"""Which addresses a language model, a reranker or an embedding service may have: one rule for all of them.

The operator sets these addresses, so the rule guards against mistakes: a key or a run's text that travels in the
clear, and a typo that asks the metadata service of a cloud. Clients follow no redirects (reliability D8).
"""

import ipaddress
from urllib.parse import urlsplit

from django.conf import settings


def find_url_fault(url: str) -> str:
    """Return why no service may be asked at this URL, as a sentence, or "" if it may."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return "The URL is not valid."
    if parts.scheme not in ("http", "https") or not host:
        return "The URL must start with https:// and name a host."
    if "@" in parts.netloc:
        return "The URL must not contain a user name or password; there is a setting for the key."
    address = _read_address(host)
    if address is not None and address.is_link_local:
        return "The host is a link-local address, where clouds have their metadata service."
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    if parts.scheme == "http" and not is_local and host not in settings.ERL_HTTP_HOSTS:
        return "The URL must start with https://. For a host in your own network add it to ERL_HTTP_HOSTS."
    return ""


def _read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
