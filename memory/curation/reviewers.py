"""Which reviewer has claimed a heuristic: nobody else decides on it meanwhile (reliability D11)."""

from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from memory.errors import ClaimedByOther, NotAllowed
from memory.heuristics.models import Heuristic, ReviewClaim
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.decisions import check_rights
from memory.rows import find_row

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

    No other reviewer may have claimed the heuristic, unless the decision takes it out of service.

    Raises:
        NotAllowed, ProjectArchived: see `check_reviewer`.
        ClaimedByOther: another reviewer's claim has not expired.
    """
    project = check_rights(heuristic, by=by, withdraws=withdraws)
    if by.user_id is not None and not withdraws:
        check_claim(heuristic, user_id=by.user_id)
    return project


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
