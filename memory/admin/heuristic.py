"""The review queue: lessons waiting for a decision, each with what it is drawn from."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from memory.admin.decision_form import DecisionForm
from memory.admin.desk import desk_context, next_proposed
from memory.admin.read_only import ReadOnlyAdmin
from memory.admin.undo import remember_decision, undo_context
from memory.errors import LessonMemoryError
from memory.models import Heuristic, Review
from memory.services.undo_review import undo_review
from memory.values import Actor
from memory.visible_text import show_hidden


@admin.register(Heuristic)
class HeuristicAdmin(ReadOnlyAdmin[Heuristic]):
    change_form_template = "admin/memory/heuristic/desk.html"
    list_display = ["trigger_line", "status", "polarity", "task_id", "reflector", "support", "project", "created_at"]
    list_filter = ["status", "project", "current_revision__polarity", "reflector", "created_at"]
    list_select_related = ["current_revision", "project"]
    search_fields = ["current_revision__trigger", "current_revision__guideline", "current_revision__task_id"]
    date_hierarchy = "created_at"
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Heuristic]:
        return Heuristic.objects.select_related("current_revision", "superseded_by__current_revision")

    @admin.display(description="when …", ordering="current_revision__trigger")
    def trigger_line(self, heuristic: Heuristic) -> str:
        trigger = heuristic.current_revision.trigger if heuristic.current_revision else ""
        return show_hidden(Truncator(trigger).chars(160))

    @admin.display(description="polarity", ordering="current_revision__polarity")
    def polarity(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.polarity if heuristic.current_revision else ""

    @admin.display(description="task family", ordering="current_revision__task_id")
    def task_id(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.task_id if heuristic.current_revision else ""

    def has_review_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.review_heuristic")

    def get_urls(self) -> list[URLPattern]:
        undo = path("<uuid:review_id>/undo/", self.admin_site.admin_view(self.undo_view), name="memory_heuristic_undo")
        return [undo, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**undo_context(request), **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        heuristic = self.get_object(request, object_id)
        if heuristic is None:
            return super().change_view(request, object_id, form_url, extra_context)
        form = None
        if request.method == "POST":
            form = DecisionForm(request.POST, heuristic=heuristic)
            if answer := self._decide(request, heuristic, form):
                return answer
        if not self.has_view_permission(request, heuristic):
            raise PermissionDenied
        may_review = self.has_review_permission(request)
        context = desk_context(heuristic, form=form, may_review=may_review) | undo_context(request)
        request.method = "GET"  # the parent view draws the page; saving is not its business
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def undo_view(self, request: HttpRequest, review_id: UUID) -> HttpResponse:
        """Take back a decision and show the heuristic again."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_review_permission(request)
        assert request.user.is_authenticated
        review = get_object_or_404(Review.objects.select_related("heuristic", "revision"), pk=review_id)
        try:
            undo_review(review, by=Actor.person(request.user))
        except LessonMemoryError as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, "Undone. It waits for a decision again; the records keep both.")
        return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[review.heuristic_id]))

    def _require_review_permission(self, request: HttpRequest) -> None:
        if not self.has_review_permission(request):
            raise PermissionDenied("You need the permission “review heuristics” to decide on this page.")

    def _decide(self, request: HttpRequest, heuristic: Heuristic, form: DecisionForm) -> HttpResponse | None:
        """Carry out the decision and go to the next proposal; return None where the page has to be shown again."""
        self._require_review_permission(request)
        if not form.is_valid():
            return None
        if form.cleaned_data["decision"] == "preview":
            form.show_difference()
            return None
        assert request.user.is_authenticated
        try:
            done = form.carry_out(by=Actor.person(request.user))
        except LessonMemoryError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.path)
        messages.success(request, done)
        if form.cleaned_data["decision"] == "restore":
            return HttpResponseRedirect(request.path)
        remember_decision(request, heuristic)
        following = next_proposed(heuristic)
        if following is None:
            messages.info(request, "Nothing else is waiting for review in this project.")
            return HttpResponseRedirect(reverse("admin:memory_heuristic_changelist"))
        return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[following.pk]))
