"""The list of changes, and the page of each: the ladder with its evidence, and the next step."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from memory.admin.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_text
from runtime.admin.lineage import find_worth, may_decide
from runtime.admin.revision_text import compare, number_tools
from runtime.admin.tool import write
from runtime.changes.jobs import request_shadow
from runtime.changes.ladder import (
    check_change,
    promote_change,
    reject_change,
    roll_back_change,
    start_trial,
)
from runtime.changes.policy import explain, last_checks, last_shadow
from runtime.changes.proposals import new_tools
from runtime.changes.rehearsals import tabulate
from runtime.changes.served import read_wordings
from runtime.models.changes import Change, ChangeRung
from runtime.sandbox.calls import SandboxError

LADDER = (ChangeRung.PROPOSED, ChangeRung.CHECKED, ChangeRung.SHADOWED, ChangeRung.CANARY, ChangeRung.STABLE)
RETRIEVAL = {"top_k": "Lessons per run, at most", "context_budget_tokens": "Tokens for lessons, at most"}
SAYS = {
    "check": "The checks were run; each left a row below.",
    "shadow": "A worker is rehearsing it. Come back to it in a moment.",
    "try": "It is on trial: 10% of the units get it.",
    "promote": "It is stable.",
    "rollback": "It was rolled back. The agent is what it was before.",
    "reject": "It was rejected.",
}


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin[Change]):
    change_form_template = "admin/agents/change/page.html"
    list_display = ["named", "why", "kinds_shown", "rung", "source", "agent", "project", "created_at"]
    list_filter = ["rung", "source", "agent__name", "project", "created_at"]
    list_select_related = ["agent", "project"]
    search_fields = ["reason", "agent__name"]
    show_full_result_count = False
    nothing_yet = "No change of an agent has been proposed yet. Evolutions propose them, and so do people by API."

    @admin.display(description="change", ordering="number")
    def named(self, change: Change) -> str:
        return f"{change.agent.name} {change.number}"

    @admin.display(description="why")
    def why(self, change: Change) -> str:
        return show_text(change.reason[:120])

    @admin.display(description="changes")
    def kinds_shown(self, change: Change) -> str:
        return ", ".join(change.kinds)

    def has_decide_permission(self, request: HttpRequest, change: Change) -> bool:
        return may_decide(request.user, change.project_id)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        change = self.get_object(request, object_id)
        if change is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        decides = self.has_decide_permission(request, change)
        if request.method == "POST":
            if not decides:
                raise PermissionDenied("You need the permission “decide about changes of agents” and the role of a "
                                       "reviewer in this project.")  # fmt: skip
            try:
                by = Actor.person(request.user)  # type: ignore[arg-type]
                said = take_step(change, request.POST.get("do", ""), data=request.POST, by=by)
            except (MemoryAppError, SandboxError) as refusal:
                messages.error(request, str(refusal))
            else:
                messages.success(request, said)
            return HttpResponseRedirect(request.path)
        context = change_context(change) | {"may_decide": decides}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})


def take_step(change: Change, step: str, *, data: Mapping[str, str], by: Actor) -> str:
    """Do what a button says, by the services that the API and the policy call; return what was done.

    Raises:
        MemoryAppError, SandboxError: it was refused.
    """
    reason = data.get("reason", "").replace("\x00", "")[:4_000]
    sha256 = data.get("sha256", "")[:64]
    steps: dict[str, Callable[[], object]] = {
        "check": lambda: check_change(change, by=by),
        "shadow": lambda: request_shadow(change, by=by),
        "try": lambda: start_trial(change, sha256=sha256, by=by, reason=reason),
        "promote": lambda: promote_change(change, by=by, reason=reason),
        "rollback": lambda: roll_back_change(change, by=by, reason=reason),
        "reject": lambda: reject_change(change, by=by, reason=reason),
    }
    if step not in steps:
        raise MemoryAppError("This page has no such button. Load it again.")
    steps[step]()
    return SAYS[step]


def change_context(change: Change) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries."""
    rows = last_shadow(change)
    checks = last_checks(change)
    numbers = number_tools([change.base, change.target])
    sums = {
        name: sum(row.figures[name] for row in rows)
        for name in ("steps_before", "steps_after", "tokens_before", "tokens_after", "new_writes")
    }
    return {
        "proposal": change,
        "ladder": _draw_ladder(change),
        "parts": compare(change.base, change.target, numbers) if change.base_id != change.target_id else [],
        "tools": [(each, write(each)) for each in new_tools(change)],
        "lessons": read_wordings(change),
        "retrieval": [(RETRIEVAL[name], f"{value:,}") for name, value in change.retrieval.items()],
        "checks": checks,
        "attempts": checks[0].attempt if checks else 0,
        "shadow": rows,
        "sums": sums,
        "divergences": tabulate(rows),
        "worth": find_worth([change]).get(change.pk, ""),
        "objections": explain(change),
        "title": "Change",
    }


def _draw_ladder(change: Change) -> list[dict[str, Any]]:
    """Return the rungs with how far the change has come, by what proves it."""
    came = {ChangeRung.PROPOSED}
    if change.rung in LADDER:
        came |= set(LADDER[: LADDER.index(ChangeRung(change.rung)) + 1])
    else:
        came |= {ChangeRung.CHECKED, ChangeRung.SHADOWED} if change.rehearsals.exists() else set()
        came |= {ChangeRung.CANARY} if change.release_id else set()
    return [{"label": rung.label, "came": rung in came, "here": rung == change.rung} for rung in LADDER]
