"""Throttle password guessing, by address and by user name across addresses (reliability D14)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from math import ceil
from typing import Any

import structlog
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username, get_cool_off, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

log = structlog.get_logger(__name__)

# A user name may fail this many times as often as an address: a botnet is stopped after 100 guesses (NIST SP 800-63B).
NAME_FACTOR = 10
# A browser from which the person has signed in before has twice that, so that guesses from elsewhere, which end at 100,
# do not lock the person out (OWASP, "device cookies").
BROWSER_COOKIE = "erl_signed_in_before"
BROWSER_DAYS = 90
_BROWSER_FACTOR = 2
# A network of IPv6 has one client, who may use each of its addresses; a site has up to 65,536 such networks.
_NETWORK_BITS, _SITE_BITS = 64, 48

Failures = list[tuple[datetime, int, str]]  # the time of the last, how many, and from where; newest first


class Handler(AxesDatabaseHandler):  # type: ignore[misc]  # axes has no types
    """Counts failures as `_find_failures` says; forgets only those of the person who signs in, from that address."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        username = get_client_username(request, credentials) or ""
        limit: int = get_failure_limit(request, credentials)
        counted = _find_failures(request, username)
        # Axes knows one limit, so each count is scaled to it.
        return max(sum(failures for _, failures, _ in rows) * limit // most for rows, most in counted)

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        username = get_client_username(request, credentials)
        count, _ = AccessAttempt.objects.filter(username=username, ip_address=client_address(request)).delete()
        return int(count)


def client_address(request: HttpRequest) -> str | None:
    """Return the client's address as our outermost proxy saw it, or None if it cannot be read.

    Each proxy appends its caller's address to X-Forwarded-For. Entries further left come from the client and cannot be
    trusted. All addresses of a network of IPv6 are one.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    count = settings.ERL_PROXY_COUNT
    addresses = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    candidate = addresses[-count] if 0 < count <= len(addresses) else peer
    return _address(candidate) or _address(peer)


def sign_browser(username: str) -> str:
    """Return the value of the cookie of browsers from which a person has signed in."""
    return salted_hmac(BROWSER_COOKIE, username, algorithm="sha256").hexdigest()


def answer_locked_out(
    request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """Answer that there were too many attempts, and when to try again."""
    username = (credentials or {}).get("username") or ""
    opens_at = _find_end(request, username)
    seconds = max(1, ceil((opens_at - timezone.now()).total_seconds()))
    log.warning("sign_in_locked", seconds=seconds)
    return TemplateResponse(
        request,
        "admin/locked_out.html",
        {"title": "Too many attempts", "opens_at": opens_at, "minutes": ceil(seconds / 60)},
        status=429,
        headers={"Retry-After": str(seconds)},
    ).render()


def _find_failures(request: HttpRequest, username: str) -> list[tuple[Failures, int]]:
    """Return what counts against an attempt, and how many of each are too many.

    Many names from one address, one name from one site, and one name from anywhere. A site is counted for itself so
    that a single client with many networks can neither guess on nor lock the person out everywhere.
    """
    cool_off: timedelta = get_cool_off(request)
    limit: int = get_failure_limit(request, {"username": username})
    recent = AccessAttempt.objects.filter(attempt_time__gte=timezone.now() - cool_off).order_by("-attempt_time")
    rows = recent.values_list("attempt_time", "failures_since_start", "ip_address")
    address = client_address(request)
    of_address = (list(rows.filter(ip_address=address)), limit)
    by_name = list(rows.filter(username=username))
    if constant_time_compare(request.COOKIES.get(BROWSER_COOKIE, ""), sign_browser(username)):
        return [of_address, (by_name, limit * NAME_FACTOR * _BROWSER_FACTOR)]
    of_site = [row for row in by_name if _site(row[2]) == _site(address)]
    return [of_address, (of_site, limit), (by_name, limit * NAME_FACTOR)]


def _find_end(request: HttpRequest, username: str) -> datetime:
    """Return when enough failures will have expired."""
    ends = [_reached(rows, most) for rows, most in _find_failures(request, username)]
    cool_off: timedelta = get_cool_off(request)
    return max((at for at in ends if at), default=timezone.now()) + cool_off


def _reached(counted: Iterable[tuple[datetime, int, str]], limit: int) -> datetime | None:
    """Return when, counting back in time, the failures reached the limit."""
    total = 0
    for at, failures, _ in counted:
        total += failures
        if total >= limit:
            return at
    return None


def _address(text: str) -> str | None:
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return _network(address, _NETWORK_BITS)


def _site(address: str | None) -> str | None:
    return _network(ip_address(address), _SITE_BITS) if address else None


def _network(address: IPv4Address | IPv6Address, bits: int) -> str:
    """Return the first address of the network of IPv6 that an address is in; one of IPv4 stands for itself."""
    return str(ip_network((address, bits if address.version == 6 else 32), strict=False).network_address)
