"""Which reviewer has claimed a heuristic: no other decides on it meanwhile (reliability D11)."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memory.errors import ClaimedByOther, NotAllowed
from memory.heuristics.models import Heuristic, HeuristicQuerySet
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.decisions import check_rights
from memory.rows import find_row

CLAIM = timedelta(minutes=10)  # how long an opened proposal is kept from other reviewers


def check_decider(heuristic: Heuristic, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the heuristic's project if this actor may decide there now.

    No other reviewer may have claimed the heuristic, unless the decision takes it out of service.

    Raises:
        NotAllowed, ProjectArchived: see `check_reviewer`.
        ClaimedByOther: another reviewer's claim has not expired.
    """
    project = check_rights(heuristic, by=by, withdraws=withdraws)
    # Taking something harmful out of service does not wait for a reviewer to finish reading.
    if by.user_id is not None and not withdraws:
        check_claim(heuristic, user_id=by.user_id)
    return project


def check_claim(heuristic: Heuristic, *, user_id: int) -> None:
    """Refuse where another person's claim has not expired.

    Raises:
        ClaimedByOther: it has not.
    """
    claimed = find_row(_row(heuristic).claimed().exclude(claimed_by=user_id).select_related("claimed_by"))
    if claimed is not None:
        raise ClaimedByOther(
            f"This lesson is claimed by {claimed.claimed_by} until {claimed.claimed_until:%H:%M} UTC. "
            "Take it over if you have agreed to, or go to the next one."
        )


def claim_heuristic(heuristic: Heuristic, *, user_id: int) -> Heuristic:
    """Claim a heuristic for a person for a few minutes if it is free.

    Returns:
        it, with the claim in force: this person's, or that of another who was first.
    """
    now = timezone.now()
    free = Q(claimed_by=None) | Q(claimed_by=user_id) | Q(claimed_until__lte=now)
    # One statement, so that of two who open a page at once exactly one gets the claim.
    _row(heuristic).filter(free).update(claimed_by=user_id, claimed_until=now + CLAIM)
    return _row(heuristic).select_related("claimed_by").get()


@transaction.atomic
def take_over_heuristic(heuristic: Heuristic, *, by: Actor) -> Heuristic:
    """Claim a heuristic that another person has claimed. That person's decision is refused from then on.

    Raises:
        NotAllowed, ProjectArchived: as for a decision.
    """
    if by.user_id is None:
        raise NotAllowed("Only people claim heuristics. Keys and policies decide without a claim.")
    check_rights(heuristic, by=by)
    # Without a condition: to take over is to replace a claim that is in force.
    _row(heuristic).update(claimed_by=by.user_id, claimed_until=timezone.now() + CLAIM)
    return _row(heuristic).select_related("claimed_by").get()


def release_heuristic(heuristic: Heuristic, *, by: Actor) -> None:
    """Give up one's claim, if one has it."""
    if by.user_id is not None:
        # Another person may have taken over meanwhile; that claim stays.
        _row(heuristic).filter(claimed_by=by.user_id).update(claimed_by=None, claimed_until=None)


def _row(heuristic: Heuristic) -> HeuristicQuerySet:
    # Of any kind: the manager of lessons finds no mistake cards.
    return HeuristicQuerySet(Heuristic).filter(pk=heuristic.pk)
