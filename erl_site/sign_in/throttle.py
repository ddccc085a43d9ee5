"""Slow down password guessing, by address and by name across many addresses (reliability D14)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address
from math import ceil
from typing import Any

import structlog
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_cool_off, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

log = structlog.get_logger(__name__)

# A name may fail this many times as often as an address: a whole botnet is stopped at 100 guesses (NIST SP 800-63B),
# while a single stranger cannot keep a reviewer out.
NAME_FACTOR = 10


class Handler(AxesDatabaseHandler):  # type: ignore[misc]  # axes has no types
    """Count failures of the address, and a tenth of those of the name."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        by_address, by_name = (
            sum(attempts.values_list("failures_since_start", flat=True))
            for attempts in self.get_user_attempts(request, credentials)
        )
        return int(max(by_address, by_name // NAME_FACTOR))


def client_address(request: HttpRequest) -> str | None:
    """Return the address of the client as the nearest of our own proxies saw it, None where there is none.

    Each proxy appends who it was called by to X-Forwarded-For. What stands further left came from the client and may
    be anything.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    count = settings.ERL_PROXY_COUNT
    named = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    candidate = named[-count] if 0 < count <= len(named) else peer
    return _address(candidate) or _address(peer)


def answer_locked_out(
    request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """Say that there were too many attempts and when the next may be made."""
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


def _find_end(request: HttpRequest, username: str) -> datetime:
    """Return when enough of the failures are old enough to be forgotten."""
    cool_off: timedelta = get_cool_off(request)
    limit: int = get_failure_limit(request, {"username": username})
    recent = AccessAttempt.objects.filter(attempt_time__gte=timezone.now() - cool_off).order_by("-attempt_time")
    counted = recent.values_list("attempt_time", "failures_since_start")
    ends = [
        _reached(counted.filter(ip_address=client_address(request)), limit),
        _reached(counted.filter(username=username), limit * NAME_FACTOR),
    ]
    return max((at for at in ends if at), default=timezone.now()) + cool_off


def _reached(counted: Iterable[tuple[datetime, int]], limit: int) -> datetime | None:
    """Return when, going back, the failures were as many as the limit."""
    total = 0
    for at, failures in counted:
        total += failures
        if total >= limit:
            return at
    return None


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        return None
