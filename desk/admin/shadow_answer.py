"""The page that shows what the candidate of a project would change, above the answers that were compared."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
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


@admin.register(ShadowAnswer)
class ShadowAnswerAdmin(ReadOnlyAdmin[ShadowAnswer]):
    change_list_template = "admin/evaluation/shadow.html"
    nothing_yet = (
        "No answer has been compared. While a release is on trial, a share of the answers is worked out from it too; "
        "set that share under Lessons, Deployments."
    )
    list_display = [
        column("at", "asked"),
        "family",
        "arm",
        "verdict",
        "added",
        "removed",
        "reworded",
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
        "added_lessons",
        "removed_lessons",
        "reworded_lessons",
        "tokens",
        column("at", "asked"),
        column("made_at", "compared"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ShadowAnswer]:
        return super().get_queryset(request).select_related("retrieval", "stable", "candidate")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        chosen = request.GET.get("project__id__exact", "")
        context = {"title": "What candidates would change", "reports": find_reports(request, chosen)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

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

    @admin.display(description="added")
    def added(self, row: ShadowAnswer) -> int:
        return len(row.figures["added"])

    @admin.display(description="removed")
    def removed(self, row: ShadowAnswer) -> int:
        return len(row.figures["removed"])

    @admin.display(description="reworded")
    def reworded(self, row: ShadowAnswer) -> int:
        return len(row.figures["reworded"])

    @admin.display(description="added lessons")
    def added_lessons(self, row: ShadowAnswer) -> SafeString | str:
        return link_lessons(row.figures["added"])

    @admin.display(description="removed lessons")
    def removed_lessons(self, row: ShadowAnswer) -> SafeString | str:
        return link_lessons(row.figures["removed"])

    @admin.display(description="reworded lessons")
    def reworded_lessons(self, row: ShadowAnswer) -> SafeString | str:
        return link_lessons(row.figures["reworded"])


def find_reports(request: HttpRequest, project: str = "") -> list[tuple[str, ShadowReport]]:
    """Return what shadow found in the projects that a person sees and that have a candidate, or in one of them."""
    seen = visible_projects(request.user)
    if project:
        seen = seen.filter(pk__in=[one for one in seen.values_list("pk", flat=True) if str(one) == project])
    else:
        on_trial = Deployment.objects.filter(candidate__isnull=False).values("project")
        seen = seen.filter(pk__in=on_trial)
    reports = [(str(one), describe_shadow(one)) for one in seen.order_by("slug")[:MOST_PROJECTS]]
    return [(name, report) for name, report in reports if report is not None]


def link_lessons(ids: list[str]) -> SafeString | str:
    """Link each lesson to its page. One query."""
    words = {str(each.pk): each for each in Heuristic.objects.filter(pk__in=ids).select_related("current_revision")}
    links = ((reverse("admin:memory_heuristic_change", args=[id]), show_text(str(words.get(id, id)))) for id in ids)
    return format_html_join(SafeString("<br>"), '<a href="{}">{}</a>', links) if ids else "–"
