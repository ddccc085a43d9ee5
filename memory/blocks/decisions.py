"""What becomes of edits that wait for review: the end of a conversation proposes its view, and people decide."""

from typing import Any
from uuid import UUID

from django.db import transaction

from memory.blocks.edits import IN_EFFECT, Edit, add_waiting, check_writer, make_value, put_in_effect
from memory.blocks.models import Block, BlockRevision
from memory.errors import AlreadyDecided, ChangedMeanwhile, MemoryAppError, SecondReviewerNeeded, TooLateToUndo
from memory.failpoints import failpoint
from memory.projects.actors import Actor, name_actor
from memory.redaction import redact_text
from memory.review.decisions import (
    check_read,
    check_rights,
    check_undoable,
    find_owners,
    lock_subject,
    record_review,
)
from memory.review.models import Review

_Status, _Operation, _Decision = BlockRevision.Status, BlockRevision.Operation, Review.Decision
_CAN_BE_REPEATED = (_Operation.APPEND, _Operation.REPLACE, _Operation.PATCH)


@transaction.atomic
def propose_overlays(project_id: UUID, *, conversation: UUID, by: Actor) -> list[BlockRevision]:
    """Propose to each shared block what a conversation has made of it; return the proposals. Call it at its end.

    A conversation that goes on sees its own view until it is decided on. One that says what the block says proposes
    nothing.
    """
    views = BlockRevision.objects.filter(
        project=project_id, conversation_id=conversation, status=_Status.OVERLAY
    ).values_list("block", flat=True)
    blocks = Block.objects.select_for_update(of=("self",)).select_related("current").filter(pk__in=set(views))
    # All writers lock blocks in this order, so that two of them cannot deadlock.
    return [made for block in blocks.order_by("pk") if (made := _propose_view(block, conversation, by)) is not None]


@transaction.atomic
def decide_block_revision(
    revision: BlockRevision,
    *,
    decision: str,
    content_sha256: str,
    by: Actor,
    reason: str = "",
    expected_revision: int | None = None,
) -> BlockRevision:
    """Approve a proposal, which takes effect at once, or reject it.

    Other edits that wait for the same block are made again on the approved value, where they still fit; reviewers then
    read what would really be in effect.

    Args:
        content_sha256: the hash of the value that was read.
        expected_revision: the number of the revision in effect that the proposal was compared with. It is needed
            where the block has changed since the proposal: an approval then replaces words that the proposal does not
            know.

    Raises:
        AlreadyDecided: it does not wait for a decision.
        ChangedMeanwhile: another value was read, or the block has changed since the proposal.
        CoveredByOrder: a quarantine order covers its words.
        SecondReviewerNeeded: the project asks for two people, and this one wrote it.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    block = lock_subject(revision.block, "current")
    # Read again under the lock: another decision may have come between the page and this one.
    revision = BlockRevision.objects.select_related("base").get(pk=revision.pk)
    project = check_rights(block, by=by)
    name_actor(by)
    if revision.status != _Status.PROPOSED:
        raise AlreadyDecided(f"This revision is {revision.status}, not waiting for a decision: nothing was changed.")
    check_read(revision, content_sha256)
    if decision == _Decision.APPROVE:
        if project.four_eyes:
            # A key without an owner cannot count as a second person: this refuses it.
            find_owners(by)
            if by.label == revision.created_by:
                raise SecondReviewerNeeded("You wrote this proposal, and this project asks for a second person.")
        _check_base(block, revision, expected_revision)
        check_writer(revision)
    record_review(block, revision, decision, by=by, reason=redact_text(reason))
    if decision == _Decision.APPROVE:
        _move(revision, _Status.APPROVED, replaced=block.current)
        put_in_effect(block, revision)
        _repeat_waiting(block)
    else:
        _move(revision, _Status.REJECTED)
    failpoint("block_review.before_commit")
    return revision


@transaction.atomic
def undo_block_review(review: Review, *, by: Actor) -> BlockRevision:
    """Take back a decision made by mistake: the block says what it said before, and the edit waits in a new revision.

    Approvals are never reused, so that the edit is read and decided on again.

    Raises:
        TooLateToUndo: it is too old, another person's, not the latest decision, or the block was changed since.
        CoveredByOrder: a quarantine order covers what the block said before.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    block = Block.objects.select_for_update(of=("self",)).select_related("current").get(pk=review.subject_id)
    check_rights(block, by=by)
    check_undoable(block, review, by=by, of=(_Decision.APPROVE, _Decision.REJECT))
    name_actor(by)
    decided = block.revisions.select_related("base", "replaced").get(pk=review.revision_id)
    base = decided.base
    if review.decision == _Decision.APPROVE:
        base = decided.replaced
        if base is None or base.erased_at is not None or block.current_id != decided.pk:
            raise TooLateToUndo(
                f"The block {block.label} was changed since then. Look at its history and decide again."
            )
        check_writer(base)
        put_in_effect(block, base)
    edit = Edit(
        by=Actor(label=decided.created_by),
        reason=decided.reason,
        conversation=decided.conversation_id,
        run_id=decided.run_id,
    )
    again = add_waiting(
        block, decided.operation, decided.value, edit, edit_texts=decided.edit, base=base, restores=decided.restores
    )
    record_review(block, again, _Decision.UNDO, by=by, reason=f"Undid: {review.decision}.", undoes=review.pk)
    _repeat_waiting(block)
    return again


