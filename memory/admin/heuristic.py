"""The list of heuristics and the review desk: filters, actions, decisions and undo."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import pluralize
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.timesince import timesince

from memory.admin.decision_form import REASONS, STAYING, DecisionForm
from memory.admin.desk import Stale, compare_with_read, desk_context
from memory.admin.queue import BY_EFFECT, ORDERS, QUEUE_FILTERS, Queue, explain_priority
from memory.admin.read_only import ReadOnlyAdmin
from memory.admin.release_facts import find_roll_backs
from memory.admin.saved_filters import SavedFilterViews
from memory.curation.decisions import MAX_AT_ONCE, review_in_bulk
from memory.curation.reviewers import release_heuristic
from memory.curation.undo import UNDO_SECONDS, is_undoable, undo_review
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.errors import ChangedMeanwhile, MemoryAppError
from memory.heuristics.models import Heuristic, Review
from memory.projects.access import may_review, narrow_to_projects, visible_projects
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_hidden

_LAST_DECISION = "decided"  # in the session: the review that the undo bar offers to undo


class ReviewActionForm(ActionForm):
    """The choice of what to do with the selected, and why."""

    reason = forms.ChoiceField(
        required=False, label="Reason (to reject):", choices=[("", "–"), *((text, short) for text, short in REASONS)]
    )


@admin.register(Heuristic)
class HeuristicAdmin(SavedFilterViews, ReadOnlyAdmin[Heuristic]):
    change_form_template = "admin/memory/heuristic/desk.html"
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
    actions = ["approve_selected", "reject_selected"]
    action_form = ReviewActionForm

    def get_queryset(self, request: HttpRequest) -> QuerySet[Heuristic]:
        related = ("current_revision", "superseded_by__current_revision", "project", "claim__user")
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
    def trigger_line(self, heuristic: Heuristic) -> str:
        trigger = heuristic.current_revision.trigger if heuristic.current_revision else ""
        others: int = getattr(heuristic, "other_wordings", 0)
        more = f" (and {others} more wording{pluralize(others)})" if others else ""
        return f"{show_hidden(Truncator(trigger).chars(160))}{more}"

    @admin.display(description="priority", ordering="-review_priority")
    def why_here(self, heuristic: Heuristic) -> str:
        return explain_priority(heuristic) if heuristic.status == Heuristic.Status.PROPOSED else ""

    @admin.display(description="details")
    def about(self, heuristic: Heuristic) -> str:
        revision, claim = heuristic.current_revision, getattr(heuristic, "claim", None)
        parts = [revision.get_polarity_display(), revision.task_id or "no task family"] if revision else []
        if claim is not None and claim.expires_at > timezone.now():
            parts.append(f"{claim.user.get_username()} has claimed it until {claim.expires_at:%H:%M}")
        return show_hidden(", ".join([*parts, f"waiting {timesince(heuristic.created_at, depth=1)}"]))

    @admin.display(description="given")
    def given(self, heuristic: Heuristic) -> str:
        outcome: OutcomeCount | None = getattr(heuristic, "outcome", None)
        if outcome is None:
            return ""
        ended = f", {outcome.successes} succeeded, {outcome.failures} failed"
        return f"{outcome.answers}×{ended if outcome.success_rate is not None else ''}"

    @admin.display(description="polarity", ordering="current_revision__polarity")
    def polarity(self, heuristic: Heuristic) -> str:
        return heuristic.current_revision.polarity if heuristic.current_revision else ""

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
        shown = undo_context(request) | self.saved_filters_context(request)
        shown["roll_backs"] = find_roll_backs(request.user)
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    @admin.action(description=f"Approve (opened, not flagged, up to {MAX_AT_ONCE})", permissions=["review"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[Heuristic]) -> None:
        self._review_selected(request, queryset, approve=True, reason="")

    @admin.action(description=f"Reject (opened, not flagged, up to {MAX_AT_ONCE})", permissions=["review"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[Heuristic]) -> None:
        reason = request.POST.get("reason", "")
        if reason not in dict(REASONS):
            messages.error(request, "Choose a reason next to the action; it is kept with the decisions.")
            return
        self._review_selected(request, queryset, approve=False, reason=reason)

    def _review_selected(
        self, request: HttpRequest, queryset: QuerySet[Heuristic], *, approve: bool, reason: str
    ) -> None:
        by = Actor.person(request.user)  # type: ignore[arg-type]  # the admin requires it
        selected = list(queryset[: MAX_AT_ONCE + 1])
        try:
            results = review_in_bulk(selected, approve=approve, by=by, reason=reason)
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
            return
        for result in results:
            if result.refusal:
                link = reverse("admin:memory_heuristic_change", args=[result.heuristic.pk])
                name = show_hidden(Truncator(str(result.heuristic)).chars(80))
                messages.error(request, format_html('<a href="{}">{}</a>: {}', link, name, result.refusal))
        done = [result.heuristic for result in results if not result.refusal]
        if done and approve:
            first = sum(heuristic.status == Heuristic.Status.PROPOSED for heuristic in done)
            then = f" {first} still need a second reviewer." if first else ""
            messages.success(request, f"{len(done)} approved.{then}")
        elif done:
            messages.success(request, f"{len(done)} rejected.")

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
        queue = Queue(user=request.user, query=request.GET.get("_changelist_filters", ""))
        form, stale = None, None
        if request.method == "POST":
            form = DecisionForm(request.POST, heuristic=heuristic)
            answer = self._decide(request, heuristic, form, queue)
            if isinstance(answer, HttpResponse):
                return answer
            if answer is not None:
                heuristic = self.get_object(request, object_id)
                assert heuristic is not None
                assert heuristic.current_revision is not None
                form, stale = DecisionForm.after_change(form, heuristic, heuristic.current_revision), answer
        context = desk_context(heuristic, queue=queue, form=form, stale=stale) | undo_context(request)
        context["roll_backs"] = find_roll_backs(request.user)
        request.method = "GET"  # the parent view draws the page; saving is not its business
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def undo_view(self, request: HttpRequest, review_id: UUID) -> HttpResponse:
        """Undo a decision and show the heuristic again."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_review_permission(request)
        assert request.user.is_authenticated
        reviews = narrow_to_projects(Review.objects.select_related("heuristic", "revision"), request.user)
        review = get_object_or_404(reviews, pk=review_id)
        try:
            heuristic = undo_review(review, by=Actor.person(request.user))
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        else:
            again = "is served" if heuristic.status == Heuristic.Status.APPROVED else "is waiting for a decision"
            messages.success(request, f"Undone. It {again} again; both decisions stay on record.")
        request.session.pop(_LAST_DECISION, None)
        return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[review.heuristic_id]))

    def _require_review_permission(self, request: HttpRequest) -> None:
        if not self.has_review_permission(request):
            raise PermissionDenied(
                "You need the permission “review heuristics” to decide on this page. Nothing was changed. Ask "
                "an administrator to add you to the group Reviewer."
            )

    def _decide(
        self, request: HttpRequest, heuristic: Heuristic, form: DecisionForm, queue: Queue
    ) -> HttpResponse | Stale | None:
        """Carry out the decision and go to the next proposal.

        Returns:
            None or what changed meanwhile where the page has to be shown again.
        """
        self._require_review_permission(request)
        if not form.is_valid():
            return None
        decision = form.cleaned_data["decision"]
        if decision == "preview":
            form.show_difference()
            return None
        assert request.user.is_authenticated
        by = Actor.person(request.user)
        try:
            done = form.carry_out(by=by)
        except ChangedMeanwhile as refusal:
            stale = compare_with_read(heuristic, form.cleaned_data["content_sha256"])
            if stale is not None:
                return stale
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.get_full_path())
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.get_full_path())
        messages.success(request, done)
        if decision in STAYING:
            return HttpResponseRedirect(request.get_full_path())
        if decision != "release":
            remember_decision(request, heuristic)
            release_heuristic(heuristic, by=by)
        return self._go_on(request, heuristic, queue)

    def _go_on(self, request: HttpRequest, heuristic: Heuristic, queue: Queue) -> HttpResponse:
        following = queue.find_next(heuristic)
        if following is not None:
            query = {"_changelist_filters": queue.query} if queue.query else None
            return HttpResponseRedirect(reverse("admin:memory_heuristic_change", args=[following], query=query))
        messages.info(
            request,
            "No other proposals match these filters."
            if queue.query
            else "No other proposals are waiting for your review.",
        )
        return HttpResponseRedirect(reverse("admin:memory_heuristic_changelist"))


def remember_decision(request: HttpRequest, heuristic: Heuristic) -> None:
    """Remember a person's last decision, so that the next page offers to undo it."""
    latest = Review.objects.filter(heuristic=heuristic, reviewer_user=request.user.pk).first()
    request.session[_LAST_DECISION] = str(latest.pk) if latest else ""


def undo_context(request: HttpRequest) -> dict[str, Any]:
    """Return what the undo bar needs; nothing if the person's last decision can no longer be undone."""
    try:
        pk = UUID(request.session.get(_LAST_DECISION, ""))
    except ValueError:
        return {}
    review = Review.objects.filter(pk=pk).select_related("heuristic__current_revision", "revision").first()
    if review is None or not is_undoable(review):
        return {}
    age = (timezone.now() - review.created_at).total_seconds()
    return {"undoable": review, "undo_seconds": max(1, round(UNDO_SECONDS - age))}
