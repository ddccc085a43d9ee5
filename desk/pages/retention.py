"""How long each project keeps its texts: the periods, what they are counted from, and what is due now."""

from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from desk.shell.chosen_project import chosen_project, offered_projects
from desk.shell.pages import page_context
from memory.projects.access import has_role
from memory.projects.models import Project, ProjectMembership
from memory.trust.periods import DueRows, find_due

MOST_SHOWN = 20  # projects; another one is chosen above


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectPeriods:
    """A project with its periods."""

    project: Project
    rows: list[DueRows]
    may_change: bool


def retention_page(request: HttpRequest) -> HttpResponse:
    """Show the table for the chosen project, or for each that a person may see. It changes nothing."""
    if not request.user.has_perm("memory.view_project"):
        raise PermissionDenied
    chosen = chosen_project(request)
    projects = [chosen] if chosen is not None else offered_projects(request)[:MOST_SHOWN]
    may_change = request.user.has_perm("memory.change_project")
    tables = [
        ProjectPeriods(
            project=project,
            rows=find_due(project),
            may_change=may_change and has_role(request.user, project.pk, ProjectMembership.Role.OPERATOR),
        )
        for project in Project.objects.filter(pk__in=[project.pk for project in projects])
    ]
    return TemplateResponse(request, "admin/retention.html", page_context(request, "Retention", tables=tables))