def _propose_view(block: Block, conversation: UUID, by: Actor) -> BlockRevision | None:
    """Propose the newest view of a locked block, in place of those before it."""
    of_conversation = block.revisions.filter(conversation_id=conversation)
    views = of_conversation.filter(status__in=[_Status.OVERLAY, _Status.PROPOSED]).order_by("-number")
    newest = views.select_related("base").first()
    if newest is None or newest.status == _Status.PROPOSED:
        return None
    root = newest.base
    # A view builds on earlier views. Reviewers compare with the shared value that the first of them started from.
    while root is not None and root.status not in IN_EFFECT:
        root = root.base
    ids = list(views.values_list("pk", flat=True))
    BlockRevision.objects.filter(pk__in=ids).update(status=_Status.SUPERSEDED)
    # Superseded all the same: the conversation and the block agree, and there is nothing left to decide.
    if block.current is not None and newest.value == block.current.value:
        return None
    edit = Edit(by=by, reason=newest.reason, conversation=conversation, run_id=newest.run_id)
    return add_waiting(block, _Operation.SET, newest.value, edit, base=root)


def _check_base(block: Block, revision: BlockRevision, expected_revision: int | None) -> None:
    current = block.current
    number = current.number if current is not None else 0
    if expected_revision is not None and expected_revision != number:
        raise ChangedMeanwhile(
            f"The block {block.label} is at revision {number}, not {expected_revision}. Compare the proposal with that "
            "and decide again."
        )
    if expected_revision is None and revision.base_id != block.current_id:
        based = revision.base.number if revision.base is not None else 0
        raise ChangedMeanwhile(
            f"The proposal was made on revision {based} of the block {block.label}, which is at revision {number} now. "
            "Approving it replaces what was written since. If that is right, name the revision that you compared it "
            f"with: {number}."
        )


def _repeat_waiting(block: Block) -> None:
    """Make the other waiting edits of a locked block again on its new value; those that do not fit stay as they are."""
    current = block.current
    assert current is not None
    waiting = block.revisions.waiting().filter(operation__in=_CAN_BE_REPEATED).exclude(base=current).order_by("number")
    for old in waiting:
        try:
            value = make_value(old.operation, old.edit, current.value)
            by = Actor(label=old.created_by)
            edit = Edit(by=by, reason=old.reason, conversation=old.conversation_id, run_id=old.run_id)
            # A savepoint: the edit that does not fit is undone alone, and the approval stands.
            with transaction.atomic():
                add_waiting(block, old.operation, value, edit, edit_texts=old.edit, base=current)
                _move(old, _Status.SUPERSEDED)
        except MemoryAppError:
            continue


def _move(revision: BlockRevision, status: str, **columns: Any) -> None:
    """Move a revision that waits to another status."""
    # The condition decides, not what was read before.
    moved = BlockRevision.objects.filter(pk=revision.pk, status=_Status.PROPOSED).update(status=status, **columns)
    assert moved == 1, "the block is locked"
    revision.status = status
