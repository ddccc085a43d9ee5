"""The list of heuristics with the filters of the review queue. The inbox has each of them."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timesince import timesince

from desk.admin.saved_filters import SavedFilterViews
from desk.lessons.queue import BY_EFFECT, ORDERS, QUEUE_FILTERS, explain_priority
from desk.lessons.release_facts import find_roll_backs
from desk.shell.markdown import write_inline_code
from desk.shell.read_only import InboxRows
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.heuristics.models import Heuristic
from memory.redaction.visible_text import show_text


@admin.register(Heuristic)
class HeuristicAdmin(SavedFilterViews, InboxRows[Heuristic]):
    inbox_kind = "lesson"
    change_list_template = "admin/memory/heuristic/change_list.html"
    nothing_yet = "No lesson has been proposed yet. Reflections propose them from runs; people and agents can too."
    list_display = [
        "trigger_line",
        "status",
        "polarity",
        "task_id",
        "support",
        "given",
        "project",
        "created_at",
    ]
    list_filter = ["status", "project", *QUEUE_FILTERS, "current_revision__polarity", "reflector", "created_at"]
    search_fields = ["current_revision__trigger", "current_revision__guideline", "current_revision__task_id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Heuristic]:
        related = ("current_revision", "superseded_by__current_revision", "project", "claimed_by")
        rows = super().get_queryset(request).select_related(*related)
        # What waits is shown as one row for each group of wordings.
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED:
            return rows.filter(leader__isnull=True).annotate(other_wordings=Count("members"))
        return rows

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = super().get_list_display(request)
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED:
            return ["trigger_line", "why_here", "about", *(name for name in columns if name == "project")]
        return columns

    def add_figures(self, rows: list[Any]) -> None:
        """Add how often each lesson was given and how those runs ended. One query."""
        projects = list({row.project_id for row in rows})
        outcomes = count_by_heuristic(projects, heuristic_ids=[row.pk for row in rows])
        for row in rows:
            row.outcome = outcomes.get(row.pk)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED or "order" in request.GET:
            return ORDERS.get(request.GET.get("order", ""), BY_EFFECT)
        return ("-created_at", "-id")

    @admin.display(description="when", ordering="current_revision__trigger")
    def trigger_line(self, heuristic: Heuristic) -> SafeString:
        trigger = heuristic.current_revision.trigger if heuristic.current_revision else ""
        others: int = getattr(heuristic, "other_wordings", 0)
        more = f" (and {others} more wording{pluralize(others)})" if others else ""
        return write_inline_code(f"{show_text(Truncator(trigger).chars(160))}{more}")

    @admin.display(description="priority", ordering="-review_priority")
    def why_here(self, heuristic: Heuristic) -> str:
        return explain_priority(heuristic) if heuristic.status == Heuristic.Status.PROPOSED else ""

    @admin.display(description="details")
    def about(self, heuristic: Heuristic) -> str:
        revision = heuristic.current_revision
        parts = [revision.get_polarity_display(), revision.task_id or "no task family"] if revision else []
        if heuristic.is_claimed:
            parts.append(f"{heuristic.claimed_by} has claimed it until {heuristic.claimed_until:%H:%M}")
        return show_text(", ".join([*parts, f"waiting {timesince(heuristic.created_at, depth=1)}"]))

    @admin.display(description="given")
    def given(self, heuristic: Heuristic) -> str:
        outcome: OutcomeCount | None = getattr(heuristic, "outcome", None)
        if outcome is None:
            return ""
        ended = f", {outcome.successes} succeeded, {outcome.failures} failed"
        return f"{outcome.answers}×{ended if outcome.success_rate is not None else ''}"

    @admin.display(description="polarity", ordering="current_revision__polarity")
    def polarity(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.get_polarity_display() if heuristic.current_revision else ""

    @admin.display(description="task family", ordering="current_revision__task_id")
    def task_id(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.task_id if heuristic.current_revision else ""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        shown = self.saved_filters_context(request)
        shown["roll_backs"] = find_roll_backs(request)
        return super().changelist_view(request, {**shown, **(extra_context or {})})
