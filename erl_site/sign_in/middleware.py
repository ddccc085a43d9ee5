"""Session expiry and second factor for all admin pages."""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog
from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from erl_site.sign_in.second_factor import is_verified
from erl_site.sign_in.throttle import BROWSER_COOKIE, BROWSER_DAYS, sign_browser

log = structlog.get_logger(__name__)

_SIGNED_IN_AT, _SEEN_AT = "signed_in_at", "seen_at"
IDLE_SECONDS = 2 * 3600
_UPDATE_SECONDS = 60  # write the session at most this often


class SignInMiddleware:
    """Protects /admin/: ends old or idle sessions, and requires the second factor if it is enabled.

    As middleware rather than a view decorator, it also covers pages added later.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/admin/") and request.user.is_authenticated:
            if _has_expired(request):
                log.info("session_expired")
                logout(request)
                return _redirect(request, "admin:login")
            if settings.ERL_ADMIN_OTP and not _is_exempt(request) and not is_verified(request):
                return _redirect(request, "second-factor")
        response = self.get_response(request)
        if request.path == reverse("admin:login") and response.status_code == 302 and request.user.is_authenticated:
            _remember_browser(request, response)
        return response


def _has_expired(request: HttpRequest) -> bool:
    """Return whether the session is too old or was idle too long; otherwise record its use."""
    now = time.time()
    session = request.session
    since, seen = session.get(_SIGNED_IN_AT), session.get(_SEEN_AT)
    if since is None or seen is None:
        session[_SIGNED_IN_AT] = session[_SEEN_AT] = round(now)
        return False
    if now - since > settings.SESSION_COOKIE_AGE or now - seen > IDLE_SECONDS:
        return True
    if now - seen > _UPDATE_SECONDS and request.path != reverse("admin:inbox_count"):  # asked every minute
        session[_SEEN_AT] = round(now)
    return False


def _remember_browser(request: HttpRequest, response: HttpResponse) -> None:
    """Remember the browser, so that guesses from elsewhere do not lock out the person who signed in here."""
    response.set_cookie(
        BROWSER_COOKIE,
        sign_browser(request.user.get_username()),
        max_age=timedelta(days=BROWSER_DAYS),
        path=reverse("admin:login"),
        secure=settings.ERL_HTTPS,
        httponly=True,
        samesite="Lax",
    )


def _is_exempt(request: HttpRequest) -> bool:
    return request.path in (reverse("admin:login"), reverse("admin:logout"), reverse("second-factor"))


def _redirect(request: HttpRequest, name: str) -> HttpResponse:
    # What was posted cannot be sent again after signing in.
    target = request.get_full_path() if request.method == "GET" else reverse("admin:index")
    return HttpResponseRedirect(f"{reverse(name)}?{urlencode({'next': target})}")
