"""Who may cut, deploy and roll back releases: reviewers and operators with the permission, keys with the scope."""

from django.utils import timezone

from memory.errors import ProjectArchived
from memory.projects.access import Right, check_right
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership

_Role = ProjectMembership.Role
_DEPLOY = Right(
    to="deploy releases",
    scope=ApiKey.Scope.RELEASE,
    permissions={_Role.REVIEWER: "memory.deploy_release", _Role.OPERATOR: "memory.deploy_release"},
)


def check_deployer(project: Project, *, by: Actor, withdraws: bool = False) -> None:
    """Refuse an actor who may not deploy in a project. One without an id is part of this installation.

    Args:
        withdraws: it is a roll-back, which is allowed in an archived project too.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
        ProjectArchived: nothing new is deployed there.
    """
    check_right(_DEPLOY, project, by=by)
    if not withdraws and project.archived_at is not None and project.archived_at <= timezone.now():
        raise ProjectArchived(
            f"The project {project} was archived on {project.archived_at:%Y-%m-%d}, so nothing new is deployed in it. "
            "Ask an operator to open it again if that is a mistake."
        )
