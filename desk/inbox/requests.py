"""What a request of the inbox asks for: the kind, the filters, and the form in which it wants the answer."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control

from desk.inbox.all_kinds import KINDS, list_kinds
from desk.inbox.kinds import ItemKind
from desk.shell.chosen_project import chosen_project, names_a_project, narrow_to_chosen
from memory.projects.access import projects_with_role
from memory.projects.models import ProjectMembership

_PROJECT = "project__id__exact"


def get_kind(request: HttpRequest, name: str) -> ItemKind:
    """Return a kind that the person may see."""
    kind = next((kind for kind in KINDS if kind.name == name), None)
    if kind is None:
        raise Http404
    if not request.user.has_perm(kind.permission):
        raise PermissionDenied(f"You need the permission to see a {kind.noun}, and you do not have it.")
    return kind


def is_reviewer_of_chosen(request: HttpRequest) -> bool:
    """Tell whether the person is a reviewer of the chosen project, or of any. One query."""
    reviewed = projects_with_role(request.user, ProjectMembership.Role.REVIEWER)
    return narrow_to_chosen(reviewed, request, path="pk").exists()


def list_own_kinds(request: HttpRequest) -> list[ItemKind]:
    """Return the kinds on which the person may decide in the chosen project, or in any. One query."""
    user: Any = request.user
    kinds = [kind for kind in list_kinds(user) if user.has_perm(kind.decides)]
    return kinds if kinds and is_reviewer_of_chosen(request) else []


def read_query(request: HttpRequest) -> str:
    """Return the filters of the address, which links and forms carry on."""
    given = request.GET.copy()
    for name in ("tab", "listed", "item", "_changelist_filters"):
        given.pop(name, None)
    return given.urlencode()


def read_filters(request: HttpRequest) -> str:
    """Return the filters of the address, and the chosen project unless the address names one."""
    query = read_query(request)
    given, project = parse_qsl(query), chosen_project(request)
    if project is None or names_a_project(dict(given), "project"):
        return query
    return urlencode([*given, (_PROJECT, str(project.pk))])


def read_project(request: HttpRequest) -> str:
    """Return the chosen project as the only filter."""
    project = chosen_project(request)
    return "" if project is None else urlencode({_PROJECT: project.pk})


def with_query(request: HttpRequest, address: str) -> str:
    """Return an address of the inbox with the filters of this one."""
    query = read_query(request)
    return f"{address}?{query}" if query else address


def is_fragment(request: HttpRequest) -> bool:
    """Tell whether a part of a page is wanted."""
    return request.headers.get("HX-Request") == "true"


def wants_json(request: HttpRequest) -> bool:
    """Tell whether the script of the inbox asks."""
    return request.headers.get("Accept", "").startswith("application/json")


def without_storing(response: HttpResponse) -> HttpResponse:
    """Keep an answer out of the browser's cache: what was waiting a moment ago may be decided."""
    patch_cache_control(response, no_store=True)
    return response
