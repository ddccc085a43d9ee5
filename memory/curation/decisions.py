"""The reviewers' decisions. Each is one function that checks the present state and leaves a Review."""

from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memory.after_commit import after_commit
from memory.curation.decision_steps import (
    Item,
    ReviewNote,
    get_current_revision,
    refuse_revision,
    serve_revision,
    set_status,
    withdraw_revision,
)
from memory.curation.evidence import copy_evidence, take_back_evidence
from memory.curation.proposal_groups import count_support, find_members, lead_group, leave_group, lock_groups
from memory.curation.proposals import revise_heuristic
from memory.curation.reviewers import check_decider
from memory.errors import (
    AlreadyDecided,
    NothingChanged,
    NotReadYet,
    NotServable,
    SecondReviewerNeeded,
)
from memory.failpoints import failpoint
from memory.heuristics.extensions import ask_for_reflection
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import check_servable
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms, embed_heuristics
from memory.projects.actors import Actor
from memory.releases.policy import cut_after_approval
from memory.review.decisions import find_owners, lock_subject, record_review
from memory.review.models import Review

MAX_AT_ONCE = 20
DUPLICATE = "Another wording of the lesson that was approved"

_Decision = Review.Decision
_Status = Heuristic.Status


@transaction.atomic
def approve_heuristic(
    heuristic: Heuristic,
    *,
    by: Actor,
    content_sha256: str,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Heuristic:
    """Serve the newest wording from now on, in place of any earlier one, and count the evidence it has.

    The other wordings of its group that were there when it was read become duplicates of it, and their evidence is its
    own from then on. One that joined later stays in the queue.

    Where the project requires two reviewers, the first approval is recorded and the heuristic stays proposed; the
    approval of the same wording by another person serves it. The database holds that rule too.

    Args:
        content_sha256: the hash of the wording that was read, or that a policy judged.
        read_at: when it was read; evidence added since was not seen and does not count yet. None means now.

    Raises:
        AlreadyDecided: it is not waiting for a decision.
        ChangedMeanwhile: the newest wording is not the one that was read.
        CoveredByOrder, OrderUnderWay: a quarantine order covers it, see `check_servable`.
        SecondReviewerNeeded: the same person approved this wording before, and two people are required.
        NotAllowed, ProjectArchived, ClaimedByOther: as for every decision, see `check_decider`.
    """
    heuristic = _lock_proposed(heuristic)
    project = check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    if project.four_eyes:
        # A first approval serves nothing, so nothing further down would refuse words under an order.
        check_servable(heuristic.project_id, [revision.lineage])
        if not _is_second_approval(revision, by):
            record_review(heuristic, revision, _Decision.FIRST_APPROVAL, by=by, **note)
            return heuristic
    lead_group(heuristic)
    serve_revision(heuristic, revision, by=by)
    after_commit(embed_heuristics, [heuristic.pk])  # a client's proposal may have no vectors yet
    after_commit(count_terms, heuristic.project_id)
    review = record_review(heuristic, revision, _Decision.APPROVE, by=by, **note)
    for member in find_members(heuristic, read_at=read_at):
        close_duplicate(member, into=heuristic, by=by, seen=True, decided_with=review.pk, reason=DUPLICATE)
    set_status(heuristic, _Status.APPROVED)
    _approve_evidence(heuristic, by=by, read_at=read_at)
    count_support(heuristic)
    take_back_evidence(heuristic)  # it may have been merged into another before
    after_commit(cut_after_approval, heuristic.project_id)
    failpoint("review.before_commit")
    return heuristic


@transaction.atomic
def edit_and_approve_heuristic(
    heuristic: Heuristic,
    *,
    text: HeuristicText,
    by: Actor,
    content_sha256: str,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Heuristic:
    """Write another wording and serve it, as one decision of one person.

    Raises:
        AlreadyDecided, ChangedMeanwhile, NothingChanged and the rest: as for the two steps.
    """
    revised = revise_heuristic(_lock_proposed(heuristic), text=text, by=by, content_sha256=content_sha256, waits=False)
    # The text was just written here under the lock, so there is no reading to compare it with.
    revision = get_current_revision(revised, content_sha256=None)
    record_review(revised, revision, _Decision.EDIT, by=by, **note)
    return approve_heuristic(revised, by=by, content_sha256=revision.content_sha256, read_at=read_at, **note)


@transaction.atomic
def confirm_evidence(
    heuristic: Heuristic,
    *,
    by: Actor,
    content_sha256: str,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Heuristic:
    """Let the evidence that came after the approval count too: tasks like those of its runs find the heuristic.

    One person is enough, also where two have to approve a wording: the words stay those that were approved.

    Raises:
        NotServable: it is not approved; an approval counts the evidence by itself.
        NothingChanged: all evidence counts already.
        ChangedMeanwhile, NotAllowed, ProjectArchived, ClaimedByOther: as for approval.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    if heuristic.status != _Status.APPROVED:
        raise NotServable(f"This lesson is {heuristic.status}. Its evidence counts once it is approved.")
    if not _approve_evidence(heuristic, by=by, read_at=read_at):
        raise NothingChanged("All evidence that was on the page counts already.")
    count_support(heuristic)
    after_commit(embed_heuristics, [heuristic.pk])  # the tasks of its runs
    after_commit(count_terms, heuristic.project_id)
    record_review(heuristic, revision, _Decision.CONFIRM_EVIDENCE, by=by, **note)
    return heuristic


@transaction.atomic
def reject_heuristic(
    heuristic: Item,
    *,
    by: Actor,
    content_sha256: str | None = None,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Item:
    """Refuse the newest wording of a lesson or mistake card. An earlier approved one stays served and is current again.

    With a proposal that stands for a group, its other wordings that were there when it was read are refused too.

    Raises:
        AlreadyDecided, ChangedMeanwhile, NotAllowed, ProjectArchived, ClaimedByOther: as for approval.
    """
    heuristic = _lock_proposed(heuristic)
    check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    review = record_review(heuristic, revision, _Decision.REJECT, by=by, **note)
    for member in find_members(heuristic, read_at=read_at):
        refused = get_current_revision(member, content_sha256=None)
        set_status(member, refuse_revision(member))
        record_review(member, refused, _Decision.REJECT, by=by, decided_with=review.pk, **_for_member(note))
    set_status(heuristic, refuse_revision(heuristic))
    return heuristic


@transaction.atomic
def retire_heuristic(heuristic: Item, *, by: Actor, **note: Unpack[ReviewNote]) -> Item:
    """Stop serving a lesson or mistake card that is no longer needed. The runs of a card are still counted.

    Raises:
        NotServable: it is not being served.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by, withdraws=True)
    revision = _withdraw(heuristic, _Status.RETIRED)
    record_review(heuristic, revision, _Decision.RETIRE, by=by, **note)
    return heuristic


@transaction.atomic
def keep_heuristic(
    heuristic: Heuristic, *, by: Actor, content_sha256: str | None = None, **note: Unpack[ReviewNote]
) -> Heuristic:
    """Keep serving a heuristic that seems to do harm. It is not asked about again for a month.

    Raises:
        NotServable: it is not in use.
        ChangedMeanwhile, NotAllowed, ProjectArchived, ClaimedByOther: as for approval.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    if heuristic.status != _Status.APPROVED:
        raise NotServable(f"This lesson is {heuristic.status}, so there is nothing to keep in use.")
    heuristic.harm = None
    heuristic.save(update_fields=["harm"])
    record_review(heuristic, revision, _Decision.KEEP, by=by, **note)
    return heuristic


@transaction.atomic
def quarantine_heuristic(heuristic: Heuristic, *, by: Actor, **note: Unpack[ReviewNote]) -> Heuristic:
    """Stop serving a heuristic, or keep it from being approved, because it may be harmful.

    Other wordings of its group stay in the queue: others may have said them.

    Raises:
        NotServable: it is neither served nor proposed.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by, withdraws=True)
    # Without a served wording there is nothing to withdraw, and the newest one is what may be harmful.
    if not heuristic.revisions.filter(served=True).exists() and (
        heuristic.status == _Status.PROPOSED or heuristic.revisions.filter(live=True).exists()  # in a release
    ):
        revision = get_current_revision(heuristic, content_sha256=None)
        set_status(heuristic, _Status.QUARANTINED)
    else:
        revision = _withdraw(heuristic, _Status.QUARANTINED)
    record_review(heuristic, revision, _Decision.QUARANTINE, by=by, **note)
    return heuristic


@transaction.atomic
def split_heuristic(
    heuristic: Heuristic, *, by: Actor, content_sha256: str | None = None, **note: Unpack[ReviewNote]
) -> Heuristic:
    """Take a proposal out of its group, because it is different advice. It has a row of its own from then on.

    Raises:
        NothingChanged: it has a row of its own already.
        AlreadyDecided, ChangedMeanwhile, NotAllowed, ProjectArchived, ClaimedByOther: as for approval.
    """
    heuristic = _lock_proposed(heuristic)
    check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    if heuristic.leader_id is None:
        raise NothingChanged("This lesson already has a row of its own in the queue.")
    leave_group(heuristic)
    record_review(heuristic, revision, _Decision.SPLIT, by=by, **note)
    return heuristic


def close_duplicate(heuristic: Heuristic, *, into: Heuristic, by: Actor, seen: bool = False, **columns: Any) -> UUID:
    """Let a locked lesson be superseded by another, which gets its evidence; return the id of the review.

    Args:
        seen: the reviewer of the other one saw this evidence too, so that it counts from the day it was linked.
    """
    revision = get_current_revision(heuristic, content_sha256=None)
    heuristic.superseded_by = into
    heuristic.save(update_fields=["superseded_by"])
    HeuristicRevision.objects.filter(heuristic=heuristic, served=True).update(served=False)
    set_status(heuristic, _Status.SUPERSEDED)
    copy_evidence(heuristic, into=into, seen=seen)
    return record_review(heuristic, revision, _Decision.MERGE, by=by, **columns).pk


@transaction.atomic
def ask_again(heuristic: Heuristic, *, by: Actor, **note: Unpack[ReviewNote]) -> str:
    """Ask for another reflection on the heuristic's newest run; the heuristic itself stays as it is.

    Returns:
        a sentence about what happens now.

    Raises:
        MemoryAppError: it has no run, or nothing reflects.
        NotAllowed, ProjectArchived, ClaimedByOther: as for a decision.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by)
    answer = ask_for_reflection(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=None)
    record_review(heuristic, revision, _Decision.REFLECT_AGAIN, by=by, **note)
    return answer


@transaction.atomic
def decide_unflagged(
    heuristic: Heuristic,
    *,
    approve: bool,
    by: Actor,
    content_sha256: str,
    read_at: datetime | None = None,
    **note: Unpack[ReviewNote],
) -> Heuristic:
    """Approve or reject the wording that was read, as one of many; what the checks flagged is decided on by itself.

    Raises:
        NotReadYet: an approval, and the checks flagged it or have not finished.
        AlreadyDecided, ChangedMeanwhile and the rest: as for the decision.
    """
    if not approve:
        return reject_heuristic(heuristic, by=by, content_sha256=content_sha256, **note)
    heuristic = lock_subject(heuristic)  # so that what the checks said is of the wording that is decided on
    if heuristic.prioritised_at is None:
        raise NotReadYet("The checks have not finished. Wait a few seconds and try again.")
    if heuristic.risk_flags:
        flags = ", ".join(heuristic.risk_flags)
        raise NotReadYet(
            f"The checks flagged it ({flags}). Decide on it by itself: POST /api/v1/heuristics/{{id}}/approve."
        )
    return approve_heuristic(heuristic, by=by, content_sha256=content_sha256, read_at=read_at, **note)


def _withdraw(heuristic: Heuristic, status: str) -> HeuristicRevision:
    served: HeuristicRevision = withdraw_revision(heuristic)
    after_commit(count_terms, heuristic.project_id)
    set_status(heuristic, status)
    return served


def _approve_evidence(heuristic: Heuristic, *, by: Actor, read_at: datetime | None) -> int:
    """Count the evidence that was there when the reviewer read; return how much of it is new."""
    now = timezone.now()
    unseen = heuristic.evidence.filter(approved_at__isnull=True, created_at__lte=read_at or now)
    return unseen.update(approved_at=now, approved_by=by.label)


def _for_member(note: ReviewNote) -> ReviewNote:
    """Return what is recorded with a decision that came with another: the time on screen belongs to that one."""
    return {**note, "seconds_on_screen": None}


def _lock_proposed(heuristic: Item) -> Item:
    is_lesson = heuristic.kind == Heuristic.Kind.LESSON  # mistake cards wait in no groups
    locked: Any = lock_groups(heuristic)[heuristic.pk] if is_lesson else lock_subject(heuristic)
    heuristic = locked
    if heuristic.status != _Status.PROPOSED:
        latest = heuristic.reviews.first()
        who = f" by {latest.reviewer.partition(':')[2]} at {latest.created_at:%H:%M} UTC" if latest else ""
        raise AlreadyDecided(
            f"This {heuristic._meta.verbose_name} is {heuristic.status}, not proposed: it was already decided{who}, "
            "and your decision changed nothing."
        )
    return heuristic


def _is_second_approval(revision: HeuristicRevision, by: Actor) -> bool:
    """Tell whether another person has approved this wording before."""
    mine = find_owners(by)
    firsts = revision.reviews.filter(decision=_Decision.FIRST_APPROVAL).select_related("reviewer_key")
    # An approval whose account is gone counts for no person.
    owned = [(first.reviewer, owner) for first in firsts if (owner := _find_owner(first)) is not None]
    if any(owner not in mine and label != by.label for label, owner in owned):
        return True
    if owned:
        raise SecondReviewerNeeded(
            "You have already approved this wording. This project requires two reviewers: agents get the lesson once "
            "another person approves it too."
        )
    return False


def _find_owner(review: Review) -> int | None:
    """Return the account an approval counts for: the person's, or that of the owner of the key."""
    if review.reviewer_user_id is not None:
        return review.reviewer_user_id
    return review.reviewer_key.created_by_id if review.reviewer_key else None
