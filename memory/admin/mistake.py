"""Mistake cards: what agents report again and again, waiting for a decision."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.text import Truncator

from memory.admin.mistake_desk import card_context
from memory.admin.read_only import ReadOnlyAdmin
from memory.admin.score_charts import scores_context
from memory.curation.decisions import MAX_AT_ONCE
from memory.errors import MemoryAppError
from memory.mistakes.decisions import approve_card, confirm_count, reject_card, retire_card
from memory.mistakes.merge import merge_cards, undo_merge
from memory.mistakes.models import MistakeCard, MistakeMerge
from memory.mistakes.wordings import reopen_card
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_hidden

_DONE = {
    "approve": "Approved: agents are given it from now on.",
    "reject": "Rejected. Its runs go on being counted.",
    "retire": "Retired: agents are not given it any more.",
    "confirm_count": "The count decides its place from now on.",
    "reopen": "It waits for a decision again.",
    "merge": "Merged. Its runs count with the other card's; the merge can be undone there.",
    "undo_merge": "Taken apart: both cards count for themselves and are not merged again by likeness.",
}


class MergedFilter(admin.SimpleListFilter):
    """Cards that count for themselves, unless the merged ones are asked for."""

    title = "merged"
    parameter_name = "merged"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Merged into another"), ("all", "All")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        for number, choice in enumerate(super().choices(changelist)):
            yield choice if number else {**choice, "display": "Counting for themselves"}

    def queryset(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> QuerySet[MistakeCard]:
        if self.value() == "yes":
            return queryset.filter(merged_into__isnull=False)
        return queryset if self.value() == "all" else queryset.filter(merged_into__isnull=True)


class GrownFilter(admin.SimpleListFilter):
    """Cards agents are given whose count grew since a reviewer confirmed it."""

    title = "count"
    parameter_name = "grown"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Grown since it was confirmed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> QuerySet[MistakeCard]:
        if self.value() != "yes":
            return queryset
        return queryset.filter(status=MistakeCard.Status.APPROVED, seen_count__gt=F("ranked_count"))


@admin.register(MistakeCard)
class MistakeCardAdmin(ReadOnlyAdmin[MistakeCard]):
    change_form_template = "admin/memory/mistakecard/desk.html"
    change_list_template = "admin/memory/mistakecard/change_list.html"
    list_display = ["decision_line", "mistake_type", "seen", "status", "about", "seen_last"]
    list_filter = ["status", MergedFilter, GrownFilter, "project", "last_seen_at"]
    list_select_related = ["current_revision", "project"]
    search_fields = ["mistake_type", "task_id", "current_revision__bad_decision", "current_revision__lesson"]
    ordering = ["-seen_count", "-id"]
    show_full_result_count = False
    actions = ["reject_selected", "confirm_selected"]

    @admin.display(description="what went wrong", ordering="current_revision__bad_decision")
    def decision_line(self, card: MistakeCard) -> str:
        revision = card.current_revision
        words = (revision.bad_decision or revision.lesson or revision.correct_decision) if revision else ""
        return show_hidden(Truncator(words).chars(140))

    @admin.display(description="where", ordering="task_id")
    def about(self, card: MistakeCard) -> str:
        return show_hidden(f"{card.task_id or 'no family'}, {card.project.slug}")

    @admin.display(description="seen", ordering="seen_count")
    def seen(self, card: MistakeCard) -> int:
        return card.seen_count

    @admin.display(description="last", ordering="last_seen_at")
    def seen_last(self, card: MistakeCard) -> str:
        return f"{card.last_seen_at:%Y-%m-%d}" if card.last_seen_at else ""

    def has_review_permission(self, request: HttpRequest, obj: MistakeCard | None = None) -> bool:
        allowed = request.user.has_perm("memory.review_mistakecard")
        if obj is None or not allowed:
            return allowed
        return has_role(request.user, obj.project_id, ProjectMembership.Role.REVIEWER)

    def get_urls(self) -> list[URLPattern]:
        scores = path("scores/", self.admin_site.admin_view(self.scores_view), name="memory_scores")
        return [scores, *super().get_urls()]

    def scores_view(self, request: HttpRequest) -> HttpResponse:
        """Draw the score history of each task family and agent."""
        if not request.user.has_perm("memory.view_trajectory"):
            raise PermissionDenied
        wanted = request.GET.get("task_id")
        family = None if wanted is None else wanted.replace("\x00", "")  # which the database cannot compare
        context = scores_context(request.user, project_id=request.GET.get("project", ""), task_id=family)
        page = {**self.admin_site.each_context(request), **context, "opts": self.opts, "title": "Scores"}
        return TemplateResponse(request, "admin/memory/mistakecard/scores.html", page)

    @admin.action(description=f"Reject (up to {MAX_AT_ONCE})", permissions=["review"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> None:
        # Approving takes the card's own page, where its words are read.
        self._decide_selected(request, queryset, "reject")

    @admin.action(description=f"Place them by their present counts (up to {MAX_AT_ONCE})", permissions=["review"])
    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> None:
        self._decide_selected(request, queryset, "confirm_count")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        card = self.get_object(request, object_id)
        if card is None or card.current_revision is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        may_review = self.has_review_permission(request, card)
        if request.method == "POST":
            if not may_review:
                raise PermissionDenied("You need the permission “review mistake cards” to decide on this page.")
            self._decide(request, card)
            return HttpResponseRedirect(request.path)
        context = card_context(card, may_review=may_review)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _decide(self, request: HttpRequest, card: MistakeCard) -> None:
        decision = request.POST.get("decision", "")
        if decision not in _DONE:
            messages.error(request, "Choose one of the buttons.")
            return
        try:
            carry_out(card, decision, data=request.POST, by=Actor.person(request.user))  # type: ignore[arg-type]
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _DONE[decision])

    def _decide_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard], decision: str) -> None:
        done = 0
        selected = list(queryset.select_related("current_revision")[: MAX_AT_ONCE + 1])
        if len(selected) > MAX_AT_ONCE:
            messages.error(
                request, f"At most {MAX_AT_ONCE} can be decided at once, and you selected more. Nothing was changed."
            )
            return
        for card in selected:
            if not self.has_review_permission(request, card):
                messages.error(request, f"{show_hidden(str(card))}: you do not review in its project.")
                continue
            data = {"content_sha256": card.current_revision.content_sha256} if card.current_revision else {}
            try:
                carry_out(card, decision, data=data, by=Actor.person(request.user))  # type: ignore[arg-type]
                done += 1
            except MemoryAppError as refusal:
                messages.error(request, f"{show_hidden(str(card))}: {refusal}")
        if done:
            messages.success(request, f"{done} decided. {_DONE[decision]}")


def carry_out(card: MistakeCard, decision: str, *, data: Any, by: Actor) -> None:
    """Carry out one decision of a form.

    Raises:
        MemoryAppError: it cannot be taken now, or names another card that is not there.
    """
    reason, sha256 = data.get("reason", "").strip(), data.get("content_sha256") or None
    if decision in ("approve", "reject") and sha256 is None:
        raise MemoryAppError(
            "Nothing was decided, because the words you read were not named. Open the card's page, read it and decide "
            "with its buttons (other programs send its content_sha256)."
        )
    match decision:
        case "approve":
            approve_card(card, by=by, content_sha256=sha256, reason=reason)
        case "reject":
            reject_card(card, by=by, content_sha256=sha256, reason=reason)
        case "retire":
            retire_card(card, by=by, reason=reason)
        case "confirm_count":
            confirm_count(card, by=by, reason=reason)
        case "reopen":
            reopen_card(card, by=by)
        case "merge":
            into_id = _read_id(data.get("into"))
            into = MistakeCard.objects.filter(project=card.project_id, pk=into_id).first() if into_id else None
            if into is None:
                raise MemoryAppError("The other card is gone. Look at the list and choose again.")
            merge_cards(card, into=into, by=by, reason=reason)
        case "undo_merge":
            merge_id = _read_id(data.get("merge"))
            merge = MistakeMerge.objects.filter(project=card.project_id, pk=merge_id).first() if merge_id else None
            if merge is None or card.pk not in (merge.card_id, merge.into_id):
                raise MemoryAppError("This merge is gone. Look at the card again.")
            undo_merge(merge, by=by, reason=reason)


def _read_id(value: str | None) -> UUID | None:
    try:
        return UUID(value or "")
    except ValueError:
        return None
