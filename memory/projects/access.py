"""Which projects a person may see and act in. Memberships say where, the permissions of groups say what."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from memory.projects.models import Project, ProjectMembership, project_ids_of

Row = TypeVar("Row", bound=Model)


def visible_projects(user: Any) -> QuerySet[Project]:
    """Return the projects whose records a person may see: all for a superuser, else those of the memberships."""
    if user.is_superuser:
        return Project.objects.all()
    return Project.objects.filter(pk__in=project_ids_of(user))


def projects_with_role(user: Any, *roles: str) -> QuerySet[Project]:
    """Return the projects in which a person has one of these roles: all for a superuser."""
    return (
        Project.objects.all() if user.is_superuser else Project.objects.filter(pk__in=project_ids_of(user, roles=roles))
    )


def narrow_to_projects(queryset: QuerySet[Row], user: Any, *, path: str = "project") -> QuerySet[Row]:
    """Keep only what a person may see. `path` leads from a row to its project; a superuser's query stays as it is."""
    if user.is_superuser:
        return queryset
    return queryset.filter(**{f"{path}__in": project_ids_of(user)})


def has_role(user: Any, project_id: Any, *roles: str) -> bool:
    """Tell whether a person has one of these roles in a project. One query; none for a superuser."""
    return user.is_superuser or project_ids_of(user, roles=roles).filter(pk=project_id).exists()


def may_review(user: Any, project_id: Any) -> bool:
    """Tell whether a person may decide on a project's lessons, by permission and by role."""
    return user.has_perm("memory.review_heuristic") and has_role(user, project_id, ProjectMembership.Role.REVIEWER)
