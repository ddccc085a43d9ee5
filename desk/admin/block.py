"""The list of blocks, and the page of each: what it says, what waits for review, and its history."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.text import Truncator

from desk.shell.read_only import ReadOnlyAdmin, yes_filter
from desk.shell.requests import get_actor, read_number
from desk.shell.word_diff import shorten_same
from memory.blocks.edits import IN_EFFECT, Edit, undo_block
from memory.blocks.models import Block, BlockRevision
from memory.errors import MemoryAppError
from memory.projects.access import has_role
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text

SHOWN_REVISIONS = 30
SHOWN_WAITING = 20
WAITING = Exists(BlockRevision.objects.waiting().filter(block=OuterRef("pk")))


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin[Block]):
    nothing_yet = "No block has been made yet. A block is memory that is always in the prompt of an agent."
    change_form_template = "admin/memory/block/page.html"
    list_display = ["label", "says", "edits_waiting", "policy", "project", "updated_at"]
    list_filter = [
        "policy",
        yes_filter("review", "waiting", "Edits are waiting", lambda blocks: blocks.filter(WAITING)),
        "read_only",
        "project",
    ]
    list_select_related = ["current", "project"]
    search_fields = ["label", "description", "current__value"]
    ordering = ["-created_at", "-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Block]:
        waiting = Count("revisions", filter=Q(revisions__status=BlockRevision.Status.PROPOSED))
        return super().get_queryset(request).annotate(waiting=waiting)

    @admin.display(description="what it says")
    def says(self, block: Block) -> str:
        return show_text(Truncator(block.current.value if block.current else "").chars(120))

    @admin.display(description="waiting", ordering="waiting")
    def edits_waiting(self, block: Any) -> int:
        return int(block.waiting)

    def has_review_permission(self, request: HttpRequest, block: Block) -> bool:
        return request.user.has_perm("memory.review_block") and has_role(
            request.user, block.project_id, ProjectMembership.Role.REVIEWER
        )

    def row_context(self, request: HttpRequest, row: Block) -> dict[str, Any]:
        """Collect what the page shows, in a fixed number of queries."""
        current = row.current
        assert current is not None  # a block is made with a value
        revisions = row.revisions.select_related("base").order_by("-number")
        numbers = BlockRevision.objects.filter(pk=OuterRef("revision_id")).values("number")
        history = []
        for revision in revisions[:SHOWN_REVISIONS]:
            before = revision.base.value if revision.base is not None else ""
            can_return = revision.status in IN_EFFECT and revision.pk != current.pk and revision.erased_at is None
            diff = [*shorten_same(before, revision.value)]
            history.append({"revision": revision, "diff": diff, "can_return": can_return})
        return {
            "current": current,
            "length": len(current.value),
            "waiting": [
                {"revision": revision, "diff": [*shorten_same(current.value, revision.value)]}
                for revision in revisions.waiting()[:SHOWN_WAITING]
            ],
            "history": history,
            "reviews": list(row.reviews.annotate(number=Subquery(numbers))[:SHOWN_REVISIONS]),
            "may_review": self.has_review_permission(request, row),
        }

    def press(self, request: HttpRequest, row: Block) -> str:
        """Return to an earlier value. Where edits wait for review, so does this one."""
        if not self.has_review_permission(request, row):
            raise PermissionDenied("You need the permission “review blocks” to change a block here.")
        if request.POST.get("decision") != "undo":
            raise MemoryAppError("Decide on edits in the inbox.")
        compared = read_number(request.POST.get("compared"))
        edit = Edit(by=get_actor(request), expected_revision=compared, by_agent=False)
        revision = undo_block(row, edit=edit, to=read_number(request.POST.get("to")))
        if revision.status in IN_EFFECT:
            return "The earlier value is back."
        return "The earlier value waits for review, as every edit of this block does."
