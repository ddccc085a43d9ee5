"""The list of mistake cards, the page of each, and the decisions taken there."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.text import Truncator

from desk.inbox.cards import CARDS
from desk.inbox.views import draw_own_page
from desk.lessons.mistake_desk import DONE, carry_out
from desk.pages.score_charts import scores_context
from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from memory.curation.decisions import MAX_AT_ONCE
from memory.errors import MemoryAppError
from memory.mistakes.models import MistakeCard
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text


class MergedFilter(admin.SimpleListFilter):
    """Hides merged cards by default."""

    title = "merged"
    parameter_name = "merged"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Merged into another"), ("all", "All")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        for number, choice in enumerate(super().choices(changelist)):
            yield choice if number else {**choice, "display": "Not merged"}

    def queryset(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> QuerySet[MistakeCard]:
        if self.value() == "all":
            return queryset
        return queryset.filter(superseded_by__isnull=self.value() != "yes")


class GrownFilter(admin.SimpleListFilter):
    """Offers the cards in service whose count has grown since a reviewer confirmed it."""

    title = "count"
    parameter_name = "grown"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Grown since it was confirmed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> QuerySet[MistakeCard]:
        if self.value() != "yes":
            return queryset
        return queryset.filter(status=MistakeCard.Status.APPROVED, support__gt=F("approved_support"))


@admin.register(MistakeCard)
class MistakeCardAdmin(ReadOnlyAdmin[MistakeCard]):
    nothing_yet = "No mistake has been recorded yet. Runs bring them, as `mistake_cards`."
    change_list_template = "admin/memory/mistakecard/change_list.html"
    list_display = [
        "decision_line",
        "mistake_kind",
        column("support", "runs"),
        "status",
        "about",
        "seen_last",
    ]
    list_filter = ["status", MergedFilter, GrownFilter, "project", "last_seen_at"]
    list_select_related = ["current_revision", "project"]
    search_fields = [f"current_revision__{name}" for name in ("trigger", "task_id", "avoid", "rationale")]
    ordering = ["-support", "-id"]
    show_full_result_count = False
    actions = ["reject_selected", "confirm_selected"]

    @admin.display(description="what went wrong", ordering="current_revision__avoid")
    def decision_line(self, card: MistakeCard) -> str:
        words = card.newest.avoid or card.newest.rationale or card.newest.guideline
        return show_text(Truncator(words).chars(140))

    @admin.display(description="kind of mistake", ordering="current_revision__trigger")
    def mistake_kind(self, card: MistakeCard) -> str:
        return show_text(Truncator(card.mistake_type).chars(80))

    @admin.display(description="where", ordering="current_revision__task_id")
    def about(self, card: MistakeCard) -> str:
        return show_text(f"{card.task_id or 'no task family'}, {card.project.slug}")

    @admin.display(description="last seen", ordering="last_seen_at")
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

    # Approving takes the card's own page, where its words are read.
    @admin.action(description=f"Reject (up to {MAX_AT_ONCE})", permissions=["review"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> None:
        self._decide_selected(request, queryset, "reject")

    @admin.action(description=f"Rank by the current counts (up to {MAX_AT_ONCE})", permissions=["review"])
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
        if request.method == "POST":
            if not self.has_review_permission(request, card):
                raise PermissionDenied("You need the permission “review mistake cards” to decide on this page.")
            try:
                done = CARDS.decide_on(card, user=request.user, data=request.POST)
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
            else:
                messages.success(request, done.said)
            return HttpResponseRedirect(request.path)
        return draw_own_page(request, CARDS.draw_card(card, user=request.user), title="Mistake card", opts=self.opts)

    def _decide_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard], decision: str) -> None:
        selected = list(queryset.select_related("current_revision")[: MAX_AT_ONCE + 1])
        if len(selected) > MAX_AT_ONCE:
            messages.error(
                request, f"At most {MAX_AT_ONCE} can be decided at once, and you selected more. Nothing was changed."
            )
            return
        done = 0
        for card in selected:
            data = {"content_sha256": card.current_revision.content_sha256} if card.current_revision else {}
            if not self.has_review_permission(request, card):
                refusal = "You are not a reviewer of its project."
            else:
                refusal = self._decide(request, card, decision, data)
            if refusal:
                messages.error(request, f"{show_text(str(card))}: {refusal}")
            done += not refusal
        if done:
            messages.success(request, f"{done} decided. {DONE[decision]}")

    def _decide(self, request: HttpRequest, card: MistakeCard, decision: str, data: Mapping[str, Any]) -> str:
        """Carry out a decision; return why it was refused, or "" if it was not."""
        try:
            carry_out(card, decision, data=data, by=Actor.person(request.user))  # type: ignore[arg-type]
        except MemoryAppError as refusal:
            return str(refusal)
        return ""
