"""Runs: the list, and a page to read one."""

import json
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from desk.admin.lesson_form import LessonForm, propose_from_step
from desk.pages.search import shorten
from desk.runs.conversation import find_given_heuristics, read_steps
from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.heuristics.models import Evidence, Heuristic
from memory.intake.serializers import TrajectoryAnswer
from memory.projects.access import may_review
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_text
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.runs.search import split_words, with_words

MAX_QUERY_CHARS = 200
LIST = "memory_trajectory_changelist"
_LONG_FIELDS = ("steps", "summary", "mistakes", "successes", "mistake_cards", "metadata", "redactions")


class GivenFilter(admin.SimpleListFilter):
    """Runs by whether the answer they name gave them any lesson."""

    title = "lessons"
    parameter_name = "given"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Given lessons"), ("no", "Not given any")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Trajectory]) -> QuerySet[Trajectory]:
        given = Q(retrieval__injected_ids__len__gt=0)
        return {"yes": queryset.filter(given), "no": queryset.exclude(given)}.get(self.value() or "", queryset)


@admin.register(Trajectory)
class TrajectoryAdmin(ReadOnlyAdmin[Trajectory]):
    change_form_template = "admin/memory/trajectory/read.html"
    list_display = [
        "task_line",
        "outcome",
        "score_shown",
        "was_given",
        column("task_id", "task family"),
        "agent",
        "project",
        "created_at",
    ]
    list_filter = ["outcome", "outcome_source", GivenFilter, "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task_id", "external_id", "agent"]
    nothing_yet = (
        "No run has been recorded yet. Agents send them with POST /api/v1/trajectories; the API docs under Settings "
        "show how."
    )
    date_hierarchy = "created_at"
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trajectory]:
        rows = super().get_queryset(request)
        is_list = request.resolver_match is not None and request.resolver_match.url_name == LIST
        if not is_list:
            return rows
        given = Retrieval.objects.filter(pk=OuterRef("retrieval")).exclude(injected_ids=[])
        return rows.defer(*_LONG_FIELDS).annotate(given=Exists(given))

    @admin.display(description="lessons")
    def was_given(self, trajectory: Trajectory) -> str:
        return "given" if trajectory.given else ""  # type: ignore[attr-defined]

    @admin.display(description="task", ordering="task")
    def task_line(self, trajectory: Trajectory) -> str:
        return show_text(Truncator(trajectory.task).chars(120))

    @admin.display(description="score", ordering="score")
    def score_shown(self, trajectory: Trajectory) -> str:
        return "" if trajectory.score is None else f"{trajectory.score:.2f}"

    def get_urls(self) -> list[URLPattern]:
        download = path(
            "<uuid:trajectory_id>/trajectory.json",
            self.admin_site.admin_view(self.download),
            name="memory_trajectory_download",
        )
        lesson = path(
            "<uuid:trajectory_id>/lesson/<int:index>/",
            self.admin_site.admin_view(self.lesson_view),
            name="memory_trajectory_lesson",
        )
        return [download, lesson, *super().get_urls()]

    def lesson_view(self, request: HttpRequest, trajectory_id: UUID, index: int) -> HttpResponse:
        """Let a reviewer write a lesson from a step of a run."""
        trajectory = get_object_or_404(self.get_queryset(request).select_related("project"), pk=trajectory_id)
        if not may_review(request.user, trajectory.project_id):
            raise PermissionDenied("You need the role of a reviewer in this project to propose a lesson.")
        step = next((raw for raw in trajectory.steps if raw["index"] == index), None)
        if step is None:
            raise Http404("This run has no such step.")
        form = LessonForm.for_step(trajectory, step, request.POST or None)
        if request.method == "POST" and form.is_valid():
            by = Actor.person(request.user)  # type: ignore[arg-type]  # the admin requires it
            try:
                heuristic = propose_from_step(trajectory, index, asked=form.cleaned_data, by=by)
            except MemoryAppError as refusal:
                form.add_error(None, str(refusal))
            else:
                messages.success(request, "The lesson is proposed. It waits for a decision like any other.")
                return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[heuristic.pk]))
        shown = {
            "title": f"A lesson from step {index}",
            "intro": shorten(trajectory.task, 200),
            "opts": self.opts,
            "form": form,
            "button": "Propose the lesson",
        }
        return TemplateResponse(request, "admin/form.html", {**self.admin_site.each_context(request), **shown})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Trajectory], search_term: str
    ) -> tuple[QuerySet[Trajectory], bool]:
        """Search the task and the steps by words, and the names as the other lists do."""
        named, may_repeat = super().get_search_results(request, queryset, search_term)
        if not split_words(search_term):
            return named, may_repeat
        ids = with_words(queryset, search_term).order_by().values("pk")
        return queryset.filter(Q(pk__in=ids) | Q(pk__in=named.order_by().values("pk"))), False

    def download(self, request: HttpRequest, trajectory_id: UUID) -> HttpResponse:
        """Hand out the run as the API does, all of it."""
        trajectory = get_object_or_404(self.get_queryset(request).select_related("retrieval"), pk=trajectory_id)
        if not self.has_view_permission(request, trajectory):
            raise PermissionDenied
        body = TrajectoryAnswer.write(trajectory)
        return HttpResponse(
            json.dumps(body, ensure_ascii=False, indent=1, cls=DjangoJSONEncoder),
            content_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="trajectory-{trajectory.pk}.json"'},
        )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Runs", **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        trajectory = self._find(request, object_id)
        if trajectory is None or not self.has_view_permission(request, trajectory):
            return super().change_view(request, object_id, form_url, extra_context)  # its own refusal
        context = self._reading(request, trajectory)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _find(self, request: HttpRequest, object_id: str) -> Trajectory | None:
        rows = self.get_queryset(request).select_related("retrieval", "project")
        try:
            return rows.filter(pk=object_id).first()
        except (ValueError, ValidationError):
            return None

    def _reading(self, request: HttpRequest, trajectory: Trajectory) -> dict[str, Any]:
        """Collect what the page shows: a fixed number of queries, however many steps and lessons."""
        query = request.GET.get("q", "").replace("\x00", "").strip()[:MAX_QUERY_CHARS]
        learnt = list(
            Evidence.objects.filter(trajectory=trajectory, heuristic__kind=Heuristic.Kind.LESSON)
            .select_related("heuristic__current_revision")
            .order_by("first_step", "created_at")
        )
        by_lesson: dict[Heuristic, list[Evidence]] = {}
        for item in learnt:
            by_lesson.setdefault(item.heuristic, []).append(item)
        wanted = request.GET.get("lesson", "")
        of_lesson = [item for item in learnt if str(item.heuristic_id) == wanted]
        steps = read_steps(trajectory, cited=of_lesson or learnt, query=query)
        return {
            "trajectory": trajectory,
            "learnt": by_lesson,
            "sightings": Evidence.objects.filter(trajectory=trajectory, heuristic__kind=Heuristic.Kind.MISTAKE),
            "given": find_given_heuristics(trajectory),
            "lesson": of_lesson[0].heuristic if of_lesson else None,
            "steps": steps,
            "first_cited": next((step.index for step in steps if step.cited), None),
            "failed": [step.index for step in steps if step.failed],
            "query": query,
            "matching": [step.index for step in steps if step.matches] if query else [],
            "title": "Run",
            "may_propose": may_review(request.user, trajectory.project_id),
        }
