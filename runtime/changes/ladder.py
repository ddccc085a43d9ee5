"""The steps of a change: proposed → checked → shadowed → canary → stable, and down again.

The deployment says what is on trial and what is stable (memory/releases): a change is tried as a release that
differs from the stable one in this change alone, and its rung follows the deployment, no matter who moves it.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models.functions import Now

from memory.errors import ChangedMeanwhile, MemoryAppError, NotDeployable
from memory.events import EventKind, ProjectEvent
from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.releases.deployments import (
    SERVES_ALL,
    cut_variant,
    get_deployment,
    lock_deployment,
    promote,
    roll_back,
    start_canary,
)
from memory.releases.manifest import tune
from memory.releases.models import Deployment, Release
from memory.review.decisions import check_reviewer
from memory.review.models import ReviewKind
from runtime.changes.checks import CheckResult, failed, run_checks, write_rows
from runtime.changes.proposals import new_tools
from runtime.changes.regression import Rehearsed
from runtime.changes.served import approve_lessons, withdraw_lessons
from runtime.definitions.storage import let_run
from runtime.errors import NotOnRung
from runtime.models.agents import Agent, AgentRevision
from runtime.models.changes import Change, CheckVerdict, EvaluationRow
from runtime.revisions import check_spec, point_at, spec_of

log = structlog.get_logger(__name__)

_Rung = Change.Rung
FIRST_SHARE = 100  # of the units, in thousandths
BY_DEPLOYMENT = Actor.policy("deployment")
_watchers: list[Callable[[Change, Actor], None]] = []


def check_change(change: Change, *, by: Actor) -> list[EvaluationRow]:
    """Run the checks of a change and write down what each found. It is `checked`, or has `failed`.

    Raises:
        NotOnRung: it is on trial, or it was decided.
    """
    _ensure(change, _Rung.PROPOSED, _Rung.CHECKED, _Rung.FAILED)
    rows = run_checks(change, by=by.label)  # in the sandbox: no row is locked
    verdict = _Rung.FAILED if any(row.verdict == CheckVerdict.FAILED for row in rows) else _Rung.CHECKED
    with transaction.atomic():
        # The rung may have changed while the checks ran.
        _lock(change, _Rung.PROPOSED, _Rung.CHECKED, _Rung.FAILED)
        EvaluationRow.objects.bulk_create(rows)
        _move(change, verdict, by=by)
    return rows


@transaction.atomic
def record_shadow(change: Change, rehearsed: Rehearsed, *, by: Actor) -> None:
    """Write down what a change did in shadow. It is `shadowed`, or has `failed` the regression or the safety set.

    Raises:
        NotOnRung: it has not passed its checks, or was decided.
    """
    _lock(change, _Rung.CHECKED, _Rung.SHADOWED)
    EvaluationRow.objects.bulk_create(rehearsed.rows, ignore_conflicts=True)
    has_failed = _add_checks(change, rehearsed.found, by=by)
    _move(change, _Rung.FAILED if has_failed else _Rung.SHADOWED, by=by)


@transaction.atomic
def record_refusal(change: Change, refusal: MemoryAppError, *, by: Actor) -> None:
    """Write down why a change can never be tried. It has `failed`.

    Raises:
        NotOnRung: it was decided meanwhile.
    """
    _lock(change, _Rung.SHADOWED)
    _add_checks(change, [("trial", failed(str(refusal)))], by=by)
    _move(change, _Rung.FAILED, by=by)


def _add_checks(change: Change, found: Sequence[tuple[str, CheckResult]], *, by: Actor) -> bool:
    """Write rows behind those of the last attempt, and tell whether one has failed."""
    last = change.checks.order_by("-attempt", "-index").first()
    attempt, index = (last.attempt, last.index + 1) if last is not None else (1, 0)
    rows = write_rows(change, found, attempt=attempt, first=index, by=by.label)
    EvaluationRow.objects.bulk_create(rows)
    return any(row.verdict == CheckVerdict.FAILED for row in rows)


@transaction.atomic
def start_trial(change: Change, *, sha256: str, by: Actor, share: int = FIRST_SHARE, reason: str = "") -> Deployment:
    """Try a change on a share of the units, in thousandths: as the candidate release of the deployment.

    Args:
        sha256: the hash of the change that was read. Its lessons are approved by that.

    Raises:
        NotOnRung: it has not been in shadow.
        ChangedMeanwhile: another content was read, or the agent is no longer what the change is a change of.
        NotDeployable: the project does not serve releases, or another release is on trial.
        NotAllowed: see `check_decider` and `check_deployer`.
        MemoryAppError: a lesson of it cannot be approved; see `approve_lessons`.
    """
    check_decider(change.agent.project, by=by)
    name_actor(by)
    lock_deployment(change.agent.project)  # first, as by everyone who deploys
    _lock(change, _Rung.SHADOWED, _Rung.CANARY)
    if change.sha256 != sha256:
        raise ChangedMeanwhile("The change has another content than the one you read. Read it again.")
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project").get(pk=change.agent_id)
    if agent.current_id != change.base_id:
        raise ChangedMeanwhile(
            f"The agent {agent.name} was changed since this was proposed. Propose it again, for what the agent is now."
        )
    project = agent.project
    if obstacle := find_obstacle(change):
        raise NotDeployable(obstacle)
    # Trying the change approves its tools as well.
    for revision in new_tools(change):
        let_run(revision, by=by)
    # Only approved tools pass, so this follows their approval.
    check_spec(project, spec_of(change.target), before=agent.current)
    entry = {"revision": str(change.target_id), "sha256": change.target.content_sha256}
    lessons = approve_lessons(change, by=by)
    parts = {"agents": {str(agent.pk): entry}} | tune(change.retrieval)
    release = cut_variant(project, parts=parts, lessons=lessons, by=by, note=f"{agent.name}: {change}")
    Change.objects.filter(pk=change.pk).update(release=release, decided_by=by.label, decided_at=Now(), decision=reason)
    change.release = release
    deployment = start_canary(project, release=release, share=share, by=by, reason=reason or f"{agent.name}: {change}")
    for watch in _watchers:
        watch(change, by)
    return deployment


def find_obstacle(change: Change) -> str:
    """Return why no trial can begin in the project at this moment, or nothing."""
    project = change.agent.project
    deployment = get_deployment(project)
    if deployment.mode != Deployment.Mode.RELEASES:
        return SERVES_ALL.format(project=project)
    if deployment.candidate_id is not None and deployment.candidate_id != change.release_id:
        return (
            f"{deployment.candidate} is on trial in this project, and two at once would disturb each other. Promote it "
            "or roll it back first."
        )
    return ""


def watch_trials(watch: Callable[[Change, Actor], None]) -> None:
    """Call a function with every change whose trial begins, inside the transaction that begins it."""
    if watch not in _watchers:
        _watchers.append(watch)


@transaction.atomic
def promote_change(change: Change, *, by: Actor, reason: str = "") -> Deployment:
    """Make a change that is on trial part of the stable release.

    Raises:
        NotOnRung: it is not on trial.
        NotDeployable, NotAllowed, ProjectArchived: see `promote`.
    """
    _ensure(change, _Rung.CANARY)
    return promote(change.agent.project, release=change.release, by=by, reason=reason or f"{change.agent}: {change}")


@transaction.atomic
def roll_back_change(change: Change, *, by: Actor, reason: str = "") -> Deployment:
    """Take a change back: end its trial, or return to the release before it.

    Raises:
        NotOnRung: it is not deployed.
        NotDeployable: a later release is stable; roll that back first.
        NotAllowed: see `roll_back`.
    """
    _ensure(change, _Rung.CANARY, _Rung.STABLE)
    project = change.agent.project
    deployment = get_deployment(project)
    if change.rung == _Rung.STABLE and deployment.stable_id != change.release_id:
        raise NotDeployable(f"{deployment.stable} is stable, which is later than {change}. Roll that back first.")
    if change.rung == _Rung.STABLE and deployment.candidate_id is not None:
        raise NotDeployable(f"{deployment.candidate} is on trial. End that trial first.")
    return roll_back(project, by=by, reason=reason or f"{change.agent}: {change}")


@transaction.atomic
def reject_change(change: Change, *, by: Actor, reason: str = "") -> Change:
    """Let a change climb no further. What ran is not touched.

    Raises:
        NotOnRung: it is deployed, or decided already.
        NotAllowed: see `check_decider`.
    """
    check_decider(change.agent.project, by=by)
    _lock(change, *Change.OPEN, _Rung.FAILED)
    change.decision = reason
    Change.objects.filter(pk=change.pk).update(decided_by=by.label, decided_at=Now(), decision=reason)
    _move(change, _Rung.REJECTED, by=by)
    return change


def check_decider(project: Project, *, by: Actor) -> None:
    """Refuse an actor who may not let a change run. One without an id is a policy of this installation.

    Raises:
        NotAllowed: the permission, the role or the scope is missing.
    """
    check_reviewer(ReviewKind.AGENT, project, by=by)


def follow_deployment(event: ProjectEvent) -> None:
    """Let the rungs of changes, and what agents are, follow what is deployed. Runs in the transaction that deploys.

    Raises:
        ChangedMeanwhile: an agent was changed by hand since the release was made, and would lose that.
    """
    if event.kind != EventKind.DEPLOYMENT_CHANGED:
        return
    deployment = Deployment.objects.select_related("stable", "candidate").filter(project=event.project_id).first()
    if deployment is None:
        return
    changes = {row.release_id: row for row in _deployed_changes(event.project_id)}
    by = Actor(label=_last_actor(deployment))
    if (candidate := changes.get(deployment.candidate_id)) is not None and candidate.rung != _Rung.CANARY:
        _move(candidate, _Rung.CANARY, by=by)
    if (stable := changes.get(deployment.stable_id)) is not None and stable.rung != _Rung.STABLE:
        _bring_in(stable, by=by)
        _move(stable, _Rung.STABLE, by=by)
    # A release stays in force in those that were cut from it later.
    stands = _lineage(deployment.stable)
    for change in changes.values():
        if change.rung == _Rung.CANARY and change.release_id not in (deployment.candidate_id, *stands):
            withdraw_lessons(change, deployment.stable)
            _move(change, _Rung.ROLLED_BACK, by=by)
        elif change.rung == _Rung.STABLE and change.release_id not in stands:
            _take_back(change, deployment.stable, by=by)
            withdraw_lessons(change, deployment.stable)
            _move(change, _Rung.ROLLED_BACK, by=by)


def deployed_agents(project: Project) -> dict[str, Any]:
    """Return what a release that is cut now names: the agents that the stable one names, as they are."""
    deployment = get_deployment(project)
    entries = deployment.stable.manifest.get("agents", {}) if deployment.stable is not None else {}
    agents = Agent.objects.filter(project=project, pk__in=list(entries), archived_at__isnull=True)
    return {
        str(agent.pk): {"revision": str(agent.current.pk), "sha256": agent.current.content_sha256}
        for agent in agents.select_related("current").order_by("pk")
        if agent.current is not None
    }


def _lineage(release: Release | None) -> set[UUID]:
    """Return a release and those that it builds on: each was stable when the next was cut."""
    lineage: set[UUID] = set()
    while release is not None and release.pk not in lineage:
        lineage.add(release.pk)
        release = release.parent
    return lineage


def _bring_in(change: Change, *, by: Actor) -> None:
    agent = Agent.objects.select_for_update(of=("self",)).get(pk=change.agent_id)
    if agent.current_id not in (change.base_id, change.target_id):
        raise ChangedMeanwhile(
            f"The agent {agent.name} was changed by hand since {change} was proposed, and that would be lost. Propose "
            "it again, for what the agent is now."
        )
    point_at(agent, change.target, by=by)


def _take_back(change: Change, stable: Release | None, *, by: Actor) -> None:
    """Let the agent be what it was. This never fails: what a person changed since stays as a revision."""
    entry = stable.manifest.get("agents", {}).get(str(change.agent_id)) if stable is not None else None
    agent = Agent.objects.select_for_update(of=("self",)).get(pk=change.agent_id)
    revision = AgentRevision.objects.get(pk=entry["revision"]) if entry else change.base
    point_at(agent, revision, by=by)


def _deployed_changes(project_id: UUID) -> list[Change]:
    related = ("agent__project", "base", "target")
    rows = Change.objects.filter(project=project_id, release__isnull=False).exclude(rung=_Rung.REJECTED)
    return list(rows.select_related(*related).select_for_update(of=("self",)).order_by("-created_at"))


def _last_actor(deployment: Deployment) -> str:
    last = deployment.events.order_by("-version").values_list("made_by", flat=True).first()
    return last or BY_DEPLOYMENT.label


def _ensure(change: Change, *rungs: str) -> None:
    if change.rung not in rungs:
        wanted = " or ".join(Change.Rung(rung).label.lower() for rung in rungs)
        raise NotOnRung(f"The {change} is {change.get_rung_display().lower()}; this step is for one that is {wanted}.")


def _lock(change: Change, *rungs: str) -> None:
    change.rung = Change.objects.select_for_update().values_list("rung", flat=True).get(pk=change.pk)
    _ensure(change, *rungs)


def _move(change: Change, rung: str, *, by: Actor) -> None:
    name_actor(by)
    Change.objects.filter(pk=change.pk).update(rung=rung)
    change.rung = rung
    log.info("change_moved", agent=str(change.agent_id), number=change.number, rung=str(rung), by=by.label)
