"""The page that shows what the candidate of a project would change, above the answers that were compared."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import read_id
from evaluation.models import ShadowAnswer
from evaluation.shadow.summary import ShadowReport, describe_shadow
from memory.heuristics.models import Heuristic
from memory.projects.access import visible_projects
from memory.redaction.visible_text import show_text
from memory.releases.models import Deployment
from runtime.models.changes import ComparisonVerdict

MOST_PROJECTS = 10  # shown above the list unless one is chosen


class VerdictFilter(admin.SimpleListFilter):
    title = "verdict"
    parameter_name = "verdict"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return ComparisonVerdict.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(verdict=self.value()) if self.value() else queryset


def link_lessons(ids: list[str]) -> SafeString | str:
    """Link each lesson to its page. One query."""
    rows = Heuristic.objects.filter(pk__in=ids).select_related("current_revision")
    words = {str(row.pk): row for row in rows}
    links = ((reverse("admin:memory_heuristic_change", args=[id]), show_text(str(words.get(id, id)))) for id in ids)
    return format_html_join(SafeString("<br>"), '<a href="{}">{}</a>', links) if ids else "–"


def _changes(name: str, label: str, show: Callable[[list[str]], Any]) -> Callable[[ShadowAnswer], Any]:
    """Return the column of the lessons that the candidate would add, remove or reword."""

    @admin.display(description=label)
    def shown(row: ShadowAnswer) -> Any:
        return show(row.figures[name])

    return shown


@admin.register(ShadowAnswer)
class ShadowAnswerAdmin(ReadOnlyAdmin[ShadowAnswer]):
    change_list_template = "admin/evaluation/shadow.html"
    list_title = "What candidates would change"
    nothing_yet = (
        "No answer has been compared. While a release is on trial, a share of the answers is worked out from it too; "
        "set that share under Lessons, Deployments."
    )
    list_display = [
        column("at", "asked"),
        "family",
        "arm",
        "verdict",
        *(_changes(name, name, len) for name in ("added", "removed", "reworded")),
        "candidate",
        "project",
    ]
    list_filter = ["project", VerdictFilter, "at"]
    list_select_related = ["retrieval", "candidate", "project"]
    search_fields = ["retrieval__task_id"]
    date_hierarchy = "at"
    facts = [
        "answer",
        "family",
        "arm",
        "stable",
        "candidate",
        "verdict",
        *(_changes(name, f"{name} lessons", link_lessons) for name in ("added", "removed", "reworded")),
        "tokens",
        column("at", "asked"),
        column("made_at", "compared"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ShadowAnswer]:
        return super().get_queryset(request).select_related("retrieval", "stable", "candidate")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        reports = find_reports(request, request.GET.get("project__id__exact", ""))
        return super().changelist_view(request, {"reports": reports, **(extra_context or {})})

    @admin.display(description="family", ordering="retrieval__task_id")
    def family(self, row: ShadowAnswer) -> str:
        return (row.retrieval and row.retrieval.task_id) or "–"

    @admin.display(description="was given")
    def arm(self, row: ShadowAnswer) -> str:
        return row.retrieval.arm if row.retrieval else ""

    @admin.display(description="answer")
    def answer(self, row: ShadowAnswer) -> SafeString:
        url = reverse("admin:memory_retrieval_change", args=[row.retrieval_id])
        return format_html('<a href="{}">What the agent was given</a>', url)

    @admin.display(description="tokens of the stable release and of the candidate")
    def tokens(self, row: ShadowAnswer) -> str:
        return f"{row.figures['stable_tokens']:,} → {row.figures['candidate_tokens']:,}"


def find_reports(request: HttpRequest, chosen: str) -> list[tuple[str, ShadowReport]]:
    """Return what shadow found in the projects that a person sees and that have a candidate, or in one of them."""
    seen = visible_projects(request.user)
    if chosen:
        seen = seen.filter(pk__in=[read_id(chosen)])
    else:
        on_trial = Deployment.objects.filter(candidate__isnull=False).values("project")
        seen = seen.filter(pk__in=on_trial)
    reports = [(str(project), describe_shadow(project)) for project in seen.order_by("slug")[:MOST_PROJECTS]]
    return [(name, report) for name, report in reports if report is not None]
