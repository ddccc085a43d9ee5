"""Who is deciding on what, so that two reviewers do not read the same proposal at the same time."""

from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from memory.curation.deciders import check_decider
from memory.errors import NotAllowed
from memory.heuristics.models import DeskOpening, Heuristic, HeuristicRevision, ReviewClaim
from memory.projects.actors import Actor

# One statement, so that of two who open a page at once exactly one gets the claim.
CLAIM_MINUTES = 10  # how long an opened proposal is kept from other reviewers
_CLAIM = """
INSERT INTO memory_reviewclaim AS c (heuristic_id, user_id, claimed_at, expires_at)
VALUES (%(heuristic)s, %(user)s, %(now)s, %(until)s)
ON CONFLICT (heuristic_id) DO UPDATE SET
    user_id = EXCLUDED.user_id, expires_at = EXCLUDED.expires_at,
    claimed_at = CASE WHEN c.user_id = EXCLUDED.user_id AND c.expires_at > %(now)s
        THEN c.claimed_at ELSE EXCLUDED.claimed_at END
WHERE c.user_id = EXCLUDED.user_id OR c.expires_at <= %(now)s
"""


def open_heuristic(heuristic: Heuristic, revision: HeuristicRevision, *, user_id: int) -> ReviewClaim:
    """Note that a person has these words on the screen, and claim the heuristic for a few minutes if it is free.

    Returns:
        the claim that holds now: this person's, or the other's who was first.
    """
    now = timezone.now()
    until = now + timedelta(minutes=CLAIM_MINUTES)
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"heuristic": heuristic.pk, "user": user_id, "now": now, "until": until})
    DeskOpening.objects.bulk_create(
        [DeskOpening(heuristic=heuristic, user_id=user_id, content_sha256=revision.content_sha256, opened_at=now)],
        update_conflicts=True,
        unique_fields=["heuristic", "user", "content_sha256"],
        update_fields=["opened_at"],
    )
    return ReviewClaim.objects.select_related("user").get(pk=heuristic.pk)


@transaction.atomic
def take_over_heuristic(heuristic: Heuristic, *, by: Actor) -> ReviewClaim:
    """Claim a heuristic that another person is on. That person's decision is refused from then on.

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
