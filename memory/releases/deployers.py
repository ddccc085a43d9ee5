"""Who may cut, deploy and roll back releases: reviewers and operators with the permission, keys with the scope."""

from django.contrib.auth import get_user_model
from django.utils import timezone

from memory.errors import NotAllowed, ProjectArchived
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership

_Role = ProjectMembership.Role


def check_deployer(project: Project, *, by: Actor, withdraws: bool = False) -> None:
    """Refuse an actor who may not deploy in a project. One without an id is part of this installation.

    Args:
        withdraws: it is a roll-back, which is allowed in an archived project too.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
        ProjectArchived: nothing new is deployed there.
    """
    if by.user_id is not None:
        user = get_user_model()._default_manager.filter(pk=by.user_id, is_active=True).first()
        if user is None or not user.has_perm("memory.deploy_release"):
            raise NotAllowed(
                "You do not have the permission to deploy releases, so nothing was changed. Ask an administrator to "
                "add you to the group Reviewer or Operator."
            )
        if not has_role(user, project.pk, _Role.REVIEWER, _Role.OPERATOR):
            raise NotAllowed(
                f"You are neither a reviewer nor an operator of the project {project}, so nothing was changed. Ask an "
                "administrator to make you one under Project memberships."
            )
    elif by.api_key_id is not None:
        usable = ApiKey.objects.usable().filter(pk=by.api_key_id, project=project)
        if not usable.filter(scopes__contains=[ApiKey.Scope.RELEASE]).exists():
            raise NotAllowed(
                f"This API key may not deploy in the project {project}. Ask the operator for one with the scope "
                "release."
            )
    if not withdraws and project.archived_at is not None and project.archived_at <= timezone.now():
        raise ProjectArchived(
            f"The project {project} was archived on {project.archived_at:%Y-%m-%d}, so nothing new is deployed in it. "
            "Ask an operator to open it again if that is a mistake."
        )
