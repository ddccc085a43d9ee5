"""What happens to changes without a person. Every change is checked; where the agent says that the policy decides, it
goes on to shadow and to a trial. The experiment promotes a trial or rolls it back (docs/experiments.md).
"""

from collections.abc import Sequence

import structlog

from memory.errors import MemoryAppError, NotDeployable
from memory.projects.actors import Actor
from runtime.changes.jobs import find_nothing_to_rehearse, request_shadow
from runtime.changes.ladder import check_change, find_obstacle, record_refusal, reject_change, start_trial
from runtime.changes.proposals import new_tools
from runtime.changes.rehearsals import tabulate
from runtime.changes.strictness import find_looser
from runtime.errors import NotOnRung
from runtime.models.agents import ChangesBy
from runtime.models.changes import Change, CheckVerdict, EvaluationRow
from runtime.sandbox.calls import SandboxError

log = structlog.get_logger(__name__)

POLICY = Actor.policy("changes")
AT_ONCE = 20


def climb() -> int:
    """Take the next step of changes that wait for no person; return how many steps were taken."""
    taken = 0
    for change in _waiting():
        try:
            taken += _step(change)
        except (MemoryAppError, SandboxError) as refusal:
            # Another release is on trial, say: its page tells, and the next look asks again.
            log.info("change_waits", number=change.number, agent=str(change.agent_id), reason=type(refusal).__name__)
    return taken


def explain(change: Change) -> list[str]:
    """Return what stands in the way of a change, as sentences: for good, or at this moment."""
    if change.rung == Change.Rung.FAILED:
        return [check.said for check in last_checks(change) if check.verdict == CheckVerdict.FAILED]
    if not change.can_climb:
        return []
    obstacle = ""
    if change.rung == Change.Rung.CHECKED:
        obstacle = find_nothing_to_rehearse(change)
    elif change.rung == Change.Rung.SHADOWED:
        obstacle = find_obstacle(change)
    return find_objections(change) + ([obstacle] if obstacle else [])


def find_objections(change: Change) -> list[str]:
    """Return why the policy would not try a change, as sentences. Where there are any, a person decides."""
    skipped = any(check.name == "replay" and check.verdict == CheckVerdict.SKIPPED for check in last_checks(change))
    objections = _find_what_people_read(change)
    if skipped and new_tools(change):
        objections.append("No recorded call shows what its tools do.")
    return objections + _compare_shadow(last_shadow(change))


def _find_what_people_read(change: Change) -> list[str]:
    """Return what a change takes away of what a person gave the agent: rules, and tools by their content."""
    objections = []
    if looser := find_looser(change.base.rules, change.target.rules):
        objections.append(f"It loosens rules, or changes them in a way that cannot be compared: {', '.join(looser)}.")
    before, after = [{tool["name"]: tool for tool in revision.tools} for revision in (change.base, change.target)]
    if replaced := [name for name, definition in before.items() if name in after and after[name] != definition]:
        objections.append(f"It replaces tools that the agent has: {', '.join(replaced)}.")
    if gone := [name for name in before if name not in after]:
        objections.append(f"It takes tools away: {', '.join(gone)}.")
    return objections


def _compare_shadow(rows: Sequence[EvaluationRow]) -> list[str]:
    if not rows:
        return ["It has not been in shadow."]
    objections = []
    figures = [row.figures for row in rows]
    if writes := sum(figure["new_writes"] for figure in figures):
        objections.append(f"In shadow it wanted {_count(writes, 'write')} that the recorded runs did not make.")
    if cut := sum(not figure["ended"] for figure in figures):
        objections.append(f"In shadow it did not come to an end in {cut} of {len(rows)} runs.")
    if idle := sum(figure["missing"] > 0 and not figure["same"] for figure in figures):
        objections.append(f"In shadow it made none of the recorded calls in {idle} of {_count(len(rows), 'run')}.")
    table = tabulate(rows)
    if missing := {line.tool: line.missing for line in table if line.missing}:
        called = f"{_count(sum(missing.values()), 'call')} that the recorded runs made"
        objections.append(f"In shadow it left out {called}: {_list(missing)}.")
    if late := {line.tool: line.late for line in table if line.late}:
        called = f"{_count(sum(late.values()), 'call')} only after an action that came later in the recorded runs"
        objections.append(f"In shadow it made {called}: {_list(late)}.")
    if sum(figure["steps_after"] for figure in figures) > sum(figure["steps_before"] for figure in figures):
        objections.append("In shadow it took more steps than the recorded runs.")
    return objections


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{tool} ({number})" for tool, number in counts.items())


def last_shadow(change: Change) -> list[EvaluationRow]:
    """Return the rows of the last shadow of a change."""
    last = change.rehearsals.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    return list(change.rehearsals.filter(attempt=last).select_related("run").order_by("name", "run_id"))


def last_checks(change: Change) -> list[EvaluationRow]:
    """Return what each check found last, in order; of the regression set, for each family."""
    last = change.checks.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    latest = {}
    for check in change.checks.filter(attempt=last).order_by("index"):
        # Checks that come later in an attempt replace those of the same name.
        latest[check.name, check.figures.get("family")] = check
    return list(latest.values())


def _waiting() -> list[Change]:
    rows = Change.objects.open().select_related("agent__project", "base", "target", "release")
    proposed = rows.filter(rung=Change.Rung.PROPOSED)
    by_policy = rows.filter(agent__changes_by=ChangesBy.POLICY, agent__project__archived_at__isnull=True)
    by_policy = by_policy.exclude(rung=Change.Rung.SHADOWED, lessons__len__gt=0)  # a person approves lessons
    return list((proposed | by_policy).order_by("created_at")[:AT_ONCE])


def _step(change: Change) -> int:
    if change.rung == Change.Rung.PROPOSED:
        check_change(change, by=POLICY)
    elif change.rung == Change.Rung.CHECKED:
        request_shadow(change, by=POLICY)
    elif objections := find_objections(change):
        reject_change(change, by=POLICY, reason=" ".join(objections))
    else:
        _try(change)
    return 1


def _try(change: Change) -> None:
    """Start the trial of a change, or write down why it can never be tried.

    Raises:
        NotDeployable, NotOnRung: it cannot be tried at this moment.
    """
    try:
        start_trial(change, sha256=change.sha256, by=POLICY, reason="Every check passed, and shadow agreed.")
    except (NotDeployable, NotOnRung):
        raise
    except MemoryAppError as refusal:
        record_refusal(change, refusal, by=POLICY)
