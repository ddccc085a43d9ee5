"""The list of blocks, and the page of each: what it says, what waits for review, and its history."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.text import Truncator

from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.word_diff import DiffPart, shorten_same
from memory.blocks.decisions import decide_block_revision
from memory.blocks.edits import IN_EFFECT, Edit, undo_block
from memory.blocks.models import Block, BlockRevision
from memory.errors import MemoryAppError
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text

SHOWN_REVISIONS = 30
SHOWN_WAITING = 20
_DONE = {
    "approve": "Approved. Agents read it from now on.",
    "reject": "Rejected. What the block says stays as it is.",
    "undo": "The earlier value is back.",
    "proposed": "The earlier value waits for review, as every edit of this block does.",
}


class WaitingFilter(admin.SimpleListFilter):
    """Offers the blocks with edits that wait for review."""

    title = "review"
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Edits are waiting")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Block]) -> QuerySet[Block]:
        waiting = BlockRevision.objects.waiting().filter(block=OuterRef("pk"))
        return queryset.filter(Exists(waiting)) if self.value() == "yes" else queryset


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRevision:
    """A revision and how it differs from what it is compared with. `can_return` says that an undo may bring it back."""

    revision: BlockRevision
    diff: list[DiffPart]
    can_return: bool = False


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin[Block]):
    nothing_yet = "No block has been made yet. A block is memory that is always in the prompt of an agent."
    change_form_template = "admin/memory/block/page.html"
    list_display = ["label", "says", "edits_waiting", "policy", "project", "updated_at"]
    list_filter = ["policy", WaitingFilter, "read_only", "project"]
    list_select_related = ["current", "project"]
    search_fields = ["label", "description", "current__value"]
    ordering = ["-created_at", "-id"]
    show_full_result_count = False

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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        block = self.get_object(request, object_id)
        if block is None or block.current is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        may_review = self.has_review_permission(request, block)
        if request.method == "POST":
            if not may_review:
                raise PermissionDenied("You need the permission “review blocks” to decide on this page.")
            try:
                done = carry_out(block, request.POST, by=Actor.person(request.user))  # type: ignore[arg-type]
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
            else:
                messages.success(request, _DONE[done])
            return HttpResponseRedirect(request.path)
        context = block_context(block) | {"may_review": may_review}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})


def carry_out(block: Block, data: Mapping[str, Any], *, by: Actor) -> str:
    """Carry out what a form asks for; return which message says so.

    Raises:
        MemoryAppError: it cannot be done now.
    """
    decision, compared = data.get("decision", ""), _read_number(data.get("compared"))
    if decision == "undo":
        to = _read_number(data.get("to"))
        edit = Edit(
            by=by, reason=data.get("reason", "").replace("\x00", "").strip(), expected_revision=compared, by_agent=False
        )
        made = undo_block(block, edit=edit, to=to)
        return "undo" if made.status in IN_EFFECT else "proposed"
    if decision not in ("approve", "reject"):
        raise MemoryAppError("Choose one of the buttons.")
    id = _read_id(data.get("revision"))
    revision = block.revisions.filter(pk=id).first() if id is not None else None
    if revision is None:
        raise MemoryAppError("This edit no longer exists. Reload the page.")
    decide_block_revision(
        revision,
        decision=decision,
        content_sha256=data.get("content_sha256", ""),
        by=by,
        reason=data.get("reason", "").replace("\x00", "").strip(),
        expected_revision=compared if decision == "approve" else None,
    )
    return str(decision)


def block_context(block: Block) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries."""
    current = block.current
    assert current is not None
    newest = block.revisions.select_related("base").order_by("-number")
    waiting = newest.waiting()[:SHOWN_WAITING]
    numbers = BlockRevision.objects.filter(pk=OuterRef("revision_id")).values("number")
    return {
        "current": current,
        "length": len(current.value),
        "waiting": [ShownRevision(revision=one, diff=[*shorten_same(current.value, one.value)]) for one in waiting],
        "history": [
            ShownRevision(
                revision=one,
                diff=[*shorten_same(one.base.value if one.base is not None else "", one.value)],
                can_return=one.status in IN_EFFECT and one.pk != current.pk and one.erased_at is None,
            )
            for one in newest[:SHOWN_REVISIONS]
        ],
        "reviews": list(block.reviews.annotate(number=Subquery(numbers))[:SHOWN_REVISIONS]),
        "title": "Block",
    }


def _read_number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _read_id(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None
