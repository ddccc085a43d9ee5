"""The project a person works in: kept in the session, and every list of the admin shows only its rows."""

from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from memory.projects.access import narrow_to_projects, visible_projects
from memory.projects.models import Project

MOST_OFFERED = 100
_SESSION = "project"

Row = TypeVar("Row", bound=Model)


def offered_projects(request: HttpRequest) -> list[Project]:
    """Return the projects a person may choose from. One query for a request."""
    if not hasattr(request, "offered_projects"):
        rows = visible_projects(request.user).only("pk", "name", "slug").order_by("name", "slug")
        request.offered_projects = list(rows[:MOST_OFFERED])  # type: ignore[attr-defined]
    offered: list[Project] = request.offered_projects  # type: ignore[attr-defined]
    return offered


def chosen_project(request: HttpRequest) -> Project | None:
    """Return the project that was chosen, if the person may still see it; None for all of them."""
    wanted = getattr(request, "session", {}).get(_SESSION)
    if not wanted:
        return None
    project = next((candidate for candidate in offered_projects(request) if str(candidate.pk) == wanted), None)
    # With more projects than are offered, it may be one of the others.
    if project is None and len(offered_projects(request)) == MOST_OFFERED:
        project = visible_projects(request.user).filter(pk=wanted).first()
    return project


def narrow_to_chosen(queryset: QuerySet[Row], request: HttpRequest, *, path: str = "project") -> QuerySet[Row]:
    """Keep the rows of the chosen project, or of all projects a person may see."""
    rows = narrow_to_projects(queryset, request.user, path=path)
    project = chosen_project(request)
    return rows if project is None else rows.filter(**{path: project.pk})


def names_a_project(query: Any, path: str) -> bool:
    """Tell whether an address names a project itself, which goes before the choice."""
    return any(name == path or name.startswith(f"{path}__") for name in query)


def choose_project(request: HttpRequest) -> HttpResponse:
    """Keep a project in the session, or all of them, and go back."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    wanted = request.POST.get("project", "")
    try:
        is_visible = bool(wanted) and visible_projects(request.user).filter(pk=wanted).exists()
    except (ValidationError, ValueError):
        is_visible = False
    if is_visible:
        request.session[_SESSION] = wanted
    else:
        request.session.pop(_SESSION, None)
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return HttpResponseRedirect(back if safe else reverse("admin:index"))
