"""Which projects a person may see and act in. Memberships say where, the permissions of groups say what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.db.models import Model, QuerySet

from memory.errors import NotAllowed
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership, project_ids_of

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """What it takes to decide on something: a permission together with a role in the project, and for a key a scope."""

    to: str  # as in "You may not …"
    scope: str
    permissions: Mapping[str, str]  # the permission that each role needs


def check_right(right: Right, project: Project, *, by: Actor) -> None:
    """Refuse an actor who may not do something in a project now. One without an id is part of this installation.

    A key may do no more than the person who owns it may at this moment: rights end while keys are in use.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
    """
    if by.user_id is not None:
        lacking = _find_lack(by.user_id, right, project)
        if lacking:
            raise NotAllowed(
                f"You {lacking}, so nothing was changed. Ask an administrator: groups give permissions, and Settings, "
                "Members gives roles in projects."
            )
    elif by.api_key_id is not None:
        keys = ApiKey.objects.usable().filter(pk=by.api_key_id, project=project)
        key = keys.select_related("created_by").only("scopes", "created_by__username").first()
        if key is None or right.scope not in key.scopes:
            raise NotAllowed(
                f"This API key may not {right.to} in the project {project}. Ask the operator for one with the scope "
                f"{right.scope}."
            )
        if key.created_by is not None and (lacking := _find_lack(key.created_by.pk, right, project)):
            raise NotAllowed(
                f"This API key acts for {key.created_by.get_username()}, but they {lacking}. Nothing was changed. Ask "
                "for a key of a person who may."
            )


def _find_lack(user_id: int, right: Right, project: Project) -> str:
    """Return what keeps a person from doing something in a project, as in "You …"; "" if nothing does."""
    people = get_user_model()._default_manager.only("is_active", "is_superuser")  # all that a request may read of them
    # Read now: the account may have been closed since the person signed in or made the key.
    user = people.filter(pk=user_id, is_active=True).first()
    if user is None:
        return "no longer have an active account"
    roles = [role for role, permission in right.permissions.items() if user.has_perm(permission)]
    if not roles:
        return f"no longer have the permission to {right.to}"
    if not has_role(user, project.pk, *roles):
        return f"do not have the role {' or '.join(right.permissions)} in the project {project}"
    return ""
