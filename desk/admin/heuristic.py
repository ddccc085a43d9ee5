"""The list of heuristics and the review desk: filters, actions, decisions and undo."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import pluralize
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timesince import timesince

from desk.admin.saved_filters import SavedFilterViews
from desk.inbox.kinds import Done
from desk.inbox.lessons import LESSONS, NOT_A_REVIEWER
from desk.inbox.views import draw_own_page, remember_undo
from desk.lessons.queue import BY_EFFECT, ORDERS, QUEUE_FILTERS, explain_priority
from desk.lessons.release_facts import find_roll_backs
from desk.shell.markdown import write_inline_code
from desk.shell.read_only import ReadOnlyAdmin
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
from memory.projects.access import may_review, narrow_to_projects, visible_projects
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_text
from memory.review.models import Review


@admin.register(Heuristic)
class HeuristicAdmin(SavedFilterViews, ReadOnlyAdmin[Heuristic]):
    change_list_template = "admin/memory/heuristic/change_list.html"
    nothing_yet = "No lesson has been proposed yet. Reflections propose them from runs; people and agents can too."
    list_display = [
        "trigger_line",
        "status",
        "polarity",
        "task_id",
        "support",
        "given",
        "project",
        "created_at",
    ]
    list_filter = ["status", "project", *QUEUE_FILTERS, "current_revision__polarity", "reflector", "created_at"]
    search_fields = ["current_revision__trigger", "current_revision__guideline", "current_revision__task_id"]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Heuristic]:
        related = ("current_revision", "superseded_by__current_revision", "project", "claimed_by")
        rows = super().get_queryset(request).select_related(*related)
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED:
            return rows.filter(leader__isnull=True).annotate(other_wordings=Count("members"))
        return rows

    def get_list_display(self, request: HttpRequest) -> Any:
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED:
            several = visible_projects(request.user).count() > 1
            return ["trigger_line", "why_here", "about", *["project"] * several]
        return self.list_display

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Add to each heuristic of a page how often it was given and how those runs ended. One query."""
        changelist = super().get_changelist_instance(request)
        if "given" in changelist.list_display:
            rows = changelist.result_list = list(changelist.result_list)
            projects = list({row.project_id for row in rows})
            outcomes = count_by_heuristic(projects, heuristic_ids=[row.pk for row in rows])
            for row in rows:
                row.outcome = outcomes.get(row.pk)
        return changelist

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        if request.GET.get("status__exact") == Heuristic.Status.PROPOSED or "order" in request.GET:
            return ORDERS.get(request.GET.get("order", ""), BY_EFFECT)
        return ("-created_at", "-id")

    @admin.display(description="when", ordering="current_revision__trigger")
    def trigger_line(self, heuristic: Heuristic) -> SafeString:
        trigger = heuristic.current_revision.trigger if heuristic.current_revision else ""
        others: int = getattr(heuristic, "other_wordings", 0)
        more = f" (and {others} more wording{pluralize(others)})" if others else ""
        return write_inline_code(f"{show_text(Truncator(trigger).chars(160))}{more}")

    @admin.display(description="priority", ordering="-review_priority")
    def why_here(self, heuristic: Heuristic) -> str:
        return explain_priority(heuristic) if heuristic.status == Heuristic.Status.PROPOSED else ""

    @admin.display(description="details")
    def about(self, heuristic: Heuristic) -> str:
        revision = heuristic.current_revision
        parts = [revision.get_polarity_display(), revision.task_id or "no task family"] if revision else []
        if heuristic.is_claimed:
            parts.append(f"{heuristic.claimed_by} has claimed it until {heuristic.claimed_until:%H:%M}")
        return show_text(", ".join([*parts, f"waiting {timesince(heuristic.created_at, depth=1)}"]))

    @admin.display(description="given")
    def given(self, heuristic: Heuristic) -> str:
        outcome: OutcomeCount | None = getattr(heuristic, "outcome", None)
        if outcome is None:
            return ""
        ended = f", {outcome.successes} succeeded, {outcome.failures} failed"
        return f"{outcome.answers}×{ended if outcome.success_rate is not None else ''}"

    @admin.display(description="polarity", ordering="current_revision__polarity")
    def polarity(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.get_polarity_display() if heuristic.current_revision else ""

    @admin.display(description="task family", ordering="current_revision__task_id")
    def task_id(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.task_id if heuristic.current_revision else ""

    def has_review_permission(self, request: HttpRequest, obj: Heuristic | None = None) -> bool:
        if obj is None:
            return request.user.has_perm("memory.review_heuristic")
        return may_review(request.user, obj.project_id)

    def get_urls(self) -> list[URLPattern]:
        undo = path("<uuid:review_id>/undo/", self.admin_site.admin_view(self.undo_view), name="memory_heuristic_undo")
        return [undo, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        shown = self.saved_filters_context(request)
        shown["roll_backs"] = find_roll_backs(request)
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        heuristic = self.get_object(request, object_id)
        if heuristic is None:
            gone = "This lesson or its project was deleted, or you are no longer a member of the project."
            messages.error(request, f"{gone} Nothing was changed.")
            return HttpResponseRedirect(reverse("admin:memory_heuristic_changelist"))
        if request.method == "POST":
            try:
                done = LESSONS.decide_on(heuristic, user=request.user, data=request.POST, whole=True)
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
                return HttpResponseRedirect(request.get_full_path())
            if isinstance(done, Done):
                if done.undo:  # the offer to undo it says so
                    remember_undo(request, LESSONS, heuristic.pk, done)
                else:
                    messages.success(request, done.said)
                return HttpResponseRedirect(request.get_full_path())
            pane = done
        else:
            pane = LESSONS.draw_lesson(heuristic, user=request.user, whole=True)
        return draw_own_page(
            request,
            pane,
            title="Review" if pane.context["waiting"] else "Lesson",
            opts=self.opts,
            roll_backs=find_roll_backs(request),
        )

    def undo_view(self, request: HttpRequest, review_id: UUID) -> HttpResponse:
        """Undo a decision and show the lesson's own page again."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_review_permission(request):
            raise PermissionDenied(NOT_A_REVIEWER)
        assert request.user.is_authenticated
        reviews = narrow_to_projects(Review.objects.of_lessons(), request.user)
        review = get_object_or_404(reviews, pk=review_id)
        try:
            messages.success(request, LESSONS.undo(request.user, str(review_id), by=Actor.person(request.user)))
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[review.subject_id]))
