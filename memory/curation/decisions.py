"""The reviewers' decisions. Each is one function, checks the state it decides on, and leaves a Review."""

from functools import partial

from django.db import transaction
from django.utils import timezone

from memory.curation.deciders import check_decider, find_owners
from memory.curation.proposals import get_current_revision, lock_heuristic, revise_heuristic
from memory.errors import AlreadyDecided, NotServable, SecondReviewerNeeded
from memory.failpoints import failpoint
from memory.heuristics.models import Heuristic, HeuristicRevision, Review
from memory.heuristics.text import LessonText
from memory.index.heuristic_vectors import count_terms
from memory.projects.actors import Actor

_Decision = Review.Decision
_Status = Heuristic.Status


@transaction.atomic
def approve_heuristic(
    heuristic: Heuristic,
    *,
    by: Actor,
    content_sha256: str | None = None,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> Heuristic:
    """Serve the newest wording from now on, in place of any earlier one.

    Where the project asks for two reviewers the first approval is recorded and the heuristic stays proposed; the
    approval of the same words by another person serves it. The database holds that rule too.

    Args:
        content_sha256: the hash of the text the reviewer read; None stands for "whatever is newest".

    Raises:
        AlreadyDecided: it is not waiting for a decision.
        ChangedMeanwhile: the text is not the one that was read.
        SecondReviewerNeeded: the same person approved these words before, and two people are asked for.
        NotAllowed, ProjectArchived, ClaimedByOther: as for every decision, see `check_decider`.
    """
    heuristic = _lock_proposed(heuristic)
    project = check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    if project.four_eyes and not _is_second_approval(revision, by):
        record_review(heuristic, revision, _Decision.FIRST_APPROVAL, by, reason, seconds_on_screen, request_id)
        return heuristic
    heuristic.revisions.filter(served=True).exclude(pk=revision.pk).update(served=False)
    HeuristicRevision.objects.filter(pk=revision.pk).update(
        approved_sha256=revision.content_sha256, approved_by=by.label, approved_at=timezone.now(), served=True
    )
    transaction.on_commit(partial(count_terms, heuristic.project_id), robust=True)
    set_status(heuristic, _Status.APPROVED)
    record_review(heuristic, revision, _Decision.APPROVE, by, reason, seconds_on_screen, request_id)
    failpoint("review.before_commit")
    return heuristic


@transaction.atomic
def edit_and_approve_heuristic(
    heuristic: Heuristic,
    *,
    text: LessonText,
    by: Actor,
    content_sha256: str | None = None,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> Heuristic:
    """Write another wording and serve it, as one decision of one person.

    Raises:
        AlreadyDecided, ChangedMeanwhile, NothingChanged and the rest: as for the two steps.
    """
    revised = revise_heuristic(_lock_proposed(heuristic), text=text, by=by, content_sha256=content_sha256)
    revision = get_current_revision(revised, content_sha256=None)
    record_review(revised, revision, _Decision.EDIT, by, reason, seconds_on_screen, request_id)
    return approve_heuristic(
        revised,
        by=by,
        content_sha256=revision.content_sha256,
        reason=reason,
        seconds_on_screen=seconds_on_screen,
        request_id=request_id,
    )


@transaction.atomic
def reject_heuristic(
    heuristic: Heuristic,
    *,
    by: Actor,
    content_sha256: str | None = None,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> Heuristic:
    """Refuse the newest wording. An earlier approved wording stays served and becomes the current one again.

    Raises:
        AlreadyDecided, ChangedMeanwhile, NotAllowed, ProjectArchived, ClaimedByOther: as for approval.
    """
    heuristic = _lock_proposed(heuristic)
    check_decider(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=content_sha256)
    served = heuristic.revisions.filter(served=True).first()
    if served is not None:
        heuristic.current_revision = served
    set_status(heuristic, _Status.APPROVED if served else _Status.REJECTED)
    record_review(heuristic, revision, _Decision.REJECT, by, reason, seconds_on_screen, request_id)
    return heuristic


@transaction.atomic
def retire_heuristic(
    heuristic: Heuristic,
    *,
    by: Actor,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> Heuristic:
    """Stop serving a heuristic because it has had its day.

    Raises:
        NotServable: it is not being served.
    """
    check_decider(heuristic, by=by, withdraws=True)
    return _withdraw(heuristic, _Status.RETIRED, _Decision.RETIRE, by, reason, seconds_on_screen, request_id)


@transaction.atomic
def quarantine_heuristic(
    heuristic: Heuristic,
    *,
    by: Actor,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> Heuristic:
    """Stop serving a heuristic, or keep it from being approved, because it may be harmful.

    Raises:
        AlreadyDecided: it is neither served nor proposed.
    """
    heuristic = lock_heuristic(heuristic)
    check_decider(heuristic, by=by, withdraws=True)
    if heuristic.status == _Status.PROPOSED and not heuristic.revisions.filter(served=True).exists():
        revision = get_current_revision(heuristic, content_sha256=None)
        set_status(heuristic, _Status.QUARANTINED)
        record_review(heuristic, revision, _Decision.QUARANTINE, by, reason, seconds_on_screen, request_id)
        return heuristic
    return _withdraw(heuristic, _Status.QUARANTINED, _Decision.QUARANTINE, by, reason, seconds_on_screen, request_id)


def _withdraw(
    heuristic: Heuristic,
    status: str,
    decision: str,
    by: Actor,
    reason: str,
    seconds_on_screen: float | None,
    request_id: str,
) -> Heuristic:
    heuristic = lock_heuristic(heuristic)
    served = heuristic.revisions.filter(served=True).first()
    if served is None:
        raise NotServable(f"This heuristic is {heuristic.status} and is not being served, so nothing was changed.")
    HeuristicRevision.objects.filter(pk=served.pk).update(served=False)
    transaction.on_commit(partial(count_terms, heuristic.project_id), robust=True)
    heuristic.current_revision = served
    set_status(heuristic, status)
    record_review(heuristic, served, decision, by, reason, seconds_on_screen, request_id)
    return heuristic


def _lock_proposed(heuristic: Heuristic) -> Heuristic:
    heuristic = lock_heuristic(heuristic)
    if heuristic.status != _Status.PROPOSED:
        latest = Review.objects.filter(heuristic=heuristic).first()
        who = f" by {latest.reviewer.partition(':')[2]} at {latest.created_at:%H:%M} UTC" if latest else ""
        raise AlreadyDecided(
            f"This heuristic is {heuristic.status}, not proposed: it was decided before{who}, and your decision "
            "changed nothing."
        )
    return heuristic


def _is_second_approval(revision: HeuristicRevision, by: Actor) -> bool:
    """Tell whether somebody else approved these words before."""
    mine = find_owners(by)
    firsts = Review.objects.filter(
        revision=revision, decision=_Decision.FIRST_APPROVAL, content_sha256=revision.content_sha256
    ).select_related("reviewer_key")
    owned = [(first.reviewer, owner) for first in firsts if (owner := _find_owner(first)) is not None]
    if any(owner not in mine and label != by.label for label, owner in owned):
        return True
    if owned:
        raise SecondReviewerNeeded(
            "You approved these words already. This project asks for two reviewers: agents get the lesson once "
            "another person approves it too."
        )
    return False


def _find_owner(review: Review) -> int | None:
    """Return whose eyes an approval was: the account's, or that of the account that owns the key."""
    if review.reviewer_user_id is not None:
        return review.reviewer_user_id
    return review.reviewer_key.created_by_id if review.reviewer_key else None


def set_status(heuristic: Heuristic, status: str) -> None:
    """Move a locked heuristic to another place in its life."""
    heuristic.status = status
    heuristic.updated_at = timezone.now()
    heuristic.save(update_fields=["status", "current_revision", "updated_at"])


def record_review(
    heuristic: Heuristic,
    revision: HeuristicRevision,
    decision: str,
    by: Actor,
    reason: str,
    seconds_on_screen: float | None,
    request_id: str,
) -> None:
    """Append one decision on one exact text."""
    Review.objects.create(
        project_id=heuristic.project_id,
        heuristic=heuristic,
        revision=revision,
        decision=decision,
        content_sha256=revision.content_sha256,
        reason=reason,
        reviewer=by.label,
        reviewer_user_id=by.user_id,
        reviewer_key_id=by.api_key_id,
        seconds_on_screen=seconds_on_screen,
        request_id=request_id,
    )
