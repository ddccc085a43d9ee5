"""The review queue: lessons waiting for a decision, each with what it is drawn from."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import Truncator

from memory.admin.decision_form import DecisionForm
from memory.admin.desk import desk_context, next_proposed
from memory.admin.read_only import ReadOnlyAdmin
from memory.errors import LessonMemoryError
from memory.models import Heuristic
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
        return Heuristic.objects.with_text()

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
        may_review = self.has_review_permission(request)
        context = desk_context(heuristic, form=form, may_review=may_review)
        request.method = "GET"  # the parent view draws the page; saving is not its business
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _decide(self, request: HttpRequest, heuristic: Heuristic, form: DecisionForm) -> HttpResponse | None:
        """Carry out the decision and go to the next proposal; return None where the page has to be shown again."""
        if not self.has_review_permission(request):
            raise PermissionDenied("You need the permission “review heuristics” to decide on this page.")
        if not form.is_valid():
            return None
        assert request.user.is_authenticated
        try:
            done = form.carry_out(by=Actor.person(request.user))
        except LessonMemoryError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.path)
        messages.success(request, done)
        following = next_proposed(heuristic)
        if following is None:
            messages.info(request, "Nothing else is waiting for review in this project.")
            return HttpResponseRedirect(reverse("admin:memory_heuristic_changelist"))
        return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[following.pk]))
