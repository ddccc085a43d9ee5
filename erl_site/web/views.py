"""Health and readiness, and error responses for requests that reach no other view."""

import json
import sys
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.views import defaults
from django.views.csrf import csrf_failure as django_csrf_failure
from django.views.decorators.csrf import csrf_exempt

from erl_site.web import health as checks
from erl_site.web.application import waiting_requests
from memory.api.errors import RETRY_AFTER_SECONDS, ErrorCode, problem
from memory.api.exception_handler import find_refusal


@csrf_exempt
def health(request: HttpRequest) -> HttpResponse:
    """Answer that this process is alive. If it does not answer, restart it."""
    return _refuse_method(request) or JsonResponse({"status": "ok"})


@csrf_exempt
def ready(request: HttpRequest) -> HttpResponse:
    """Answer whether requests can be served: not where the database does not answer or cannot write.

    Without the broker or the embedder they are served, degraded.
    """
    if refused := _refuse_method(request):
        return refused
    broker = "ok" if checks.broker.succeeds() else "unavailable"
    states = {"broker": broker, "embedder": checks.embedder_state()}
    state = "unavailable" if not checks.database.succeeds() else "ok" if checks.disk.succeeds() else "not_writable"
    if state != "ok":
        error = json.loads(problem(ErrorCode.DATABASE_UNAVAILABLE).content)["error"]
        body = {"status": "unavailable", "checks": {"database": state, **states}, "error": error}
        return JsonResponse(body, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
    degraded = "unavailable" in states.values()
    return JsonResponse({"status": "degraded" if degraded else "ready", "checks": {"database": "ok", **states}})


@csrf_exempt
def waiting(request: HttpRequest) -> HttpResponse:
    """Say how many requests wait for a thread of this process."""
    if refused := _refuse_method(request):
        return refused
    text = f"# TYPE erl_waiting_requests gauge\nerl_waiting_requests {waiting_requests.get()}\n"
    return HttpResponse(text, content_type="text/plain; version=0.0.4")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_admin(request):
        return defaults.bad_request(request, exception)
    refusal = find_refusal(exception)
    code = refusal.error_code if refusal else ErrorCode.INVALID_REQUEST
    return problem(code, refusal.message if refusal else "", request=request)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_admin(request):
        return defaults.permission_denied(request, exception)
    return problem(ErrorCode.PERMISSION_DENIED, request=request)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_admin(request):
        return defaults.page_not_found(request, exception)
    return problem(ErrorCode.NOT_FOUND, request=request)


def server_error(request: HttpRequest) -> HttpResponse:
    error = sys.exc_info()[1]
    refusal = find_refusal(error) if error else None
    if _is_admin(request):
        if refusal is None or refusal.error_code != ErrorCode.DATABASE_UNAVAILABLE:
            return defaults.server_error(request)
        page = loader.render_to_string("503.html")  # without a request, whose context asks the database
        return HttpResponse(page, status=503, headers=refusal.headers)
    if refusal is None:
        return problem(ErrorCode.INTERNAL_ERROR, request=request)
    return problem(refusal.error_code, refusal.message, request=request, headers=refusal.headers)


def csrf_failure(request: HttpRequest, reason: str = "", **kwargs: Any) -> HttpResponse:
    if _is_admin(request):
        return django_csrf_failure(request, reason=reason, **kwargs)
    return problem(ErrorCode.PERMISSION_DENIED, request=request)


def _is_admin(request: HttpRequest) -> bool:
    return request.path_info.startswith("/admin/")


def _refuse_method(request: HttpRequest) -> HttpResponse | None:
    if request.method in ("GET", "HEAD"):
        return None
    return problem(ErrorCode.METHOD_NOT_ALLOWED, request=request, headers={"Allow": "GET, HEAD"})
