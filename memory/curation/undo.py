"""Undo a decision made by mistake, within seconds."""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memory.curation.decision_steps import get_current_revision, serve_again, set_status
from memory.curation.evidence import take_back_evidence
from memory.curation.proposal_groups import count_support, join_group, lock_groups
from memory.curation.proposals import repropose_heuristic
from memory.curation.reviewers import check_decider
from memory.errors import TooLateToUndo
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.review.decisions import UNDO_SECONDS, check_undoable, record_review
from memory.review.models import Review

_Decision = Review.Decision
_APPROVALS = (_Decision.APPROVE, _Decision.FIRST_APPROVAL)
# Records that change nothing that is served, and leave the wording undecided.
_NOTES = (_Decision.REFLECT_AGAIN, _Decision.CONFIRM_EVIDENCE, _Decision.SPLIT, _Decision.KEEP)
_UNDECIDED = (_Decision.FIRST_APPROVAL, *_NOTES)
_WITHOUT_EFFECT = (_Decision.EDIT, *_NOTES)  # an edit comes with its approval
_UNDOABLE = (*_APPROVALS, _Decision.REJECT, _Decision.RETIRE, _Decision.QUARANTINE, _Decision.MERGE)


def is_undoable(review: Review) -> bool:
    """Tell whether a decision is recent enough, and of a kind that can be undone."""
    age = timezone.now() - review.created_at
    return review.decision in _UNDOABLE and age <= timedelta(seconds=UNDO_SECONDS)


@transaction.atomic
def undo_review(review: Review, *, by: Actor) -> Heuristic:
    """Put the heuristic back into the queue. Both the decision and its undoing stay on record.

    A duplicate is no duplicate any more, and takes its evidence back from the other lesson. What was served before the
    decision is served again. A wording that was approved, even as the first of two
    approvals, comes back as a new revision, an edited one with the wording from before the edit: approvals are never
    reused.

    Raises:
        NotAllowed, ProjectArchived, ClaimedByOther: as for every decision.
        TooLateToUndo: it is too old, another person's, not the latest decision, or a merge that changed the words of
            the other lesson.
        CoveredByOrder, OrderUnderWay: a quarantine order covers what was served before.
    """
    also = Review.objects.filter(decided_with=review.pk, project=review.project_id).select_related("revision")
    decided_with = list(also.order_by("subject_id"))
    locked = lock_groups(review.heuristic, *(other.heuristic for other in decided_with))
    heuristic = locked[review.subject_id]
    check_decider(heuristic, by=by)
    check_undoable(heuristic, review, by=by, of=_UNDOABLE, besides=[_Decision.REFLECT_AGAIN])

    decided = review.revision
    if review.decision == _Decision.MERGE:
        into = HeuristicRevision.objects.filter(heuristic=heuristic.superseded_by_id)
        if into.filter(created_at__gte=review.created_at).exists():
            raise TooLateToUndo(
                "The merge changed the words of the other lesson. Propose its earlier revision again there."
            )
        _stand_alone(heuristic)
    # The approval counted this evidence after it wrote its record.
    heuristic.evidence.filter(approved_at__gte=review.created_at).update(approved_at=None, approved_by="")
    heuristic = count_support(heuristic)
    # First: the database allows one served wording of a lesson at a time.
    HeuristicRevision.objects.filter(heuristic=heuristic, served=True).update(served=False)
    if served_before := _find_served_before(review):
        serve_again(HeuristicRevision.objects.get(pk=served_before))
    if review.decision in _APPROVALS:
        heuristic = repropose_heuristic(heuristic, text=_before_edit(review, decided).as_text(), by=by)
    else:
        _put_back(heuristic, decided)
    revision = get_current_revision(heuristic, content_sha256=None)
    reason = f"Undid: {review.decision}."
    undone = record_review(heuristic, revision, _Decision.UNDO, by=by, reason=reason, undoes=review.pk)
    members = [(locked[other.subject_id], other) for other in decided_with]
    for member, closed in members:
        _reopen_member(member, closed, leader=heuristic, by=by, decided_with=undone.pk)
    return count_support(heuristic)


def _stand_alone(heuristic: Heuristic) -> None:
    """Let a locked duplicate stand by itself again."""
    take_back_evidence(heuristic)
    heuristic.superseded_by = None
    heuristic.save(update_fields=["superseded_by"])


def _reopen_member(heuristic: Heuristic, closed: Review, *, leader: Heuristic, by: Actor, decided_with: UUID) -> None:
    """Put another wording back behind the proposal it was closed with, unless it was decided on again since."""
    latest = heuristic.reviews.first()
    # It was decided on since, and that decision stands.
    if latest is None or latest.pk != closed.pk:
        return
    _stand_alone(heuristic)
    _put_back(heuristic, closed.revision)
    join_group(heuristic, leader=leader)
    reason = f"Undid: {closed.decision}."
    columns = {"reason": reason, "undoes": closed.pk, "decided_with": decided_with}
    record_review(heuristic, closed.revision, _Decision.UNDO, by=by, **columns)


def _put_back(heuristic: Heuristic, decided: HeuristicRevision) -> None:
    """Restore what was current before a rejection or a withdrawal: an undecided wording, if there is one."""
    newest = heuristic.revisions.order_by("-number")[0]
    decided_on = newest.reviews.exclude(decision__in=_UNDECIDED)
    undecided = newest if not decided_on.exists() else decided
    served = HeuristicRevision.objects.filter(pk=undecided.pk, served=True).exists()
    heuristic.current_revision = undecided
    set_status(heuristic, Heuristic.Status.APPROVED if served else Heuristic.Status.PROPOSED)


def _find_served_before(review: Review) -> UUID | None:
    """Replay the decisions before this one; return the revision that they left in service."""
    served: UUID | None = None
    before: list[UUID | None] = []
    earlier = Review.objects.filter(subject_id=review.subject_id, created_at__lt=review.created_at)
    for decision, revision_id in earlier.order_by("created_at", "id").values_list("decision", "revision_id"):
        if decision == _Decision.UNDO:
            # Only the latest decision can be undone, so the states form a stack.
            served = before.pop()
        elif decision not in _WITHOUT_EFFECT:
            before.append(served)
            if decision == _Decision.APPROVE:
                served = revision_id
            elif decision not in (_Decision.REJECT, _Decision.FIRST_APPROVAL):
                served = None
    return served


def _before_edit(review: Review, decided: HeuristicRevision) -> HeuristicRevision:
    edited = decided.reviews.filter(decision=_Decision.EDIT).exists()
    if not edited:
        return decided
    before = HeuristicRevision.objects.filter(heuristic=review.subject_id, number__lt=decided.number)
    return before.order_by("-number").first() or decided
