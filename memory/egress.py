"""The rule for URLs of language models, rerankers and embedding services.

The operator sets these URLs, so the rule prevents mistakes: sending keys or runs unencrypted, or a typo that reaches a
cloud's metadata service. Clients do not follow redirects (reliability D8).
"""

import ipaddress
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


def _read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
