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

from desk.agents.talking import check_talking, may_talk, read_message, read_message_number
from desk.agents.turns import read_turns
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor, read_number
from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
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
    row_title = "Run of an agent"
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

    @admin.display(description="message", ordering="task")
    def task_line(self, run: Run) -> str:
        return show_text(Truncator(run.task).chars(100))

    @admin.display(description="status", ordering="status")
    def status_shown(self, run: Run) -> str:
        if run.stop_reason in ("", Run.StopReason.END_TURN):
            return run.get_status_display()
        return f"{run.get_status_display()} · {run.get_stop_reason_display()}"

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
        after = read_number(request.headers.get("Last-Event-ID", "") or request.GET.get("after")) or 0
        first = read_events(run.pk, after=after)
        if not first and not run.is_live:
            return HttpResponse(status=204)  # the browser asks no more
        assert request.user.pk is not None  # the admin requires one
        session_key = request.session.session_key or ""
        reader = PersonReader(user_id=request.user.pk, session_key=session_key, project_id=run.project_id)
        return EventStream(run, after=after, first=first, reader=reader)

    def press(self, request: HttpRequest, row: Run) -> str | HttpResponse:
        """Cancel or resume the run, or go on with its conversation in one of several ways."""
        check_talking(request.user, row.project_id)
        by, form = get_actor(request), request.POST
        match form.get("do", ""):
            case "cancel":
                run = cancel_run(row, by=by)
                return (
                    "The run will end before its next action." if run.is_live else "It has ended, so it stays as it is."
                )
            case "resume":
                return _go_to(resume_run(row, by=by))
            case "compact":
                want_compaction(row.conversation)
                return "The conversation is shortened before the model is asked next."
            case "rewind":
                rewind_conversation(row.conversation, to=read_message_number(form), by=by)
                return "The model no longer sees what follows. Continue with a message."
            case "fork":
                # A conversation is read on the pages of its runs, so a fork begins with a message.
                message = read_message(form)
                with transaction.atomic():
                    fork = fork_conversation(row.conversation, through=read_message_number(form), by=by)
                    return _go_to(start_run(row.agent, RunRequest(input=message, conversation=fork), by=by))
            case "say":
                asked = RunRequest(input=read_message(form), conversation=row.conversation)
                return _go_to(start_run(row.agent, asked, by=by))
            case "delete":
                delete_conversation(row.conversation, by=by)
                done = "The conversation is deleted, with its runs and what was learnt only from them."
                messages.success(request, done)
                return HttpResponseRedirect(reverse("admin:agents_agent_change", args=[row.agent_id]))
            case _:
                raise MemoryAppError("Nothing was done. Use one of the buttons of this page.")

    def row_context(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        """Collect what the page shows, in a fixed number of queries."""
        before = read_number(request.GET.get("before"))
        through = before - 1 if before else None  # the last step that is shown; None for all of them
        related = ("agent", "revision", "conversation", "project", "release", "trajectory", "retrieval")
        run = with_progress(Run.objects.select_related(*related)).get(pk=row.pk)
        others = Run.objects.filter(conversation=run.conversation_id).exclude(pk=run.pk).order_by("-created_at", "-id")
        waiting = Approval.objects.filter(run=run, status=ApprovalStatus.PENDING).select_related("effect")
        waits = waits_for(run)
        # The lessons that stand in its prompts, in their order, without those that were erased.
        ids = list(run.retrieval.injected_ids) if run.retrieval else []
        lessons = Heuristic.objects.filter(project=run.project_id).select_related("current_revision").in_bulk(ids)
        limits = [f"{run.max_steps} steps"]
        limits += [f"{run.max_tokens:,} tokens"] if run.max_tokens is not None else []
        limits += [f"${run.max_cost_usd:f}"] if run.max_cost_usd is not None else []
        limits += [f"{run.max_seconds:,} seconds"] if run.max_seconds is not None else []
        return {
            "run": run,
            "turns": read_turns(run, limit=SHOWN_STEPS, through=through),
            "is_cut_off": through is not None,
            "waiting": list(waiting.order_by("id")),
            "others": list(others[:SHOWN_RUNS]),
            "is_live": run.is_live,
            "waits_for": waits.label if waits else "",
            "can_resume": run.status in (Run.Status.FAILED, Run.Status.CANCELLED),
            "limits": ", ".join(limits),
            "given": [lessons[id] for id in ids if id in lessons],
            "may_talk": may_talk(request.user, run.project_id),
        }


def _go_to(run: Run) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("admin:agents_run_change", args=[run.pk]))
