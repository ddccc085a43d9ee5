"""Runs: the list, and a page to read one."""

import json
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from desk.admin.lesson_form import LessonForm, propose_from_step
from desk.pages.search import shorten
from desk.runs.conversation import find_given_heuristics, read_steps
from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.errors import MemoryAppError
from memory.heuristics.models import Evidence, Heuristic
from memory.intake.serializers import TrajectoryAnswer
from memory.projects.access import may_review
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
        column("user_id", "user"),
        "project",
        "created_at",
    ]
    list_filter = ["outcome", "outcome_source", GivenFilter, "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task_id", "external_id", "agent", "user_id"]
    list_title = "Runs"
    row_title = "Run"
    nothing_yet = (
        "No run has been recorded yet. Agents send them with POST /api/v1/trajectories; the API docs under Settings "
        "show how."
    )
    date_hierarchy = "created_at"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trajectory]:
        rows = super().get_queryset(request)
        if request.resolver_match is None or request.resolver_match.url_name != LIST:
            return rows.select_related("retrieval", "project", "system_prompt")
        given = Retrieval.objects.filter(pk=OuterRef("retrieval")).exclude(injected_ids=[])
        # These fields may be large, and the list shows none of them.
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
        trajectory = get_object_or_404(self.get_queryset(request), pk=trajectory_id)
        if not may_review(request.user, trajectory.project_id):
            raise PermissionDenied("You need the role of a reviewer in this project to propose a lesson.")
        step = next((raw for raw in trajectory.steps if raw["index"] == index), None)
        if step is None:
            raise Http404("This run has no such step.")
        form = LessonForm.for_step(trajectory, step, request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                asked = form.cleaned_data
                heuristic = propose_from_step(trajectory, index, asked=asked, by=get_actor(request))
            except MemoryAppError as refusal:
                form.add_error(None, str(refusal))
            else:
                messages.success(request, "The lesson is proposed. It waits for a decision like any other.")
                return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[heuristic.pk]))
        title, intro = f"A lesson from step {index}", shorten(trajectory.task, 200)
        return self.draw(request, "admin/form.html", title, intro=intro, form=form, button="Propose the lesson")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Trajectory], search_term: str
    ) -> tuple[QuerySet[Trajectory], bool]:
        """Search the task and the steps by words, and the names as the other lists do."""
        by_name, may_repeat = super().get_search_results(request, queryset, search_term)
        if not split_words(search_term):
            return by_name, may_repeat
        ids = with_words(queryset, search_term).order_by().values("pk")
        # Sub-queries instead of joins, so that no run is listed twice.
        return queryset.filter(Q(pk__in=ids) | Q(pk__in=by_name.order_by().values("pk"))), False

    def download(self, request: HttpRequest, trajectory_id: UUID) -> HttpResponse:
        """Hand out the run as the API does, all of it."""
        trajectory = get_object_or_404(self.get_queryset(request), pk=trajectory_id)
        if not self.has_view_permission(request, trajectory):
            raise PermissionDenied
        body = TrajectoryAnswer.write(trajectory)
        return HttpResponse(
            json.dumps(body, ensure_ascii=False, indent=1, cls=DjangoJSONEncoder),
            content_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="trajectory-{trajectory.pk}.json"'},
        )

    def row_context(self, request: HttpRequest, row: Trajectory) -> dict[str, Any]:
        """Collect what the page shows: a fixed number of queries, however many steps and lessons."""
        query = request.GET.get("q", "").replace("\x00", "").strip()[:MAX_QUERY_CHARS]
        learnt = list(
            Evidence.objects.filter(trajectory=row, heuristic__kind=Heuristic.Kind.LESSON)
            .select_related("heuristic__current_revision")
            .order_by("first_step", "created_at")
        )
        by_lesson: dict[Heuristic, list[Evidence]] = {}
        for item in learnt:
            by_lesson.setdefault(item.heuristic, []).append(item)
        wanted = request.GET.get("lesson", "")
        of_lesson = [item for item in learnt if str(item.heuristic_id) == wanted]
        steps = read_steps(row, cited=of_lesson or learnt, query=query)
        return {
            "trajectory": row,
            "learnt": by_lesson,
            "sightings": Evidence.objects.filter(trajectory=row, heuristic__kind=Heuristic.Kind.MISTAKE),
            "given": find_given_heuristics(row),
            "lesson": of_lesson[0].heuristic if of_lesson else None,
            "steps": steps,
            "first_cited": next((step.index for step in steps if step.cited), None),
            "failed": [step.index for step in steps if step.failed],
            "query": query,
            "matching": [step.index for step in steps if step.matches] if query else [],
            "may_propose": may_review(request.user, row.project_id),
        }
