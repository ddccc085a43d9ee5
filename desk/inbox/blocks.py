"""Edits of blocks in the inbox: what an agent would read instead."""

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.text import Truncator

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, find_undo, read_reason
from desk.shell.requests import read_number
from desk.shell.word_diff import shorten_same
from memory.blocks.decisions import decide_block_revision, undo_block_review
from memory.blocks.models import BlockRevision
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.review.models import Review

SHOWN_REVIEWS = 20
# In the order of the keys 1 to 5.
REASONS = [
    (reason, reason) for reason in ("Wrong", "Not needed", "Too long", "Belongs elsewhere", "Should not be kept")
]


class BlockItems(ItemKind):
    """An edit that waits for review, the oldest first."""

    name = "block"
    noun = "block edit"
    label = "Block edits"
    model = BlockRevision
    related = ("block__current", "base", "project")
    permission = "memory.view_block"
    decides = "memory.review_block"
    right = "review blocks"
    reviews = (Review.Kind.BLOCK,)

    def waiting(self) -> QuerySet[BlockRevision]:
        return BlockRevision.objects.waiting()

    def write_row(self, item: BlockRevision) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=f"{item.block.label}: {str(item.get_operation_display()).lower()}",
            then=Truncator(item.value).chars(200),
            why=item.reason,
            since=item.created_at,
        )

    def draw_item(self, item: BlockRevision, *, user: Any) -> Pane:
        block, current = item.block, item.block.current
        assert current is not None  # a block is made with a value
        may_decide = self.may_decide(user, item)
        no = "" if may_decide else "You may only read this edit."
        if not no and item.status != BlockRevision.Status.PROPOSED:
            no = "This edit is not waiting for a decision."
        return Pane(
            kind=self,
            id=item.pk,
            sha256=item.content_sha256,
            heading=f"Revision {item.number} of {block.label}",
            template="admin/memory/block/words.html",
            context={
                # Inside a template, `block` is the template's own.
                "subject": block,
                "current": current,
                "revision": item,
                "parts": [*shorten_same(current.value, item.value)],
            },
            page=reverse("admin:memory_block_change", args=[block.pk]),
            actions=[
                Button(key="a", decision="approve", label="Approve", tone="good", disabled=no),
                Button(key="r", decision="reject", label="Reject", asks="reason", tone="bad", disabled=no),
            ],
            tabs=[
                Tab(
                    name="evidence",
                    label="Earlier decisions",
                    template="admin/memory/block/decisions.html",
                    context={"reviews": list(block.reviews.order_by("-created_at")[:SHOWN_REVIEWS])},
                )
            ],
            hidden={"content_sha256": item.content_sha256, "compared": str(current.number)},
            reasons=REASONS,
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: BlockRevision, *, user: Any, data: Any) -> Done:
        decision = data.get("decision", "")
        if decision not in ("approve", "reject"):
            raise MemoryAppError("Choose one of the buttons.")
        decide_block_revision(
            item,
            decision=decision,
            content_sha256=data.get("content_sha256", ""),
            by=Actor.person(user),
            reason=read_reason(data, needed=decision == "reject"),
            # An approval may replace words that the edit does not know, if the person compared it with them.
            expected_revision=read_number(data.get("compared")) if decision == "approve" else None,
        )
        undo = find_undo(item.block, user)
        if decision == "approve":
            return Done(said="Approved. Agents read it from now on.", undo=undo)
        return Done(said="Rejected. The block stays as it is.", undo=undo)

    def undo_review(self, review: Review, *, by: Actor) -> object:
        return undo_block_review(review, by=by)


BLOCKS = BlockItems()
