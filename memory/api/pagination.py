"""Pages by limit and offset, in a fixed order (reliability A14)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.errors import ErrorCode, Refusal
from memory.limits import DEFAULT_PAGE_ROWS, MAX_PAGE_OFFSET, MAX_PAGE_ROWS

_DIGITS = re.compile(r"[0-9]{1,6}")


class LimitOffset(BasePagination):
    """`?limit=1–200&offset=0–100000`, answered with `{"results": […], "pagination": {"limit", "offset", "total"}}`."""

    query_params = ("limit", "offset")

    def paginate_queryset(self, queryset: QuerySet[Any], request: Request, view: Any = None) -> list[Any] | None:
        self.limit = _read(request.query_params, "limit", default=DEFAULT_PAGE_ROWS, least=1, most=MAX_PAGE_ROWS)
        self.offset = _read(request.query_params, "offset", default=0, least=0, most=MAX_PAGE_OFFSET)
        self.total = queryset.count()
        if self.offset >= self.total:
            return []
        return list(_in_fixed_order(queryset)[self.offset : self.offset + self.limit])

    def get_paginated_response(self, data: Any) -> Response:
        page = {"limit": self.limit, "offset": self.offset, "total": self.total}
        return Response({"results": data, "pagination": page})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        whole = {"type": "integer", "minimum": 0}
        return {
            "type": "object",
            "required": ["results", "pagination"],
            "properties": {
                "results": schema,
                "pagination": {
                    "type": "object",
                    "required": ["limit", "offset", "total"],
                    "properties": {"limit": whole, "offset": whole, "total": whole},
                },
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            _parameter("limit", "How many results to return.", DEFAULT_PAGE_ROWS, 1, MAX_PAGE_ROWS),
            _parameter("offset", "How many results to skip.", 0, 0, MAX_PAGE_OFFSET),
        ]


def _read(params: Mapping[str, str], name: str, *, default: int, least: int, most: int) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        message = f"Send a whole number from {least} to {most}."
        raise Refusal(ErrorCode.INVALID_QUERY, f"{name}: {message}", fields={name: [message]})
    return int(text)


def _in_fixed_order(queryset: QuerySet[Model]) -> QuerySet[Model]:
    """End the ordering with the primary key, so that rows that compare equal keep their order from page to page."""
    order: Sequence[Any] = queryset.query.order_by or queryset.model._meta.ordering or ()
    if {"id", "-id", "pk", "-pk"}.intersection(term for term in order if isinstance(term, str)):
        return queryset
    return queryset.order_by(*order, "-pk")


def _parameter(name: str, description: str, default: int, least: int, most: int) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}
