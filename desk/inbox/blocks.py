"""Edits of blocks in the inbox: what an agent would read instead."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.text import Truncator

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, read_reason
from desk.shell.word_diff import shorten_same
from memory.blocks.decisions import decide_block_revision
from memory.blocks.models import BlockRevision
from memory.errors import MemoryAppError
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.rows import find_row

NOT_ALLOWED = "To decide you need the permission “review blocks” and the role of a reviewer in this project."
SHOWN_REVIEWS = 20


class BlockItems(ItemKind):
    """An edit that waits for review, the oldest first."""

    name = "block"
    noun = "block edit"
    label = "Block edits"
    permission = "memory.view_block"
    decides = "memory.review_block"

    def waiting(self) -> QuerySet[BlockRevision]:
        return BlockRevision.objects.waiting()

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("block").order_by("created_at", "id")
        return [self._write_row(revision) for revision in found[:limit]]

    def _write_row(self, revision: BlockRevision) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=revision.pk,
            title=f"{revision.block.label}: {str(revision.get_operation_display()).lower()}",
            then=Truncator(revision.value).chars(200),
            why=revision.reason,
            since=revision.created_at,
        )

    def find(self, user: Any, id: UUID) -> BlockRevision | None:
        rows = BlockRevision.objects.select_related("block__current", "base", "project")
        return find_row(narrow_to_projects(rows, user).filter(pk=id))

    def draw(self, user: Any, id: UUID) -> Pane | None:
        revision = self.find(user, id)
        if revision is None or revision.block.current is None:
            return None
        block, current = revision.block, revision.block.current
        may_decide = self.may_decide(user, revision.project_id)
        no = "" if may_decide else "You may only read this edit."
        if not no and revision.status != BlockRevision.Status.PROPOSED:
            no = "This edit is not waiting for a decision."
        return Pane(
            kind=self,
            id=revision.pk,
            sha256=revision.content_sha256,
            heading=f"Revision {revision.number} of {block.label}",
            template="admin/memory/block/words.html",
            context={
                "subject": block,  # inside a template, `block` is the template's own
                "current": current,
                "revision": revision,
                "parts": [*shorten_same(current.value, revision.value)],
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
            hidden={"content_sha256": revision.content_sha256, "compared": str(current.number)},
            reasons=REASONS,
            note="" if may_decide else f"You can only read this page. {NOT_ALLOWED}",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        revision = self.find(user, id)
        if revision is None:
            return None
        if not self.may_decide(user, revision.project_id):
            raise PermissionDenied(NOT_ALLOWED)
        decision, reason = data.get("decision", ""), read_reason(data)
        if decision not in ("approve", "reject"):
            raise MemoryAppError("Choose one of the buttons.")
        if decision == "reject" and not reason:
            raise MemoryAppError("Choose a reason or write one; it is kept with the decision.")
        compared = data.get("compared", "")
        decide_block_revision(
            revision,
            decision=decision,
            content_sha256=data.get("content_sha256", ""),
            by=Actor.person(user),
            reason=reason,
            expected_revision=int(compared) if decision == "approve" and compared.isdecimal() else None,
        )
        if decision == "approve":
            return Done(said="Approved. Agents read it from now on.")
        return Done(said="Rejected. What the block says stays as it is.")


# In the order of the keys 1 to 5.
REASONS = [
    ("Wrong", "Wrong"),
    ("Not needed", "Not needed"),
    ("Too long", "Too long"),
    ("Belongs elsewhere", "Belongs elsewhere"),
    ("Should not be kept", "Should not be kept"),
]
BLOCKS = BlockItems()
