"""The OpenAPI document and the page that shows it. Neither needs a key, and neither loads anything from elsewhere."""

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer

from memory.api.errors import ErrorCode, problem


@lru_cache(maxsize=1)
def build_document() -> dict[str, Any]:
    """Return the OpenAPI document; it changes only with the code."""
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return document


@csrf_exempt
def schema(request: HttpRequest) -> HttpResponse:
    """Answer with the OpenAPI document, as JSON or with `?format=yaml` as YAML."""
    if refused := _refuse(request, known={"format"}):
        return refused
    wanted = request.GET.get("format", "json")
    if wanted == "json":
        return JsonResponse(build_document(), json_dumps_params={"ensure_ascii": False, "indent": 1})
    if wanted == "yaml":
        text = OpenApiYamlRenderer().render(build_document())  # type: ignore[no-untyped-call]
        return HttpResponse(text, content_type="application/yaml")
    message = "Send json or yaml."
    return problem(ErrorCode.INVALID_QUERY, f"format: {message}", request=request, fields={"format": [message]})


@csrf_exempt
def docs(request: HttpRequest) -> HttpResponse:
    """Show the API to people."""
    if refused := _refuse(request, known=set()):
        return refused
    return render(request, "api/docs.html")


def _refuse(request: HttpRequest, *, known: set[str]) -> HttpResponse | None:
    if request.method not in ("GET", "HEAD"):
        return problem(ErrorCode.METHOD_NOT_ALLOWED, request=request, headers={"Allow": "GET, HEAD"})
    if unknown := [name for name in request.GET if name not in known]:
        message = "This parameter is unknown. Leave it out."
        return problem(
            ErrorCode.INVALID_QUERY,
            f"{unknown[0]}: {message}",
            request=request,
            fields={name: [message] for name in unknown},
        )
    return None
