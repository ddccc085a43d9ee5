"""The page between the password and the admin."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import AbstractBaseUser
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
    confirm_device,
    count_backup_codes,
    draw_code,
    find_device,
    is_verified,
    spell_secret,
    start_enrolment,
)

_WRONG = "This code is not right. Wait for the next one and type it again; check that the clock of your phone is right."


@sensitive_post_parameters("code")
@never_cache
@require_http_methods(["GET", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Ask for a code, or set up the authenticator app for a user who has none yet."""
    if not (request.user.is_authenticated and request.user.is_active and request.user.is_staff):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    following = _following(request)
    if is_verified(request):
        return HttpResponseRedirect(following)
    code = request.POST.get("code", "")[:64]
    if find_device(request.user) is None:
        return _enrol(request, request.user, code, following)
    error = ""
    if code:
        checked = check_code(request, code)
        if checked.device is not None:
            return HttpResponseRedirect(following)
        error = _WRONG
        if checked.retry_at:
            seconds = max(1, round((checked.retry_at - timezone.now()).total_seconds()))
            error = f"Too many wrong codes. Try again in {seconds} second{'s' if seconds != 1 else ''}."
    left = count_backup_codes(request.user)
    return _answer(request, "admin/second_factor.html", following, title="One-time code", error=error, backup_left=left)


def _enrol(request: HttpRequest, user: AbstractBaseUser, code: str, following: str) -> HttpResponse:
    device = start_enrolment(user)
    codes = confirm_device(request, device, code) if code else []
    if codes:
        return _answer(request, "admin/backup_codes.html", following, title="Backup codes", codes=codes)
    return _answer(
        request,
        "admin/second_factor_enrol.html",
        following,
        title="Set up one-time codes",
        error=_WRONG if code else "",
        picture=draw_code(device),
        secret=spell_secret(device),
    )


def _answer(request: HttpRequest, template: str, following: str, **context: Any) -> HttpResponse:
    status = 400 if context.get("error") else 200
    everywhere = {"site_header": admin.site.site_header, "site_title": admin.site.site_title, "next": following}
    return TemplateResponse(request, template, {**everywhere, **context}, status=status)


def _following(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=settings.ERL_HTTPS)
    return wanted if is_ours else reverse("admin:index")
