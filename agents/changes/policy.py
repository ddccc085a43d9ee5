"""What happens to changes without a person. Every change is checked; where the agent says that the policy decides, it
goes on to shadow and to a trial. Who promotes or rolls back a trial is the experiment's to say (docs/experiments.md).
"""

import structlog

from agents.changes.jobs import request_shadow
from agents.changes.ladder import check_change, reject_change, start_trial
from agents.models.agents import ChangesBy
from agents.models.changes import Change, Check, CheckVerdict, ShadowRun
from agents.sandbox.calls import SandboxError
from memory.errors import MemoryAppError
from memory.projects.actors import Actor

log = structlog.get_logger(__name__)

POLICY = Actor.policy("changes")
AT_ONCE = 20


def climb() -> int:
    """Take the next step of changes that wait for no person; return how many steps were taken."""
    taken = 0
    for change in _waiting():
        try:
            taken += _step(change)
        except (MemoryAppError, SandboxError) as refusal:  # another release is on trial, say; the next sweep asks again
            log.info("change_waits", number=change.number, agent=str(change.agent_id), reason=type(refusal).__name__)
    return taken


def find_objections(change: Change) -> list[str]:
    """Return why the policy would not try a change, as sentences."""
    skipped = any(each.name == "replay" and each.verdict == CheckVerdict.SKIPPED for each in last_checks(change))
    objections = []
    if skipped and "tool" in change.kinds:
        objections.append("No recorded call shows what its tools do.")
    rows = last_shadow(change)
    if not rows:
        objections.append("It has not been in shadow.")
    if writes := sum(row.new_writes for row in rows):
        objections.append(f"In shadow it wanted {writes} writes that the recorded runs did not make.")
    if cut := sum(not row.ended for row in rows):
        objections.append(f"In shadow it did not come to an end in {cut} of {len(rows)} runs.")
    if missing := sum(row.missing for row in rows):
        objections.append(f"In shadow it left out {missing} calls that the recorded runs made.")
    if sum(row.steps_after for row in rows) > sum(row.steps_before for row in rows):
        objections.append("In shadow it took more steps than the recorded runs.")
    return objections


def last_shadow(change: Change) -> list[ShadowRun]:
    """Return the rows of the last shadow of a change."""
    last = change.shadow_runs.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    return list(change.shadow_runs.filter(attempt=last).select_related("run").order_by("family", "run_id"))


def last_checks(change: Change) -> list[Check]:
    """Return what each check found last, in order; of the regression set, for each family."""
    last = change.checks.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    found = {}
    for check in change.checks.filter(attempt=last).order_by("index"):
        found[check.name, check.figures.get("family")] = check
    return list(found.values())


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
        start_trial(change, sha256=change.sha256, by=POLICY, reason="Every check passed, and shadow agreed.")
    return 1
