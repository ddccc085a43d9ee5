"""Whether somebody may decide on a heuristic, asked again at the moment of the decision (reliability D11)."""

from uuid import UUID

from django.contrib.auth import get_user_model
from django.utils import timezone

from memory.errors import ClaimedByOther, NotAllowed, ProjectArchived
from memory.heuristics.models import Heuristic, ReviewClaim
from memory.heuristics.reviewed import Reviewed
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership, project_ids_of

_Role = ProjectMembership.Role


def check_decider(heuristic: Heuristic, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the heuristic's project if this actor may decide there now.

    A person needs the permission, the role of a reviewer in the project, and that nobody else is on the heuristic; a
    key needs the scope in its own project. An actor without an id is code of this installation, such as a policy.

    Args:
        withdraws: the decision takes something out of service. Operators may do that too, and neither a claim nor the
            project's archiving stands in the way.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
        ProjectArchived: nobody decides there any more.
        ClaimedByOther: another reviewer's claim has not expired.
    """
    project = check_rights(heuristic, by=by, withdraws=withdraws)
    if by.user_id is not None and not withdraws:
        check_claim(heuristic, user_id=by.user_id)
    return project


def check_rights(item: Reviewed, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the project of a heuristic or a mistake card if this actor may decide there now, claims aside.

    Raises:
        NotAllowed, ProjectArchived: as for `check_decider`.
    """
    project = Project.objects.get(pk=item.project_id)
    if by.user_id is not None:
        _check_person(by.user_id, item, project, withdraws=withdraws)
    elif by.api_key_id is not None:
        _check_key(by.api_key_id, project)
    if not withdraws:
        _check_open(project)
    return project


def check_claim(heuristic: Heuristic, *, user_id: int) -> None:
    """Refuse where another person's claim has not expired.

    Raises:
        ClaimedByOther: it has not.
    """
    claims = ReviewClaim.objects.filter(heuristic=heuristic.pk, expires_at__gt=timezone.now())
    claim = claims.exclude(user=user_id).select_related("user").first()
    if claim is not None:
        raise ClaimedByOther(
            f"The reviewer {claim.user.get_username()} is deciding on this one until {claim.expires_at:%H:%M} UTC. "
            "Take it over if you have agreed on it, or go to the next."
        )


def find_owners(by: Actor) -> set[int]:
    """Return the accounts whose eyes an approval counts as: the person's, or those that own the client's keys.

    Keys of one client count together, as in the records, where they have one name.

    Raises:
        NotAllowed: it is nobody's: a policy, other code of the installation, or a key without an owner whose account
            is active.
    """
    if by.user_id is not None:
        return {by.user_id}
    if by.api_key_id is None:
        raise NotAllowed(
            "This project asks for two reviewers, and a policy is nobody's eyes. Two people have to approve a lesson, "
            "one a mistake card."
        )
    key = ApiKey.objects.filter(pk=by.api_key_id, created_by__is_active=True).first()
    if key is None:
        raise NotAllowed(
            "This project asks for two reviewers, and nobody owns this API key, or the owner's account is switched "
            "off. Approve in the admin, or ask the operator for a key with an owner: manage.py create_api_key --by "
            "USERNAME."
        )
    keys = ApiKey.objects.filter(project=key.project_id, client=key.client, created_by__isnull=False)
    return {owner for owner in keys.values_list("created_by_id", flat=True) if owner is not None}


def _check_open(project: Project) -> None:
    if project.archived_at is not None and project.archived_at <= timezone.now():
        raise ProjectArchived(
            f"The project {project} was archived on {project.archived_at:%Y-%m-%d}, so nothing in it is decided any "
            "more. Ask an operator to open it again if that is a mistake."
        )


def _check_person(user_id: int, item: Reviewed, project: Project, *, withdraws: bool) -> None:
    # Each role that may decide, and the permission it needs.
    rights = {_Role.REVIEWER: f"memory.review_{item._meta.model_name}"}
    if withdraws:
        rights[_Role.OPERATOR] = "memory.change_apikey"
    user = get_user_model()._default_manager.filter(pk=user_id, is_active=True).first()  # fresh: rights may be gone
    roles = [role for role, needed in rights.items() if user is not None and user.has_perm(needed)]
    if user is None or not roles:
        raise NotAllowed(
            f"You do not have the permission “review {item._meta.verbose_name_plural}” any more, so nothing was "
            "changed. Ask an administrator to put you into the group Reviewer."
        )
    if not user.is_superuser and not project_ids_of(user, roles=roles).filter(pk=project.pk).exists():
        raise NotAllowed(
            f"You are not a reviewer of the project {project}, so nothing was changed. Ask an administrator to make "
            "you one under Project memberships."
        )


def _check_key(api_key_id: UUID, project: Project) -> None:
    usable = ApiKey.objects.usable().filter(pk=api_key_id, project=project)
    if not usable.filter(scopes__contains=[ApiKey.Scope.REVIEW]).exists():
        raise NotAllowed(
            f"This API key may not review in the project {project}. Ask the operator for one with the scope review."
        )
