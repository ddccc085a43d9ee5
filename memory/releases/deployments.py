"""Cut releases, and decide what agents are given: canary, promotion, roll-back, hold-out.

Every change is one update of one row, with an event that says who made it and what the state is since: a process that
dies during a change leaves the state before or after it, and a roll-back moves a pointer.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.utils import timezone

from memory.errors import NoSuchRelease, NotDeployable
from memory.events import EventKind, ProjectEvent, announce
from memory.failpoints import failpoint
from memory.heuristics.models import HeuristicRevision
from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.releases.deployers import check_deployer
from memory.releases.manifest import add_lessons, build_manifest, hash_manifest
from memory.releases.models import Deployment, DeploymentEvent, Release
from memory.releases.readiness import (
    decide_again,
    keep_ready,
    let_go_of_old,
    lock_what_is_live,
    serve_all_approved,
)
from memory.rows import find_row

log = structlog.get_logger(__name__)

_Kind, _Mode = DeploymentEvent.Kind, Deployment.Mode
_SHADOW = ("shadow_share", "shadow_per_minute")
_STATE = ("mode", "stable_id", "candidate_id", "previous_id", "canary_share", "holdout_share", "unit", *_SHADOW)
SERVES_ALL = "The project {project} serves every approval at once. Set the mode of its deployment to releases first."
_SALTS_AND_POLICY = ("canary_salt", "holdout_salt", "cut_policy")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeploymentChange:
    """Settings of a deployment to change; None leaves one as it is. Shares are in thousandths."""

    mode: str | None = None
    holdout_share: int | None = None
    unit: str | None = None
    cut_policy: str | None = None
    shadow_share: int | None = None
    shadow_per_minute: int | None = None


@transaction.atomic
def cut_release(project: Project, *, by: Actor, how: str = Release.How.HAND, note: str = "") -> Release:
    """Make a release of what is approved now, with its settings. The same content is the same release.

    It is given to no agent yet: `start_canary` or `promote` does that.

    Raises:
        NotAllowed, ProjectArchived: see `check_deployer`.
    """
    check_deployer(project, by=by)
    name_actor(by)
    return _cut(lock_deployment(project), by=by, how=how, note=note)


@transaction.atomic
def cut_variant(
    project: Project,
    *,
    parts: Mapping[str, Mapping[str, Any]],
    lessons: Iterable[HeuristicRevision] = (),
    by: Actor,
    note: str = "",
) -> Release:
    """Make a release that differs from the stable one only in some parts of its manifest.

    Args:
        parts: what these parts name, besides or in place of what the stable release has there.
        lessons: approved wordings that it has besides, or in place of others of the same lessons.

    Raises:
        NotDeployable: the project serves every approval at once.
        NotAllowed, ProjectArchived: see `check_deployer`.
    """
    check_deployer(project, by=by)
    name_actor(by)
    deployment = lock_deployment(project, serves_releases=True)
    assert deployment.stable is not None  # what serves releases has one
    manifest = deployment.stable.manifest
    varied = {part: {**manifest.get(part, {}), **additions} for part, additions in parts.items() if additions}
    manifest = {**manifest, **varied, "lessons": add_lessons(manifest["lessons"], lessons)}
    return _store(deployment, manifest, by=by, how=Release.How.HAND, note=note)


@transaction.atomic
def change_deployment(project: Project, *, by: Actor, change: DeploymentChange, reason: str = "") -> Deployment:
    """Change how a project is served. From continuous to releases, what is approved now becomes the stable release.

    Back to continuous, every approval is live again at once, and a canary ends. A hold-out that begins gets a new salt,
    which lives until its share is 0.

    Raises:
        NotAllowed, ProjectArchived: see `check_deployer`.
    """
    check_deployer(project, by=by)
    name_actor(by)
    switches = change.mode is not None and change.mode != get_deployment(project).mode
    if switches:
        lock_what_is_live(project)
    deployment = lock_deployment(project)
    before = _read_state(deployment)
    if change.holdout_share is not None:
        if change.holdout_share and not deployment.holdout_share:
            # Another draw, so that it is not again the units of an earlier hold-out that go without lessons.
            deployment.holdout_salt = _new_salt()
        deployment.holdout_share = change.holdout_share
    for name in _SHADOW:
        if (wanted := getattr(change, name)) is not None:
            setattr(deployment, name, wanted)
    deployment.unit = change.unit or deployment.unit
    deployment.cut_policy = change.cut_policy or deployment.cut_policy
    if change.mode is not None and change.mode != deployment.mode:
        _switch(deployment, by=by)
    if _read_state(deployment) != before:
        _save(deployment, _Kind.SETTINGS, by=by, reason=reason)
    if switches:
        decide_again(project)
    return deployment


@transaction.atomic
def start_canary(project: Project, *, release: Release, share: int, by: Actor, reason: str = "") -> Deployment:
    """Give a release to a share of the units, in thousandths, as the candidate, or change that share.

    A unit keeps its arm while the share grows. Another candidate ends the canary before it and gets a salt of its own.

    Raises:
        NotDeployable: the project serves every approval at once, or the release is the stable one.
        NotAllowed, ProjectArchived: see `check_deployer`.
    """
    check_deployer(project, by=by)
    name_actor(by)
    deployment = lock_deployment(project, serves_releases=True)
    if release.pk == deployment.stable_id:
        raise NotDeployable(f"{release} is stable already, so there is nothing to try. Cut a release first.")
    # Sent again, it changes nothing and leaves no event.
    if (deployment.candidate_id, deployment.canary_share) == (release.pk, share):
        return deployment
    if deployment.candidate_id != release.pk:
        keep_ready(release)
        deployment.candidate = release
        # Another draw, so that the same units are not the first to try every candidate.
        deployment.canary_salt = _new_salt()
    deployment.canary_share = share
    return _save(deployment, _Kind.CANARY, by=by, reason=reason)


@transaction.atomic
def promote(project: Project, *, by: Actor, release: Release | None = None, reason: str = "") -> Deployment:
    """Make a release stable: the candidate, unless another is named. A canary ends; the hold-out stays.

    Raises:
        NotDeployable: the project serves every approval at once, there is no candidate, or it is stable already.
        NotAllowed, ProjectArchived: see `check_deployer`.
    """
    check_deployer(project, by=by)
    name_actor(by)
    deployment = lock_deployment(project, serves_releases=True)
    wanted = release or deployment.candidate
    if wanted is None:
        raise NotDeployable("There is no candidate. Name the release to promote, or start a canary first.")
    if wanted.pk == deployment.stable_id:
        raise NotDeployable(f"{wanted} is stable already, so nothing was changed.")
    deployment.previous = deployment.stable
    _make_stable(deployment, wanted)
    return _save(deployment, _Kind.PROMOTED, by=by, reason=reason)


@transaction.atomic
def roll_back(project: Project, *, by: Actor, to: Release | None = None, reason: str = "") -> Deployment:
    """Take back what was deployed last: end the canary if one runs, else return to the release before the stable one.

    Args:
        to: the release to return to, which was stable before.

    Raises:
        NotDeployable: the project serves every approval at once, there is nothing to go back to, or `to` was never
            stable.
        NotAllowed: see `check_deployer`.
    """
    check_deployer(project, by=by, withdraws=True)
    name_actor(by)
    deployment = lock_deployment(project, serves_releases=True)
    # Going back to the release that is stable already means ending the canary.
    ends_canary = deployment.candidate_id is not None if to is None else to.pk == deployment.stable_id
    if ends_canary:
        if deployment.candidate_id is None:
            raise NotDeployable(f"{to} is stable and no canary runs, so there is nothing to roll back.")
        _end_canary(deployment)
    else:
        wanted = to or deployment.previous
        if wanted is None:
            raise NotDeployable("No release was stable before this one. Name the release to return to.")
        # An event is the proof that it was stable; a release that was only cut was never in use.
        if not deployment.events.filter(state__stable_id=str(wanted.pk)).exists():
            raise NotDeployable(f"{wanted} was never stable, so there is no going back to it. Promote it instead.")
        deployment.previous = _find_previous(deployment, wanted)
        _make_stable(deployment, wanted)
    return _save(deployment, _Kind.ROLLED_BACK, by=by, reason=reason)


@transaction.atomic
def acknowledge_roll_back(project: Project, *, by: Actor) -> Deployment:
    """Note that a person has seen the last automatic roll-back, which reviewers are told of until then.

    Raises:
        NotAllowed: see `check_deployer`.
    """
    check_deployer(project, by=by, withdraws=True)
    name_actor(by)
    deployment = lock_deployment(project)
    if DeploymentEvent.objects.unseen_roll_backs().filter(deployment=deployment).exists():
        _save(deployment, _Kind.SEEN, by=by, reason="")
    return deployment


def get_deployment(project: Project) -> Deployment:
    """Return what is deployed in a project; one that never chose serves every approval at once."""
    deployment = find_row(Deployment.objects.filter(project=project).select_related("stable", "candidate", "previous"))
    return deployment or Deployment(project=project, holdout_salt="")


def serves_releases(project_id: UUID) -> bool:
    """Tell whether agents of a project get what a release has, rather than every approval at once."""
    return Deployment.objects.filter(project=project_id, mode=_Mode.RELEASES).exists()


def get_release(project: Project, name: str) -> Release:
    """Return a release by its number or its hash, or the beginning of it of at least 8 characters.

    Raises:
        NoSuchRelease: the project has none of that name, or several.
    """
    releases = Release.objects.filter(project=project)
    if name.isdecimal() and len(name) < 8:
        matches = list(releases.filter(number=int(name)))
    elif len(name) >= 8:
        matches = list(releases.filter(sha256__startswith=name.lower())[:2])
    else:
        matches = []
    if len(matches) != 1:
        raise NoSuchRelease(
            f"There is no release {name[:64]!r} in the project {project}. List its releases to see their names."
        )
    return matches[0]


def lock_deployment(project: Project, *, serves_releases: bool = False) -> Deployment:
    """Return the row of a project, which is made if it is missing, and hold it until the transaction ends."""
    # Two first requests may both make the row; the unique key lets one of them.
    Deployment.objects.get_or_create(project=project, defaults={"holdout_salt": _new_salt()})
    deployment = Deployment.objects.select_for_update().get(project=project)
    if serves_releases and deployment.mode != _Mode.RELEASES:
        raise NotDeployable(SERVES_ALL.format(project=project))
    return deployment


def _cut(deployment: Deployment, *, by: Actor, how: str, note: str) -> Release:
    return _store(deployment, build_manifest(deployment.project), by=by, how=how, note=note)


def _store(deployment: Deployment, manifest: dict[str, Any], *, by: Actor, how: str, note: str) -> Release:
    project = deployment.project
    sha256 = hash_manifest(manifest)
    newest = Release.objects.filter(project=project).order_by("-number").first()
    release = Release.objects.filter(project=project, sha256=sha256).first()
    if release is None:
        release = Release.objects.create(
            project=project,
            # No gap and no repeat: the deployment's row is locked by the caller.
            number=newest.number + 1 if newest else 1,
            sha256=sha256,
            parent=deployment.stable or newest,
            manifest=manifest,
            how=how,
            note=note,
            created_by=by.label,
        )
        release.is_new = True
        details = {"release": release.number, "sha256": sha256, "lessons": len(manifest["lessons"])}
        announce(ProjectEvent(kind=EventKind.RELEASE_CUT, project_id=project.pk, details=details))
        log.info("release_cut", project=project.slug, number=release.number, by=by.label)
    if deployment.mode == _Mode.RELEASES:
        keep_ready(release)
        let_go_of_old(deployment)
    return release


def _switch(deployment: Deployment, *, by: Actor) -> None:
    if deployment.mode == _Mode.CONTINUOUS:
        release = _cut(deployment, by=by, how=Release.How.HAND, note="")
        deployment.mode, deployment.stable = _Mode.RELEASES, release
        Deployment.objects.filter(pk=deployment.pk).update(mode=deployment.mode, stable=release)  # the triggers ask
        keep_ready(release)
        return
    _end_canary(deployment)
    deployment.mode, deployment.stable, deployment.previous = _Mode.CONTINUOUS, None, None
    Deployment.objects.filter(pk=deployment.pk).update(
        mode=deployment.mode, stable=None, candidate=None, canary_share=0
    )
    serve_all_approved(deployment.project)


def _make_stable(deployment: Deployment, release: Release) -> None:
    if release.project_id != deployment.project_id:
        raise NoSuchRelease("This release belongs to another project.")
    keep_ready(release)
    deployment.stable = release
    _end_canary(deployment)


def _end_canary(deployment: Deployment) -> None:
    deployment.candidate, deployment.canary_share = None, 0


def _find_previous(deployment: Deployment, release: Release) -> Release | None:
    """Return what was stable before a release, the last time it became stable."""
    then = deployment.events.filter(state__stable_id=str(release.pk)).order_by("-version").first()
    previous = then.state["previous_id"] if then else None
    return Release.objects.filter(pk=previous).first() if previous else None


def _save(deployment: Deployment, kind: str, *, by: Actor, reason: str) -> Deployment:
    """Write the row and its event, which is the change."""
    # The row is locked, so no two changes get one number.
    deployment.version += 1
    deployment.changed_at = timezone.now()
    deployment.save()
    state = _read_state(deployment)
    DeploymentEvent.objects.create(
        project_id=deployment.project_id,
        deployment=deployment,
        version=deployment.version,
        kind=kind,
        state=state,
        reason=reason,
        made_by=by.label,
    )
    details = {
        "change": str(kind),
        "stable": deployment.stable.number if deployment.stable else None,
        "candidate": deployment.candidate.number if deployment.candidate else None,
        "canary_percent": deployment.canary_share / 10,
        "holdout_percent": deployment.holdout_share / 10,
    }
    announce(ProjectEvent(kind=EventKind.DEPLOYMENT_CHANGED, project_id=deployment.project_id, details=details))
    failpoint("deployment.before_commit")
    log.info("deployment_changed", change=str(kind), version=deployment.version, by=by.label)
    return deployment


def _read_state(deployment: Deployment) -> dict[str, Any]:
    values = {name: getattr(deployment, name) for name in (*_STATE, *_SALTS_AND_POLICY)}
    return {name: str(value) if name.endswith("_id") and value is not None else value for name, value in values.items()}


def _new_salt() -> str:
    return secrets.token_hex(8)
