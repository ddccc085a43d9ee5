"""The records: decisions with their statistics, the audit chain and erasures."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from memory.admin.charts import draw_weeks, first_week, midnight
from memory.admin.markdown import write_inline_code
from memory.admin.read_only import ReadOnlyAdmin
from memory.curation.review_statistics import (
    count_reviewers,
    count_weeks,
    find_disagreements,
    find_regrets,
    median_seconds,
    regretted,
)
from memory.heuristics.models import Review
from memory.projects.actors import describe_actor
from memory.redaction.visible_text import show_hidden
from memory.trust.models import AuditEntry, Erasure

PERIODS_DAYS = (7, 30, 90, 365)


class RegretFilter(admin.SimpleListFilter):
    """Approvals of what was taken out of service later."""

    title = "withdrawn later"
    parameter_name = "regret"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Approved, later retired or quarantined")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Review]) -> QuerySet[Review]:
        return regretted(queryset) if self.value() == "yes" else queryset


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin[Review]):
    change_list_template = "admin/memory/review/change_list.html"
    list_display = ["created_at", "decision", "lesson", "by", "reason", "project"]
    list_filter = ["decision", RegretFilter, "project", "created_at"]
    list_select_related = ["heuristic__current_revision", "project"]
    search_fields = ["reviewer", "reason", "content_sha256"]
    date_hierarchy = "created_at"

    @admin.display(description="lesson", ordering="heuristic")
    def lesson(self, review: Review) -> SafeString:
        return write_inline_code(show_hidden(str(review.heuristic)))

    @admin.display(description="reviewer", ordering="reviewer")
    def by(self, review: Review) -> str:
        return show_hidden(describe_actor(review.reviewer))

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
            **self.admin_site.each_context(request),
            "title": "Reviewer statistics",
            "opts": self.opts,
            "days": days,
            "periods": PERIODS_DAYS,
            "reviews_url": _list(created_at__gte=since),
            "approved_url": _list(created_at__gte=since, decision__in="approve,first_approval"),
            "regret_url": _list(created_at__gte=since, regret="yes"),
            "rows": rows,
            "decided": sum(row.decisions for row in rows),
            "approved": sum(row.approved for row in rows),
            "regretted": sum(row.regretted for row in rows),
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
        return TemplateResponse(request, "admin/memory/review/statistics.html", context)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin[AuditEntry]):
    project_path = "project_id"
    list_display = ["number", "project_id", "kind", "subject_id", "sha256", "created_at"]
    list_filter = ["kind", "created_at"]
    search_fields = ["sha256", "kind", "content"]
    date_hierarchy = "created_at"


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin[Erasure]):
    nothing_yet = "Nothing has been erased."
    project_path = "project_id"
    list_display = ["erased_at", "trajectory_id", "erased_by", "project_id"]
    search_fields = ["erased_by"]
    date_hierarchy = "erased_at"


def _list(**filters: object) -> str:
    return reverse("admin:memory_review_changelist", query=filters)
