"""Evaluations: start one, see how far it is, read its report, compare two."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from desk.admin.evaluation_form import EvaluationForm
from desk.shell.chosen_project import chosen_project
from desk.shell.columns import structure, who
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
from evaluation.errors import EvaluationError
from evaluation.models import EvaluationRun
from evaluation.reports.comparison import show
from evaluation.reports.report import present
from evaluation.reports.side_by_side import put_side_by_side
from evaluation.requests import LIVE, request_evaluation
from evaluation.runner import count_units
from evaluation.suites.base import Options
from memory.projects.access import projects_with_role
from memory.projects.models import ProjectMembership

_REQUESTED = who("requested_by", "requested by")


@admin.register(EvaluationRun)
class EvaluationRunAdmin(ReadOnlyAdmin[EvaluationRun]):
    change_form_template = "admin/evaluation/evaluation.html"
    list_display = ["created_at", "suites", "status", "progress", "uplift", "git_revision", _REQUESTED, "project"]
    actions = ["compare_selected"]
    add_label = "Start an evaluation"
    nothing_yet = "No evaluation has been run yet. Start one to see on known tasks whether lessons help."
    list_filter = ["status", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["requested_by", "failure"]
    date_hierarchy = "created_at"
    facts = [
        "status",
        "failure",
        "report",
        structure("configuration", "settings"),
        structure("versions", "versions"),
        _REQUESTED,
        "created_at",
        "finished_at",
        "id",
    ]

    def get_fields(self, request: HttpRequest, obj: EvaluationRun | None = None) -> Any:
        return [name for name in self.facts if name != "failure" or obj is None or obj.failure]

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

    @admin.display(description="progress")
    def progress(self, run: EvaluationRun) -> str:
        if run.status not in LIVE:
            return ""
        done, total = count_units(run)
        return f"{done} of {total} parts"

    # ── Starting ──────────────────────────────────────────────────────────────────────────────────────────────────
    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("evaluation.add_evaluationrun")

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask what to evaluate, and queue it."""
        if not (self.has_add_permission(request) and _projects(request).exists()):
            raise PermissionDenied
        initial = {"project": chosen_project(request)}
        form = EvaluationForm(request.POST or None, projects=_projects(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            project = form.cleaned_data["project"]
            try:
                run = request_evaluation(project, options=Options.from_json(form.options()), by=get_actor(request))
            except EvaluationError as error:
                form.add_error(None, str(error))
            else:
                return HttpResponseRedirect(reverse("admin:evaluation_evaluationrun_change", args=[run.pk]))
        intro = (
            "It runs in a database of its own, so what agents get does not change. A project runs one at a time: if "
            "one is running, you are taken to it."
        )
        return self.draw(request, "admin/form.html", "Start an evaluation", intro=intro, form=form, button="Start")

    def row_context(self, request: HttpRequest, row: EvaluationRun) -> dict[str, Any]:
        is_live = row.status in LIVE
        done, total = count_units(row) if is_live else (0, 0)
        return {"title": "Evaluation", "run": row, "is_live": is_live, "done": done, "total": total}

    # ── Comparing ─────────────────────────────────────────────────────────────────────────────────────────────────
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.compare_view)
        return [path("compare/", view, name="evaluation_evaluationrun_compare"), *super().get_urls()]

    @admin.action(description="Compare the two selected", permissions=["view"])
    def compare_selected(self, request: HttpRequest, queryset: QuerySet[EvaluationRun]) -> HttpResponse | None:
        runs = list(queryset.order_by("created_at").values_list("pk", flat=True)[:3])
        if len(runs) != 2:
            messages.error(request, "Select two evaluations to compare.")
            return None
        address = reverse("admin:evaluation_evaluationrun_compare", query={"before": runs[0], "after": runs[1]})
        return HttpResponseRedirect(address)

    def compare_view(self, request: HttpRequest) -> HttpResponse:
        """Show the arms of two evaluations side by side."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        before, after = (self.get_object(request, request.GET.get(name, "")) for name in ("before", "after"))
        if before is None or after is None:
            messages.error(request, "Select two evaluations to compare.")
            return HttpResponseRedirect(reverse("admin:evaluation_evaluationrun_changelist"))
        suites = put_side_by_side(before.results, after.results)
        template = "admin/evaluation/compare.html"
        return self.draw(request, template, "Two evaluations", before=before, after=after, suites=suites)

    def get_queryset(self, request: HttpRequest) -> QuerySet[EvaluationRun]:
        return super().get_queryset(request).defer("units")


def _projects(request: HttpRequest) -> Any:
    return projects_with_role(request.user, ProjectMembership.Role.OPERATOR)
