"""Experiments: the list with a sentence each, the page of one, and the buttons that start, look and stop."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from desk.admin.deployment_form import may_deploy
from desk.admin.experiment_form import ExperimentForm
from desk.shell.columns import who
from desk.shell.read_only import ReadOnlyAdmin
from evaluation.errors import EvaluationError
from evaluation.experiments.analysis import State, show_e_value
from evaluation.experiments.lifecycle import stop_experiment
from evaluation.experiments.looks import find_last_looks, take_look
from evaluation.experiments.models import Experiment
from evaluation.reports.experiments import describe_experiment, show_estimate, write_sentence
from evaluation.sequential import RATIO_ALARM
from memory.errors import MemoryAppError
from memory.limits import MAX_REASON_CHARS
from memory.projects.access import projects_with_role, visible_projects
from memory.projects.actors import Actor
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
    show_full_result_count = False
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Experiment]:
        related = ("project", "treated_release", "control_release")
        without = ("treated_release__manifest", "control_release__manifest")
        return super().get_queryset(request).select_related(*related).defer(*without)

    def get_list_display(self, request: HttpRequest) -> Any:
        several = visible_projects(request.user).count() > 1
        return [name for name in self.list_display if name != "project" or several]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Add to each experiment of a page what it found. One query."""
        changelist = super().get_changelist_instance(request)
        rows = changelist.result_list = list(changelist.result_list)
        looks = find_last_looks(rows)
        for row in rows:
            row.sentence = write_sentence(row, looks.get(row.pk))
        return changelist

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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what an experiment found, and carry out what a button says."""
        experiment = self.get_object(request, object_id) if self.has_view_permission(request) else None
        if experiment is None:
            return super().change_view(request, object_id, form_url, extra_context)
        allowed = may_deploy(request.user, experiment.project)
        if request.method == "POST":
            if not allowed:
                raise PermissionDenied
            self._act(request, experiment)
            return HttpResponseRedirect(request.path)
        context = {**experiment_context(experiment), "title": str(experiment), "may_deploy": allowed}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def start_view(self, request: HttpRequest, project_id: UUID) -> HttpResponse:
        """Ask for a plan, and start the experiment."""
        project = get_object_or_404(visible_projects(request.user), pk=project_id)
        if not self.has_view_permission(request) or not may_deploy(request.user, project):
            raise PermissionDenied
        assert request.user.is_authenticated
        form = ExperimentForm(initial={"release": request.GET.get("release", "")[:64]})
        if request.method == "POST":
            form = ExperimentForm(request.POST)
            if form.is_valid():
                try:
                    experiment = form.start(project, by=Actor.person(request.user))
                except (EvaluationError, MemoryAppError) as refusal:
                    form.add_error(None, str(refusal))
                else:
                    messages.success(request, f"{experiment} runs. Its plan stays as it is.")
                    return HttpResponseRedirect(reverse("admin:evaluation_experiment_change", args=[experiment.pk]))
        context = {**self.admin_site.each_context(request), "opts": self.opts, "project": project, "form": form}
        return TemplateResponse(
            request, "admin/evaluation/experiment_start.html", context | {"title": "Start an experiment"}
        )

    def _act(self, request: HttpRequest, experiment: Experiment) -> None:
        assert request.user.is_authenticated
        try:
            if request.POST.get("do") == "stop":
                reason = request.POST.get("reason", "").replace("\x00", "")[:MAX_REASON_CHARS]
                stop_experiment(experiment, by=Actor.person(request.user), reason=reason)
                said = "Stopped. What is deployed stays as it is: end the canary on the page of the deployment."
            else:
                look = take_look(experiment.pk)
                said = "Looked: something new is known." if look else "Looked: nothing new is known."
        except (EvaluationError, MemoryAppError) as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, said)


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
