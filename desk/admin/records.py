"""The records: decisions with their statistics, the audit chain and erasures."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from desk.pages.trends import first_week, midnight
from desk.shell.columns import column, link, who, words
from desk.shell.markdown import write_inline_code
from desk.shell.plots import draw_weeks
from desk.shell.read_only import PROJECT, LastingRecordAdmin, ReadOnlyAdmin, yes_filter
from memory.curation.review_statistics import (
    count_reviewers,
    count_weeks,
    find_disagreements,
    find_regrets,
    median_seconds,
    regretted,
)
from memory.heuristics.models import Heuristic
from memory.redaction.visible_text import show_text
from memory.review.models import Review
from memory.trust.models import AuditEntry, Erasure

PERIODS_DAYS = (7, 30, 90, 365)
_ENTRY = [words("kind", "what happened"), column("subject_id", "about")]


def _describe_receipt(receipt: dict[str, Any] | None) -> str:
    """Say what went with a person, and what is left."""
    if receipt is None:
        return ""
    went = [f"{count:,} {kind}" for kind, count in receipt["counts"].items()]
    left = [f"{count:,} left in {place}" for place, count in receipt["left"].items()]
    return ", ".join([*went, *left]) or "nothing"


def _name_lesson(heuristic: Heuristic) -> SafeString:
    return write_inline_code(show_text(str(heuristic)))


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin[Review]):
    change_list_template = "admin/memory/review/change_list.html"
    row_title = "Decision"
    nothing_yet = "Nothing has been decided yet. What waits for a decision is in the inbox."
    list_display = [
        column("created_at", "when"),
        "decision",
        column("heuristic", "lesson", _name_lesson),
        who("reviewer", "reviewer"),
        "reason",
        "project",
    ]
    list_filter = [
        "decision",
        yes_filter("withdrawn later", "regret", "Approved, later retired or quarantined", regretted),
        "project",
        "created_at",
    ]
    list_select_related = ["heuristic__current_revision", "project"]
    search_fields = ["reviewer", "reason", "content_sha256"]
    date_hierarchy = "created_at"
    facts = [
        column("created_at", "when"),
        "decision",
        link("heuristic", "lesson", _name_lesson),
        "revision",
        who("reviewer", "reviewer"),
        "reason",
        column("seconds_on_screen", "time on screen", "{:.1f} s".format),
        column("decided_with", "decided with"),
        "project",
        column("content_sha256", "hash of the words"),
        "request_id",
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Review]:
        return super().get_queryset(request).filter(kind=Review.Kind.LESSON)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.statistics_view)
        return [path("statistics/", view, name="memory_review_statistics"), *super().get_urls()]

    def statistics_view(self, request: HttpRequest) -> HttpResponse:
        """Show how the reviewers decide."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        wanted = request.GET.get("days", "")
        days = int(wanted) if wanted in map(str, PERIODS_DAYS) else 90
        now = timezone.now()
        since = midnight(now - timedelta(days=days))
        everything = self.get_queryset(request)
        reviews = everything.filter(created_at__gte=since)
        rows = count_reviewers(reviews)
        start = first_week(now)
        context = {
            "days": days,
            "periods": PERIODS_DAYS,
            "reviews_url": _list(created_at__gte=since),
            "approved_url": _list(created_at__gte=since, decision__in="approve,first_approval"),
            "regret_url": _list(created_at__gte=since, regret="yes"),
            "rows": rows,
            "decided": sum(row.decisions for row in rows),
            "approved": sum(row.approved for row in rows),
            "regretted": sum(row.regretted for row in rows),
            # Each comparison counts for both of its reviewers.
            "compared": sum(row.compared for row in rows) // 2,
            "agreed": sum(row.agreed for row in rows) // 2,
            "median_seconds": median_seconds(reviews),
            "regrets": find_regrets(reviews),
            "disagreements": find_disagreements(reviews),
            "chart": draw_weeks(
                "Decisions per week",
                "approved",
                "rejected or withdrawn",
                count_weeks(everything, start=start),
                start=start,
                link=lambda first, last: _list(created_at__gte=first, created_at__lt=last),
            ),
        }
        return self.draw(request, "admin/memory/review/statistics.html", "Reviewer statistics", **context)


@admin.register(AuditEntry)
class AuditEntryAdmin(LastingRecordAdmin[AuditEntry]):
    nothing_yet = "Nothing has been recorded yet. Decisions, keys, erasures and quarantines are, and cannot be changed."
    list_display = ["number", column("created_at", "when"), *_ENTRY, PROJECT, column("sha256", "hash")]
    list_filter = ["kind", "created_at"]
    search_fields = ["sha256", "kind", "content"]
    date_hierarchy = "created_at"
    facts = [
        "number",
        column("created_at", "when"),
        *_ENTRY,
        PROJECT,
        column("content", "content, as hashed"),
        column("previous_sha256", "hash of the entry before"),
        column("sha256", "hash"),
    ]


@admin.register(Erasure)
class ErasureAdmin(LastingRecordAdmin[Erasure]):
    nothing_yet = (
        "Nothing has been erased. `manage.py erase` and DELETE /api/v1/trajectories/{id} erase a run; "
        "`manage.py person` and the page “A person” erase everything about a person."
    )
    list_display = [
        column("erased_at", "when"),
        column("trajectory_id", "id of the run"),
        column("heuristic_ids", "lessons erased with it", len),
        column("receipt", "of a person", _describe_receipt),
        who("erased_by", "by"),
        PROJECT,
    ]
    facts = list_display
    search_fields = ["erased_by"]
    date_hierarchy = "erased_at"


def _list(**filters: object) -> str:
    return reverse("admin:memory_review_changelist", query=filters)
