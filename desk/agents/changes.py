"""What is shown of a change of an agent, the ladder with its evidence, and what its buttons do."""

from collections.abc import Callable, Mapping
from typing import Any

from desk.agents.revision_text import compare, number_tools, write_call
from desk.effects.trials import draw_worth
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
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
        "tools": [(each, write_call(each)) for each in new_tools(change)],
        "lessons": read_wordings(change),
        "retrieval": [(RETRIEVAL[name], f"{value:,}") for name, value in change.retrieval.items()],
        "checks": checks,
        "attempts": checks[0].attempt if checks else 0,
        "shadow": rows,
        "sums": sums,
        "divergences": tabulate(rows),
        "worth": draw_worth([change]).get(change.pk, ""),
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
