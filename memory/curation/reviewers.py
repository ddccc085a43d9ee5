"""Who may decide on a heuristic or a mistake card, and which reviewer has claimed a heuristic (reliability D11)."""

from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from memory.errors import ClaimedByOther, NotAllowed, ProjectArchived
from memory.heuristics.models import Heuristic, ReviewClaim
from memory.projects.access import Right, check_right
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.rows import find_row

_Role = ProjectMembership.Role
CLAIM_MINUTES = 10  # how long an opened proposal is kept from other reviewers

# One statement, so that of two who open a page at once exactly one gets the claim.
_CLAIM = """
INSERT INTO memory_reviewclaim AS c (heuristic_id, user_id, claimed_at, expires_at)
VALUES (%(heuristic)s, %(user)s, %(now)s, %(until)s)
ON CONFLICT (heuristic_id) DO UPDATE SET
    user_id = EXCLUDED.user_id, expires_at = EXCLUDED.expires_at,
    claimed_at = CASE WHEN c.user_id = EXCLUDED.user_id AND c.expires_at > %(now)s
        THEN c.claimed_at ELSE EXCLUDED.claimed_at END
WHERE c.user_id = EXCLUDED.user_id OR c.expires_at <= %(now)s
"""


def check_decider(heuristic: Heuristic, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the heuristic's project if this actor may decide there now.

    A person needs the permission and the role of a reviewer in the project, and no other reviewer may have claimed the
    heuristic; a key needs the scope in its own project, and an owner who may. An actor without an id is part of this
    installation, such as a policy.

    Args:
        withdraws: the decision takes something out of service. Operators may do that too, even where another
            reviewer has a claim or the project is archived.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
        ProjectArchived: no more decisions are taken there.
        ClaimedByOther: another reviewer's claim has not expired.
    """
    project = check_rights(heuristic, by=by, withdraws=withdraws)
    if by.user_id is not None and not withdraws:
        check_claim(heuristic, user_id=by.user_id)
    return project


def check_rights(item: Heuristic, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the project of a heuristic or a mistake card if this actor may decide there now, claims aside.

    Raises:
        NotAllowed, ProjectArchived: as for `check_decider`.
    """
    project = Project.objects.get(pk=item.project_id)
    permissions: dict[str, str] = {_Role.REVIEWER: f"memory.review_{item._meta.model_name}"}
    if withdraws:
        permissions[_Role.OPERATOR] = "memory.change_apikey"
    to = f"review {item._meta.verbose_name_plural}"
    check_right(Right(to=to, scope=ApiKey.Scope.REVIEW, permissions=permissions), project, by=by)
    if not withdraws:
        refuse_archived(project)
    return project


def refuse_archived(project: Project) -> None:
    """Raise ProjectArchived where no more decisions are taken in a project."""
    if project.archived_at is not None and project.archived_at <= timezone.now():
        raise ProjectArchived(
            f"The project {project} was archived on {project.archived_at:%Y-%m-%d}, so no decisions are taken in it. "
            "Ask an operator to open it again if that is a mistake."
        )


def check_claim(heuristic: Heuristic, *, user_id: int) -> None:
    """Refuse where another person's claim has not expired.

    Raises:
        ClaimedByOther: it has not.
    """
    claims = ReviewClaim.objects.filter(heuristic=heuristic.pk, expires_at__gt=timezone.now())
    claim = find_row(claims.exclude(user=user_id).select_related("user"))
    if claim is not None:
        raise ClaimedByOther(
            f"This lesson is claimed by {claim.user.get_username()} until {claim.expires_at:%H:%M} UTC. "
            "Take it over if you have agreed to, or go to the next one."
        )


def find_owners(by: Actor) -> set[int]:
    """Return the accounts an approval counts for: the person's, or those that own the client's keys.

    Keys of one client count together, as in the records, where they have one name.

    Raises:
        NotAllowed: it belongs to no account: a policy, other code of the installation, or a key without an owner.
    """
    if by.user_id is not None:
        return {by.user_id}
    if by.api_key_id is None:
        raise NotAllowed(
            "This project requires two reviewers, and a policy does not count as one. Two people have to approve a "
            "lesson, and one a mistake card."
        )
    key = ApiKey.objects.filter(pk=by.api_key_id, created_by__isnull=False).first()
    if key is None:
        raise NotAllowed(
            "This project requires two reviewers, and this API key has no owner. Approve in the admin, or ask the "
            "operator for a key with an owner: manage.py create_api_key --by USERNAME."
        )
    keys = ApiKey.objects.filter(project=key.project_id, client=key.client, created_by__isnull=False)
    return {owner for owner in keys.values_list("created_by_id", flat=True) if owner is not None}


def claim_heuristic(heuristic: Heuristic, *, user_id: int) -> ReviewClaim:
    """Claim a heuristic for a person for a few minutes if it is free.

    Returns:
        the claim in force: this person's, or that of another who was first.
    """
    now = timezone.now()
    until = now + timedelta(minutes=CLAIM_MINUTES)
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"heuristic": heuristic.pk, "user": user_id, "now": now, "until": until})
    return ReviewClaim.objects.select_related("user").get(pk=heuristic.pk)


@transaction.atomic
def take_over_heuristic(heuristic: Heuristic, *, by: Actor) -> ReviewClaim:
    """Claim a heuristic that another person has claimed. That person's decision is refused from then on.

    Raises:
        NotAllowed, ProjectArchived: as for a decision.
    """
    if by.user_id is None:
        raise NotAllowed("Only people claim heuristics. Keys and policies decide without a claim.")
    ReviewClaim.objects.filter(heuristic=heuristic.pk).delete()
    check_decider(heuristic, by=by)
    now = timezone.now()
    until = now + timedelta(minutes=CLAIM_MINUTES)
    return ReviewClaim.objects.create(heuristic=heuristic, user_id=by.user_id, claimed_at=now, expires_at=until)


def release_heuristic(heuristic: Heuristic, *, by: Actor) -> None:
    """Give up one's claim, if one has it."""
    if by.user_id is not None:
        ReviewClaim.objects.filter(heuristic=heuristic.pk, user=by.user_id).delete()
