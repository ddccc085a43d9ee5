"""Merge two heuristics that say the same."""

from datetime import datetime
from typing import Unpack

from django.db import transaction

from memory.curation.decision_steps import ReviewNote, get_current_revision
from memory.curation.decisions import approve_heuristic, close_duplicate
from memory.curation.proposal_groups import find_members, lock_groups
from memory.curation.proposals import revise_heuristic
from memory.curation.reviewers import check_claim, check_decider
from memory.errors import AlreadyDecided, CannotMerge, NothingChanged
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import Sources
from memory.projects.actors import Actor

_Status = Heuristic.Status
_IN_USE = (_Status.PROPOSED, _Status.APPROVED)


@transaction.atomic
def merge_heuristics(
    heuristic: Heuristic,
    *,
    into: Heuristic,
    take_wording: bool = False,
    by: Actor,
    content_sha256: str | None = None,
    into_sha256: str | None = None,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Heuristic:
    """Let one heuristic be superseded by another, which gets its evidence too; return the one that stays.

    With a proposal that stands for a group, its other wordings that were there when it was read are superseded too.

    Args:
        take_wording: the one that stays takes over this one's wording; if it is approved, the wording is served at
            once or, where the project requires two reviewers, once another person approves it.
        content_sha256, into_sha256: the hashes of the two texts the reviewer read; None means the newest.

    Raises:
        CannotMerge: the two are the same or of two projects.
        AlreadyDecided: one of them is neither proposed nor approved.
        ChangedMeanwhile: one of the texts is not the one that was read.
        CoveredByOrder, OrderUnderWay: a quarantine order covers the wording that would be served.
        NotAllowed, ProjectArchived, ClaimedByOther: as for every decision.
    """
    if heuristic.pk == into.pk or heuristic.project_id != into.project_id:
        raise CannotMerge("Choose another heuristic of the same project to merge this one into.")
    locked = lock_groups(heuristic, into)
    heuristic, into = locked[heuristic.pk], locked[into.pk]
    for lesson in (heuristic, into):
        if lesson.status not in _IN_USE:
            raise AlreadyDecided(f"The heuristic {lesson} is {lesson.status}, so the two cannot be merged.")
    check_decider(heuristic, by=by)
    if by.user_id is not None:
        check_claim(into, user_id=by.user_id)  # its reviewer would otherwise see the wording change
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    get_current_revision(into, content_sha256=into_sha256)
    # Read before the merge closes the proposal, and with it the group. The one that stays may be in it.
    members = [lesson for lesson in find_members(heuristic, read_at=read_at) if lesson.pk != into.pk]
    review_id = close_duplicate(heuristic, into=into, by=by, **note)
    for member in members:
        close_duplicate(member, into=into, by=by, decided_with=review_id, reason=note.get("reason", ""))
    # Its counts of evidence were written by the merge.
    into.refresh_from_db()
    if take_wording:
        into = _take_wording(into, revision, by=by, request_id=note.get("request_id", ""))
    return into


def _take_wording(into: Heuristic, revision: HeuristicRevision, *, by: Actor, request_id: str) -> Heuristic:
    was_approved = into.status == _Status.APPROVED
    try:
        sources = Sources(wordings=(revision.pk,))
        revised = revise_heuristic(into, text=revision.as_text(), by=by, sources=sources, waits=not was_approved)
    # The two have the same words already, which is no reason to refuse the merge.
    except NothingChanged:
        return into
    if not was_approved:
        return revised
    reason = f"Took over the wording of heuristic {revision.heuristic_id}."
    sha256 = revision.content_sha256  # equal words have equal hashes
    return approve_heuristic(revised, by=by, content_sha256=sha256, reason=reason, request_id=request_id)
