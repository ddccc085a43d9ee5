"""Runs, readable."""

import json
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.text import Truncator

from memory.admin.read_only import ReadOnlyAdmin
from memory.models import Evidence, Trajectory
from memory.visible_text import show_hidden


@admin.register(Trajectory)
class TrajectoryAdmin(ReadOnlyAdmin[Trajectory]):
    change_form_template = "admin/memory/trajectory/read.html"
    list_display = ["task_line", "outcome", "score", "task_id", "agent", "project", "created_at"]
    list_filter = ["outcome", "outcome_source", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task", "task_id", "external_id", "agent"]
    date_hierarchy = "created_at"

    @admin.display(description="task", ordering="task")
    def task_line(self, trajectory: Trajectory) -> str:
        return show_hidden(Truncator(trajectory.task).chars(120))

    def get_urls(self) -> list[URLPattern]:
        download = path(
            "<uuid:trajectory_id>/steps.json",
            self.admin_site.admin_view(self.download),
            name="memory_trajectory_download",
        )
        return [download, *super().get_urls()]

    def download(self, request: HttpRequest, trajectory_id: str) -> HttpResponse:
        trajectory = get_object_or_404(self.get_queryset(request), pk=trajectory_id)
        if not self.has_view_permission(request, trajectory):
            return HttpResponse("You may not see trajectories.", status=403)
        shown = {name: getattr(trajectory, name) for name in ("task", "outcome", "score", "steps")}
        body = json.dumps(shown, ensure_ascii=False, indent=1)
        return HttpResponse(
            body,
            content_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="trajectory-{trajectory.pk}.json"'},
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        learnt = Evidence.objects.select_related("heuristic__current_revision")
        found = (
            Trajectory.objects.select_related("retrieval", "project")
            .prefetch_related(Prefetch("evidence", queryset=learnt, to_attr="learnt"))
            .filter(pk=object_id)
            .first()
        )
        context = {"trajectory": found, "cited": _cited_steps(found) if found else set()}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})


def _cited_steps(trajectory: Trajectory) -> set[int]:
    """Return the numbers of the steps that some heuristic cites."""
    cited: set[int] = set()
    for evidence in trajectory.learnt:  # type: ignore[attr-defined]  # prefetched above
        if evidence.first_step is not None and evidence.last_step is not None:
            cited.update(range(evidence.first_step, evidence.last_step + 1))
    return cited
