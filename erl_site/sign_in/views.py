"""The second-factor page, between password and admin."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import authenticate
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from erl_site.sign_in.second_factor import (
    check_code,
    confirm_enrolment,
    count_backup_codes,
    draw_code,
    find_device,
    is_verified,
    spell_secret,
    start_enrolment,
)

_NOT_THE_PASSWORD = "This password is wrong."  # noqa: S105
_WRONG = "This code is wrong. Wait for the next one and try again. Check that your phone's clock is correct."


@sensitive_post_parameters("code", "password")
@never_cache
@require_http_methods(["GET", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Ask for a code, or set up an authenticator app if the user has none."""
    if not (request.user.is_authenticated and request.user.is_active and request.user.is_staff):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    next_url = _find_next_url(request)
    if is_verified(request) or not settings.ERL_ADMIN_OTP:
        return HttpResponseRedirect(next_url)
    code = request.POST.get("code", "")[:64]
    if find_device(request.user) is None:
        return _enrol(request, code, next_url)
    error = ""
    if code:
        checked = check_code(request, code)
        if checked.device is not None:
            return HttpResponseRedirect(next_url)
        error = _WRONG
        if checked.retry_at:
            seconds = max(1, round((checked.retry_at - timezone.now()).total_seconds()))
            error = f"Too many wrong codes. Try again in {seconds} second{'s' if seconds != 1 else ''}."
    left = count_backup_codes(request.user)
    return _answer(request, "admin/second_factor.html", next_url, title="One-time code", error=error, backup_left=left)


def _enrol(request: HttpRequest, code: str, next_url: str) -> HttpResponse:
    """Show a secret once, and take a code of it together with the password: a session alone sets nothing up."""
    title = "Set up one-time codes"
    if not code:
        device = start_enrolment(request)
        shown = {"picture": draw_code(device), "secret": spell_secret(device)}
        return _answer(request, "admin/second_factor_enrol.html", next_url, title=title, **shown)
    error = _WRONG
    if authenticate(request, username=request.user.get_username(), password=request.POST.get("password", "")) is None:
        error = _NOT_THE_PASSWORD
    elif codes := confirm_enrolment(request, code):
        return _answer(request, "admin/backup_codes.html", next_url, title="Backup codes", codes=codes)
    return _answer(request, "admin/second_factor_enrol.html", next_url, title=title, error=error)


def _answer(request: HttpRequest, template: str, next_url: str, **context: Any) -> HttpResponse:
    status = 400 if context.get("error") else 200
    common = {"site_header": admin.site.site_header, "site_title": admin.site.site_title, "next": next_url}
    return TemplateResponse(request, template, {**common, **context}, status=status)


def _find_next_url(request: HttpRequest) -> str:
    target = request.POST.get("next") or request.GET.get("next", "")
    # A link must not lead from the sign-in to another site.
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=settings.ERL_HTTPS)
    return target if is_ours else reverse("admin:index")
