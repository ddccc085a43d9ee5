"""The list of mistake cards and their scores. The inbox has each card."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.text import Truncator

from desk.lessons.mistake_desk import DONE, carry_out
from desk.pages.score_charts import scores_context
from desk.shell.columns import column
from desk.shell.read_only import InboxRows, yes_filter
from desk.shell.requests import get_actor
from memory.curation.decisions import MAX_AT_ONCE
from memory.mistakes.models import MistakeCard
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text

GROWN = {"status": MistakeCard.Status.APPROVED, "support__gt": F("approved_support")}


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


@admin.register(MistakeCard)
class MistakeCardAdmin(InboxRows[MistakeCard]):
    inbox_kind = "card"
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
    list_filter = [
        "status",
        MergedFilter,
        yes_filter("count", "grown", "Grown since it was confirmed", lambda cards: cards.filter(**GROWN)),
        "project",
        "last_seen_at",
    ]
    list_select_related = ["current_revision", "project"]
    search_fields = [f"current_revision__{name}" for name in ("trigger", "task_id", "avoid", "rationale")]
    ordering = ["-support", "-id"]
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

    def has_review_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.review_mistakecard")

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
        return self.draw(request, "admin/memory/mistakecard/scores.html", "Scores", **context)

    # Approving takes the inbox, where the words of a card are read.
    @admin.action(description=f"Reject (up to {MAX_AT_ONCE})", permissions=["review"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> None:
        self._decide_selected(request, queryset, "reject")

    @admin.action(description=f"Rank by the current counts (up to {MAX_AT_ONCE})", permissions=["review"])
    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard]) -> None:
        self._decide_selected(request, queryset, "confirm_count")

    def _decide_selected(self, request: HttpRequest, queryset: QuerySet[MistakeCard], decision: str) -> None:
        cards = list(queryset.select_related("current_revision", "project")[: MAX_AT_ONCE + 1])
        if len(cards) > MAX_AT_ONCE:
            most = f"At most {MAX_AT_ONCE} can be decided at once, and you selected more."
            messages.error(request, f"{most} Nothing was changed.")
            return

        def decide(card: MistakeCard) -> str:
            sha256 = card.current_revision.content_sha256 if card.current_revision else ""
            carry_out(card, decision, data={"content_sha256": sha256}, by=get_actor(request))
            return f"{show_text(str(card))}: {DONE[decision]}"

        self.for_each(request, cards, decide, role=ProjectMembership.Role.REVIEWER)
