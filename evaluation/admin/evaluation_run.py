"""The page of evaluations, with the same tables and plots as the HTML report."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from evaluation.models import EvaluationRun, ShadowAnswer
from evaluation.reports.comparison import show
from evaluation.reports.report import present
from evaluation.shadow.admin import ShadowAnswerAdmin
from memory.admin.read_only import ReadOnlyAdmin

admin.site.register(ShadowAnswer, ShadowAnswerAdmin)


@admin.register(EvaluationRun)
class EvaluationRunAdmin(ReadOnlyAdmin[EvaluationRun]):
    list_display = ["created_at", "suites", "status", "uplift", "git_revision", "requested_by", "project"]
    list_filter = ["status", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["requested_by", "failure"]
    date_hierarchy = "created_at"
    fields = [
        "id",
        "status",
        "failure",
        "report",
        "configuration",
        "versions",
        "requested_by",
        "created_at",
        "finished_at",
    ]
    readonly_fields = ["id", "report"]

    @admin.display(description="uplift (95%)")
    def uplift(self, run: EvaluationRun) -> str:
        """Return the uplift of the first main arm."""
        for suite in run.results.get("suites", []):
            for row in suite["arms"]:
                if row["arm"] == suite.get("main"):
                    return f"{row['arm']} {show(row['uplift'])}"
        return "–"

    @admin.display(description="revision")
    def git_revision(self, run: EvaluationRun) -> str:
        return str(run.versions.get("git_revision", ""))

    @admin.display(description="report")
    def report(self, run: EvaluationRun) -> SafeString:
        return render_to_string("evaluation/suites.html", {"suites": present(run.results)})

    def get_queryset(self, request: HttpRequest) -> QuerySet[EvaluationRun]:
        return super().get_queryset(request).defer("units")
