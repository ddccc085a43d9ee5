"""Experiments: the list with a sentence each, the page of one, and the buttons that start, look and stop."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse

from desk.admin.deployment_form import may_deploy
from desk.admin.experiment_form import ExperimentForm
from desk.shell.columns import who
from desk.shell.read_only import REFUSALS, ReadOnlyAdmin
from desk.shell.requests import get_actor
from evaluation.experiments.analysis import State, show_e_value
from evaluation.experiments.lifecycle import stop_experiment
from evaluation.experiments.looks import find_last_looks, take_look
from evaluation.experiments.models import Experiment
from evaluation.reports.experiments import describe_experiment, show_estimate, write_sentence
from evaluation.sequential import RATIO_ALARM
from memory.limits import MAX_REASON_CHARS
from memory.projects.access import projects_with_role, visible_projects
from memory.projects.models import ProjectMembership

SHOWN_LOOKS = 20
_OUTCOMES = {
    State.KNOWN: "With an outcome that counts",
    State.PENDING: "Waiting for one",
    State.MISSING: "Missing: the time is over",
    State.LATE: "Late: does not count",
    State.UNTRUSTED: "From the agent or a judge: does not count",
    State.LEFT_OUT: "Same lessons from both releases: not compared",
}
_Role = ProjectMembership.Role


@admin.register(Experiment)
class ExperimentAdmin(ReadOnlyAdmin[Experiment]):
    change_list_template = "admin/evaluation/experiments.html"
    change_form_template = "admin/evaluation/experiment.html"
    list_display = ["name", "sentence", "status", who("started_by", "started by"), "project", "started_at"]
    nothing_yet = "No experiment has been started yet. One compares a release with another, or lessons with none."
    list_filter = ["status", "compared", "project", "started_at"]
    list_select_related = ["project", "treated_release", "control_release"]
    search_fields = ["reason", "started_by"]
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Experiment]:
        related = ("project", "treated_release", "control_release")
        without = ("treated_release__manifest", "control_release__manifest")
        return super().get_queryset(request).select_related(*related).defer(*without)

    def add_figures(self, rows: list[Any]) -> None:
        """Add what each experiment found. One query."""
        looks = find_last_looks(rows)
        for row in rows:
            row.sentence = write_sentence(row, looks.get(row.pk))

    @admin.display(description="experiment", ordering="number")
    def name(self, experiment: Experiment) -> str:
        return str(experiment)

    @admin.display(description="what it found")
    def sentence(self, experiment: Experiment) -> str:
        return str(getattr(experiment, "sentence", ""))

    def get_urls(self) -> list[URLPattern]:
        start = self.admin_site.admin_view(self.start_view)
        return [path("start/<uuid:project_id>/", start, name="evaluation_experiment_start"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        projects = projects_with_role(request.user, _Role.REVIEWER, _Role.OPERATOR).filter(archived_at=None)
        may_start = request.user.has_perm("memory.deploy_release")
        context = {"start_projects": list(projects.order_by("name")[:50]) if may_start else []}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def row_context(self, request: HttpRequest, row: Experiment) -> dict[str, Any]:
        allowed = may_deploy(request.user, row.project)
        return experiment_context(row) | {"title": str(row), "may_deploy": allowed}

    def press(self, request: HttpRequest, row: Experiment) -> str:
        """Stop an experiment, or look at it now."""
        if not may_deploy(request.user, row.project):
            raise PermissionDenied
        if request.POST.get("do") == "stop":
            reason = request.POST.get("reason", "").replace("\x00", "")[:MAX_REASON_CHARS]
            stop_experiment(row, by=get_actor(request), reason=reason)
            return "Stopped. What is deployed stays as it is: end the canary on the page of the deployment."
        look = take_look(row.pk)
        return "There is a new result." if look else "There is no new result."

    def start_view(self, request: HttpRequest, project_id: UUID) -> HttpResponse:
        """Ask for a plan, and start the experiment."""
        project = get_object_or_404(visible_projects(request.user), pk=project_id)
        if not self.has_view_permission(request) or not may_deploy(request.user, project):
            raise PermissionDenied
        form = ExperimentForm(initial={"release": request.GET.get("release", "")[:64]})
        if request.method == "POST":
            form = ExperimentForm(request.POST)
            if form.is_valid():
                try:
                    experiment = form.start(project, by=get_actor(request))
                except REFUSALS as refusal:
                    form.add_error(None, str(refusal))
                else:
                    messages.success(request, f"{experiment} runs. Its plan stays as it is.")
                    return HttpResponseRedirect(reverse("admin:evaluation_experiment_change", args=[experiment.pk]))
        template = "admin/evaluation/experiment_start.html"
        return self.draw(request, template, "Start an experiment", project=project, form=form)


def experiment_context(experiment: Experiment) -> dict[str, Any]:
    """Collect what the page of an experiment shows. A fixed number of queries."""
    shown = describe_experiment(experiment)
    last, outcomes = shown["last"], shown["outcomes"]
    labels = [("units", "Exposed"), *((state.value, _OUTCOMES[state]) for state in State)]
    lines = [(label, [row[name] for row in outcomes]) for name, label in labels]
    shares = ("Without an outcome that counts", [f"{100 * row['lost_share']:.1f}%" for row in outcomes])
    return shown | {
        "experiment": experiment,
        "guardrails": [row | {"e_shown": show_e_value(row["e_value"])} for row in shown["guardrails"]],
        "outcome_lines": [{"label": label, "values": values} for label, values in [*lines, shares]],
        "ratio_alarm": last is not None and last.ratio_e_value >= RATIO_ALARM,
        "ratio_shown": show_e_value(last.ratio_e_value) if last else "",
        "recent": [
            {"look": look, "shown": show_estimate(look), "e_shown": show_e_value(look.e_value)}
            for look in shown["looks"][-SHOWN_LOOKS:][::-1]
        ],
    }
