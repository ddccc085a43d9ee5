"""What the pages of the admin that belong to no table have in common, and the page that lists all tables."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number on the home page, as a tile if it `is_large`. `link` is a path of the admin to the list behind it."""

    label: str
    value: str
    link: str = ""
    note: str = ""
    alarming: bool = False
    is_large: bool = False
    points: str = ""  # of its days as a small line


def page_context(request: HttpRequest, title: str, **context: Any) -> dict[str, Any]:
    """Return what every page of the admin needs, and what this one shows."""
    return {**admin.site.each_context(request), "title": title, **context}


def tables_page(request: HttpRequest) -> HttpResponse:
    """List every table of the database, as Django's admin does; for superusers."""
    if not request.user.is_superuser:
        raise PermissionDenied
    return TemplateResponse(request, "admin/tables.html", page_context(request, "All tables"))
