"""The page Health: what `manage.py check --running` says, for superusers."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from desk.shell.pages import page_context
from erl_site.diagnosis.database import DatabaseStatus
from erl_site.diagnosis.running import diagnose

_ORDER = (DatabaseStatus.FAILURE, DatabaseStatus.WARNING, DatabaseStatus.OK)


def health_page(request: HttpRequest) -> HttpResponse:
    """Run all checks, and show first what failed."""
    if not request.user.is_superuser:
        raise PermissionDenied
    results = sorted(diagnose(), key=lambda result: _ORDER.index(result.status))
    counts = {status.value: sum(result.status == status for result in results) for status in _ORDER}
    shown = {"results": results, "counts": counts}
    return TemplateResponse(request, "admin/health.html", page_context(request, "Health", **shown))
