"""The list of runs, and the page of each, which follows the run while it goes on."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from desk.agents.talking import may_talk, read_message, read_number
from desk.agents.turns import read_turns
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_text
from runtime.conversations import delete_conversation, fork_conversation, rewind_conversation, want_compaction
from runtime.models.effects import Approval, ApprovalStatus
from runtime.models.runs import Run
from runtime.progress import waits_for, with_progress
from runtime.runs import RunRequest, cancel_run, resume_run, start_run
from runtime.streaming.readers import PersonReader
from runtime.streaming.reading import read_events
from runtime.streaming.sse import EventStream

SHOWN_STEPS = 50
SHOWN_RUNS = 10


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin[Run]):
    change_form_template = "admin/agents/run/page.html"
    nothing_yet = "No agent has run yet. Send one a message on its page, or with POST /api/v1/agents/{id}/runs."
    list_display = [
        "task_line",
        "agent",
        "status_shown",
        "steps_taken",
        "tokens_shown",
        "cost",
        "project",
        "created_at",
    ]
    list_filter = ["status", "stop_reason", "agent__name", "arm", "project", "created_at"]
    list_select_related = ["agent", "project"]
    search_fields = ["task", "agent__name", "task_id"]
    date_hierarchy = "created_at"
    show_full_result_count = False

    @admin.display(description="message", ordering="task")
    def task_line(self, run: Run) -> str:
        return show_text(Truncator(run.task).chars(100))

    @admin.display(description="status", ordering="status")
    def status_shown(self, run: Run) -> str:
        reason = run.stop_reason not in ("", Run.StopReason.END_TURN)
        return f"{run.get_status_display()}{f' · {run.get_stop_reason_display()}' if reason else ''}"

    @admin.display(description="tokens")
    def tokens_shown(self, run: Run) -> int:
        return run.tokens

    @admin.display(description="cost", ordering="cost_usd")
    def cost(self, run: Run) -> str:
        return f"${run.cost_usd:.4f}"

    def get_urls(self) -> list[URLPattern]:
        events = path("<uuid:run_id>/events", self.admin_site.admin_view(self.events), name="agents_run_events")
        return [events, *super().get_urls()]

    def events(self, request: HttpRequest, run_id: UUID) -> HttpResponseBase:
        """Stream the events of a run to a person who may see it, as the API does to a key."""
        run = get_object_or_404(self.get_queryset(request), pk=run_id)
        if not self.has_view_permission(request, run):
            raise PermissionDenied
        text = request.headers.get("Last-Event-ID", "") or request.GET.get("after", "")
        after = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        first = read_events(run.pk, after=after)
        if not first and not run.is_live:
            return HttpResponse(status=204)  # the browser asks no more
        assert request.user.pk is not None  # the admin requires one
        session_key = request.session.session_key or ""
        reader = PersonReader(user_id=request.user.pk, session_key=session_key, project_id=run.project_id)
        return EventStream(run, after=after, first=first, reader=reader)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        run = self.get_object(request, object_id)
        if run is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        talks = may_talk(request.user, run.project_id)
        if request.method == "POST":
            if not talks:
                raise PermissionDenied("You need the permission “send messages to agents” and the role of a reviewer "
                                       "or an operator in this project.")  # fmt: skip
            if request.POST.get("do") == "delete":
                return self._delete_conversation(request, run)
            return HttpResponseRedirect(reverse("admin:agents_run_change", args=[self._act(request, run).pk]))
        before = request.GET.get("before", "")
        through = int(before) - 1 if before.isascii() and before.isdecimal() and len(before) < 8 else None
        context = run_context(run, through=through) | {"may_talk": talks}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _act(self, request: HttpRequest, run: Run) -> Run:
        """Carry out what a button asks for and return the run to show."""
        by = Actor.person(request.user)  # type: ignore[arg-type]  # admin pages have a user
        try:
            match request.POST.get("do", ""):
                case "cancel":
                    run = cancel_run(run, by=by)
                    said = "It ends before its next action." if run.is_live else "It has ended, so it stays as it is."
                    messages.success(request, said)
                    return run
                case "resume":
                    return resume_run(run, by=by)
                case "compact":
                    want_compaction(run.conversation)
                    messages.success(request, "The conversation is shortened before the model is asked next.")
                case "rewind":
                    rewind_conversation(run.conversation, to=read_number(request.POST), by=by)
                    messages.success(request, "The model no longer reads what follows. Go on with a message.")
                case "fork":
                    return self._fork(request, run, by=by)
                case "say":
                    said = read_message(request.POST)
                    return start_run(run.agent, RunRequest(input=said, conversation=run.conversation), by=by)
                case _:
                    messages.error(request, "Nothing was done. Use one of the buttons of this page.")
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        return run

    def _fork(self, request: HttpRequest, run: Run, *, by: Actor) -> Run:
        """Send the first message of a fork: a conversation is read on the pages of its runs."""
        said = read_message(request.POST)
        with transaction.atomic():
            fork = fork_conversation(run.conversation, through=read_number(request.POST), by=by)
            return start_run(run.agent, RunRequest(input=said, conversation=fork), by=by)

    def _delete_conversation(self, request: HttpRequest, run: Run) -> HttpResponseRedirect:
        try:
            delete_conversation(run.conversation, by=Actor.person(request.user))  # type: ignore[arg-type]
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.path)
        messages.success(request, "The conversation is deleted, with its runs and what was learnt only from them.")
        return HttpResponseRedirect(reverse("admin:agents_agent_change", args=[run.agent_id]))


def run_context(run: Run, *, through: int | None = None) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries.

    Args:
        through: the last step that is shown; None for all of them.
    """
    whole = Run.objects.select_related(
        "agent", "revision", "conversation", "project", "release", "trajectory", "retrieval"
    )
    run = with_progress(whole).get(pk=run.pk)
    others = Run.objects.filter(conversation=run.conversation_id).exclude(pk=run.pk).order_by("-created_at", "-id")
    return {
        "run": run,
        "turns": read_turns(run, limit=SHOWN_STEPS, through=through),
        "is_cut_off": through is not None,
        "waiting": list(
            Approval.objects.filter(run=run, status=ApprovalStatus.PENDING).select_related("effect").order_by("id")
        ),
        "others": list(others[:SHOWN_RUNS]),
        "is_live": run.is_live,
        "waits_for": waits_for(run).label if waits_for(run) else "",
        "can_resume": run.status in (Run.Status.FAILED, Run.Status.CANCELLED),
        "limits": _describe_limits(run),
        "given": _find_lessons(run),
        "title": "Run of an agent",
    }


def _find_lessons(run: Run) -> list[Heuristic]:
    """Return the lessons that stand in the run's prompts, in their order, without those that were erased."""
    ids = list(run.retrieval.injected_ids) if run.retrieval else []
    found = Heuristic.objects.filter(project=run.project_id).select_related("current_revision").in_bulk(ids)
    return [found[id] for id in ids if id in found]


def _describe_limits(run: Run) -> str:
    """Return how far the run may go, in words."""
    parts = [f"{run.max_steps} steps"]
    parts += [f"{run.max_tokens:,} tokens"] if run.max_tokens is not None else []
    parts += [f"${run.max_cost_usd:f}"] if run.max_cost_usd is not None else []
    parts += [f"{run.max_seconds:,} seconds"] if run.max_seconds is not None else []
    return ", ".join(parts)
