"""What the agents of each project are given: the settings, the canary, promotion and roll-back, and their history."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse

from desk.admin.deployment_form import (
    DECISIONS,
    FORMS,
    ActForm,
    CanaryForm,
    DeploymentForm,
    SettingsForm,
    carry_out,
    describe_decision,
    find_next_step,
    may_deploy,
)
from desk.effects.verdicts import describe_deployment, list_ended
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.errors import MemoryAppError
from memory.heuristics.models import HeuristicRevision
from memory.projects.access import visible_projects
from memory.projects.models import Project
from memory.releases.deployments import get_deployment
from memory.releases.models import Deployment, DeploymentEvent, Release, ReleaseMember

SHOWN_EVENTS = 50
_Kind = DeploymentEvent.Kind


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin[Deployment]):
    change_list_template = "admin/memory/deployment/change_list.html"
    list_display = ["project_name", "mode", "given", "unit", "changed_at"]
    list_filter = ["mode"]
    list_select_related = ["project", "stable", "candidate"]
    search_fields = ["project__name", "project__slug"]
    actions = None
    nothing_yet = "Projects that were set to wait for releases are listed here."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Deployment]:
        return super().get_queryset(request).defer("stable__manifest", "candidate__manifest")

    @admin.display(description="project", ordering="project__name")
    def project_name(self, deployment: Deployment) -> str:
        return str(deployment.project)

    @admin.display(description="what agents are given")
    def given(self, deployment: Deployment) -> str:
        return deployment.in_words()

    def get_urls(self) -> list[URLPattern]:
        of = path("of/<uuid:project_id>/", self.admin_site.admin_view(self.project_view), name="memory_deployment_of")
        return [of, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """List the deployments, and the projects that have none yet."""
        never = visible_projects(request.user).filter(deployment=None).order_by("name")[:50]
        return super().changelist_view(request, {"without": never, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        deployment = self.get_object(request, object_id) if self.has_view_permission(request) else None
        if deployment is None:
            return super().change_view(request, object_id, form_url, extra_context)  # refuses, or says that it is gone
        return HttpResponseRedirect(reverse("admin:memory_deployment_of", args=[deployment.project_id]))

    def project_view(self, request: HttpRequest, project_id: UUID) -> HttpResponse:
        """Show what a project's agents are given, and carry out what a button says."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        project = get_object_or_404(visible_projects(request.user), pk=project_id)
        allowed = may_deploy(request.user, project)
        wrong: dict[str, Any] = {}
        if request.method == "POST":
            if not allowed:
                raise PermissionDenied
            do = request.POST.get("do", "")
            form = FORMS.get(do, ActForm)(request.POST, prefix=do if do in ("settings", "canary") else None)
            if form.is_valid():
                try:
                    messages.success(request, carry_out(project, do, form.cleaned_data, by=get_actor(request)))
                except MemoryAppError as refusal:
                    messages.error(request, str(refusal))
                return HttpResponseRedirect(request.path)
            wrong = {do: form}
        asked = request.POST.get("do", "") or request.GET.get("ask", "")
        if allowed and asked in DECISIONS:
            return self._ask(request, project, asked, wrong.get(asked))
        context = deployment_context(project)
        context |= {"may_deploy": allowed, "forms": {**context["forms"], **wrong}}
        context["experiments"] = describe_deployment(request.user, project)
        return self.draw(request, "admin/memory/deployment/deployment.html", "Deployment", **context)

    def _ask(self, request: HttpRequest, project: Project, do: str, form: Any) -> HttpResponse:
        """Say what a promotion or a roll-back will do, and ask for a reason. That page's button does it."""
        deployment = get_deployment(project)
        question = describe_decision(deployment, do)
        if question is None:
            messages.error(request, "There is nothing to promote or to roll back to. Read what agents are given now.")
            return HttpResponseRedirect(request.path)
        form = form or DeploymentForm(initial={"version": deployment.version})
        context = {**question, "project": project, "do": do, "consequences": list_ended(project), "form": form}
        return self.draw(request, "admin/memory/deployment/decide.html", question["question"], **context)


def deployment_context(project: Project) -> dict[str, Any]:
    """Collect what the page of a deployment shows. A fixed number of queries."""
    deployment = get_deployment(project)
    newest = Release.objects.filter(project=project).defer("manifest").order_by("-number").first()
    events = list(DeploymentEvent.objects.filter(project=project).order_by("-version")[:SHOWN_EVENTS])
    return {
        "project": project,
        "deployment": deployment,
        "newest": newest,
        "serves_releases": deployment.mode == Deployment.Mode.RELEASES,
        "waiting": count_waiting(deployment),
        "next_percent": (find_next_step(deployment) or 0) / 10,
        "canary_percent": deployment.canary_share / 10,
        "holdout_percent": deployment.holdout_share / 10,
        "shadow_percent": deployment.shadow_share / 10,
        "returns_to": deployment.stable if deployment.candidate else deployment.previous,
        "was_stable": find_former(deployment, events),
        "roll_backs": DeploymentEvent.objects.unseen_roll_backs().filter(project=project).order_by("-version")[:1],
        "forms": {"settings": SettingsForm.of(deployment), "canary": CanaryForm.of(deployment, newest)},
        "history": describe_events(events),
    }


def find_former(deployment: Deployment, events: Iterable[DeploymentEvent]) -> Release | None:
    """Return the release that was stable before a roll-back left nothing to go back to; None if there was none."""
    # The events come newest first.
    stable = (event.state["stable_id"] for event in events)
    former = next((id for id in stable if id not in (None, str(deployment.stable_id))), None)
    if deployment.candidate or deployment.previous or former is None:
        return None
    return Release.objects.defer("manifest").filter(pk=former).first()


def count_waiting(deployment: Deployment) -> int:
    """Return how many approved wordings the stable release lacks; they wait for the next one."""
    if deployment.mode != Deployment.Mode.RELEASES:
        return 0
    members = ReleaseMember.objects.filter(release=deployment.stable_id)
    served = HeuristicRevision.objects.of_lessons().for_project(deployment.project).served()
    return served.exclude(pk__in=members.values("revision")).count()


def describe_events(events: Iterable[DeploymentEvent]) -> list[dict[str, Any]]:
    """Return the history as the page shows it, each change with the state that it led to. One query."""
    events = list(events)
    ids = {event.state[name] for event in events for name in ("stable_id", "candidate_id") if event.state[name]}
    numbers = {str(pk): number for pk, number in Release.objects.filter(pk__in=ids).values_list("pk", "number")}
    return [
        {
            "event": event,
            "is_automatic": event.made_by.startswith("policy:") and event.kind == _Kind.ROLLED_BACK,
            "stable": numbers.get(event.state["stable_id"]),
            "candidate": numbers.get(event.state["candidate_id"]),
            "canary_percent": event.state["canary_share"] / 10,
            "holdout_percent": event.state["holdout_share"] / 10,
        }
        for event in events
    ]
