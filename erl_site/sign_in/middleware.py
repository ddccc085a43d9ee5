"""Rules for every page of the admin: how long a session lasts, and the second factor where it is required."""

import time
from collections.abc import Callable

import structlog
from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from erl_site.sign_in.second_factor import is_verified

log = structlog.get_logger(__name__)

_SIGNED_IN_AT, _SEEN_AT = "signed_in_at", "seen_at"
_NOTE_EVERY_SECONDS = 60  # a page costs no write of the session, one a minute does


class SignInMiddleware:
    """Guard /admin/: end sessions that are too old or idle, and require the second factor where it is on.

    A middleware rather than a view decorator, so that pages added later are guarded too.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/admin/") and request.user.is_authenticated:
            if _has_expired(request):
                log.info("session_expired")
                logout(request)
                return _redirect(request, "admin:login")
            if settings.ERL_ADMIN_OTP and not _is_open(request) and not is_verified(request):
                return _redirect(request, "second-factor")
        return self.get_response(request)


def _has_expired(request: HttpRequest) -> bool:
    """Tell whether the session is too old, or was not used for too long; note that it is used."""
    now = time.time()
    session = request.session
    since, seen = session.get(_SIGNED_IN_AT), session.get(_SEEN_AT)
    if since is None or seen is None:
        session[_SIGNED_IN_AT] = session[_SEEN_AT] = round(now)
        return False
    if now - since > settings.ERL_SESSION_HOURS * 3600 or now - seen > settings.ERL_SESSION_IDLE_MINUTES * 60:
        return True
    if now - seen > _NOTE_EVERY_SECONDS:
        session[_SEEN_AT] = round(now)
    return False


def _is_open(request: HttpRequest) -> bool:
    return request.path_info in (reverse("admin:login"), reverse("admin:logout"), reverse("second-factor"))


def _redirect(request: HttpRequest, name: str) -> HttpResponse:
    wanted = request.get_full_path() if request.method == "GET" else reverse("admin:index")
    return HttpResponseRedirect(f"{reverse(name)}?{urlencode({'next': wanted})}")
