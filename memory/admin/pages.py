"""Pages of the admin that belong to no table: any app adds its own, and `erl_site/urls.py` mounts them all."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

View = Callable[..., HttpResponse]
_pages: dict[str, tuple[str, View]] = {}


def admin_page(address: str, *, name: str) -> Callable[[View], View]:
    """Serve a view at an address below /admin/, as `admin:<name>`, to people who may sign in there."""

    def add(view: View) -> View:
        _pages[name] = (address, view)
        return view

    return add


def mount_pages() -> list[URLPattern]:
    """Return the addresses of all pages that were added."""
    return [path(address, admin.site.admin_view(view), name=name) for name, (address, view) in _pages.items()]


def page_context(request: HttpRequest, title: str, **context: Any) -> dict[str, Any]:
    """Return what every page of the admin needs, and what this one shows."""
    return {**admin.site.each_context(request), "title": title, **context}


@admin_page("tables/", name="tables")
def tables_page(request: HttpRequest) -> HttpResponse:
    """List every table of the database, as Django's admin does; for superusers."""
    if not request.user.is_superuser:
        raise PermissionDenied
    return TemplateResponse(request, "admin/tables.html", page_context(request, "All tables"))
