"""What is shown of a change of an agent, the ladder with its evidence, and what its buttons do."""

from typing import Any

from desk.agents.revision_text import compare, number_tools, write_call
from desk.effects.trials import draw_worth
from desk.shell.word_diff import DiffPart
from memory.errors import MemoryAppError
from memory.limits import MAX_REASON_CHARS
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


def take_step(change: Change, step: str, *, sha256: str, reason: str, by: Actor) -> str:
    """Do what a button says, by the services that the API and the policy call; return what was done.

    Raises:
        MemoryAppError, SandboxError: it was refused.
    """
    reason = reason[:MAX_REASON_CHARS]
    match step:
        case "check":
            check_change(change, by=by)
        case "shadow":
            request_shadow(change, by=by)
        case "try":
            start_trial(change, sha256=sha256, by=by, reason=reason)
        case "promote":
            promote_change(change, by=by, reason=reason)
        case "rollback":
            roll_back_change(change, by=by, reason=reason)
        case "reject":
            reject_change(change, by=by, reason=reason)
        case _:
            raise MemoryAppError("This page has no such button. Load it again.")
    return SAYS[step]


def change_context(change: Change) -> dict[str, Any]:
    """Collect what is shown of a change, in a fixed number of queries."""
    rows = last_shadow(change)
    checks = last_checks(change)
    counted = ("steps_before", "steps_after", "tokens_before", "tokens_after", "new_writes")
    # How far a change came is told by its rung or, once it is over, by what it left behind.
    rungs = {ChangeRung.PROPOSED}
    if change.rung in LADDER:
        rungs |= set(LADDER[: LADDER.index(ChangeRung(change.rung)) + 1])
    else:
        if change.rehearsals.exists():
            rungs |= {ChangeRung.CHECKED, ChangeRung.SHADOWED}
        if change.release_id:
            rungs.add(ChangeRung.CANARY)
    parts: list[DiffPart] = []
    if change.base_id != change.target_id:
        parts = compare(change.base, change.target, number_tools([change.base, change.target]))
    return {
        "proposal": change,
        "ladder": [{"label": rung.label, "came": rung in rungs, "here": rung == change.rung} for rung in LADDER],
        "parts": parts,
        "tools": [(tool, write_call(tool)) for tool in new_tools(change)],
        "lessons": read_wordings(change),
        "retrieval": [(RETRIEVAL[name], f"{value:,}") for name, value in change.retrieval.items()],
        "checks": checks,
        "attempts": checks[0].attempt if checks else 0,
        "shadow": rows,
        "sums": {name: sum(row.figures[name] for row in rows) for name in counted},
        "divergences": tabulate(rows),
        "worth": draw_worth([change]).get(change.pk, ""),
        "objections": explain(change),
    }
