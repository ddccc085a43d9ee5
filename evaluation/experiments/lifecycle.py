"""Start and end experiments. A change of the plan is a new experiment."""

from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from evaluation.errors import ExperimentEnded, ExperimentRunning, PlanInvalid
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import ExperimentPlan
from memory.events import EventKind, ProjectEvent, announce
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployers import check_deployer
from memory.releases.deployments import lock_deployment, start_canary
from memory.releases.models import Deployment, Release

log = structlog.get_logger(__name__)

_Compared, _Status = Experiment.Compared, Experiment.Status


@transaction.atomic
def start_experiment(
    project: Project,
    *,
    plan: ExperimentPlan,
    by: Actor,
    release: Release | None = None,
    promotes: str = Experiment.Promotes.PEOPLE,
) -> Experiment:
    """Start an experiment in a project's deployment, with a plan that stays as it is.

    Args:
        release: the candidate, whose canary starts at the plan's first share, or goes on at its share if the plan has
            none. Without one, the lessons are compared with the hold-out.

    Raises:
        PlanInvalid: the plan or the deployment does not allow it.
        ExperimentRunning: one of the same kind is running.
        NotDeployable, NotAllowed, ProjectArchived: see `start_canary`.
    """
    plan.check()
    check_deployer(project, by=by)
    # Under this lock, numbers are given one at a time.
    lock_deployment(project)
    compared = _Compared.CANARY if release else _Compared.MEMORY
    running = Experiment.objects.running().filter(project=project, compared=compared).first()
    if running is not None:
        raise ExperimentRunning(
            f"{running} has been running since {running.started_at:%Y-%m-%d %H:%M}. Stop it, or wait until it ends: "
            "two at once would disturb each other."
        )
    if release is not None:
        deployment = _start_canary(project, release, plan=plan, by=by)
    else:
        deployment = _find_holdout(project, plan=plan, promotes=promotes)
    # Without shadow no answer is known to differ, and the verdict would wait forever.
    if plan.only_differing and not (release and deployment.shadow_share):
        raise PlanInvalid(
            "Only shadow knows which answers differ. Try a release, and set `shadow_percent` in the deployment first, "
            "or leave `only_differing` out."
        )
    # Safe under the lock on the deployment that was taken above.
    number = Experiment.objects.filter(project=project).aggregate(last=Max("number"))["last"] or 0
    experiment = Experiment.objects.create(
        project=project,
        number=number + 1,
        deployment=deployment,
        compared=compared,
        treated_release=release or deployment.stable,
        control_release=deployment.stable if release else None,
        first_version=deployment.version,
        promotes=promotes,
        started_by=by.label,
        **_as_columns(plan),
    )
    log.info("experiment_started", project=project.slug, number=experiment.number, by=by.label)
    return Experiment.objects.get(pk=experiment.pk)


@transaction.atomic
def stop_experiment(experiment: Experiment, *, by: Actor, reason: str = "") -> Experiment:
    """End an experiment without a conclusion. What is deployed stays as it is.

    Raises:
        ExperimentEnded: it has ended already.
        NotAllowed: see `check_deployer`.
    """
    check_deployer(experiment.project, by=by, withdraws=True)
    end_experiment(experiment, by=by, reason=reason or "Stopped.")
    return experiment


def end_experiment(experiment: Experiment, *, by: Actor, reason: str, conclusion: str = "") -> None:
    """Write how an experiment ended, once, and announce it.

    Raises:
        ExperimentEnded: it has ended already.
    """
    # The condition decides which of two processes ends it, so it is announced once.
    ended = Experiment.objects.running().filter(pk=experiment.pk)
    if not ended.update(status=_Status.ENDED, conclusion=conclusion, reason=reason, ended_by=by.label, ended_at=Now()):
        raise ExperimentEnded(f"{experiment} has already ended. Read what it found, or start another.")
    experiment.refresh_from_db()
    details = {"experiment": experiment.number, "conclusion": conclusion or "stopped"}
    announce(ProjectEvent(kind=EventKind.EXPERIMENT_ENDED, project_id=experiment.project_id, details=details))
    log.info("experiment_ended", number=experiment.number, conclusion=conclusion, by=by.label)


def find_unwatched_canaries(*projects: Project) -> list[Experiment]:
    """Return the last experiment of each canary that still runs after it, the longest ended first.

    Nothing looks at such a canary, so nothing rolls it back. A canary that a person started without an experiment is
    not among them.

    Args:
        projects: of these only; without any, of all.
    """
    with_canary = Deployment.objects.filter(candidate__isnull=False, canary_share__gt=0)
    if projects:
        with_canary = with_canary.filter(project__in=projects)
    tried = (
        Experiment.objects.filter(deployment__in=with_canary, compared=_Compared.CANARY)
        .filter(treated_release=F("deployment__candidate"), control_release=F("deployment__stable"))
        .select_related("project", "treated_release", "deployment")
        .order_by("deployment_id", "-number")
        .distinct("deployment_id")
    )
    ended = [deployment for deployment in tried if deployment.ended_at is not None]
    return sorted(ended, key=lambda deployment: (deployment.ended_at, deployment.pk))


def _start_canary(project: Project, release: Release, *, plan: ExperimentPlan, by: Actor) -> Deployment:
    deployment = Deployment.objects.filter(project=project).first()
    on_trial = deployment.canary_share if deployment and deployment.candidate_id == release.pk else 0
    share = plan.steps[0].share if plan.steps else on_trial
    if not share:
        raise PlanInvalid(f"Give the plan `steps`, or start a canary of {release} first: otherwise no unit gets it.")
    return start_canary(project, release=release, share=share, by=by, reason="An experiment starts.")


def _find_holdout(project: Project, *, plan: ExperimentPlan, promotes: str) -> Deployment:
    deployment = Deployment.objects.filter(project=project).first()
    if deployment is None or not deployment.holdout_share:
        raise PlanInvalid(
            "The project has no hold-out, so there is nothing to compare with. Set a hold-out share in its deployment "
            "first, or name a release to try."
        )
    if plan.steps:
        raise PlanInvalid("Steps belong to a canary. Leave them out, or name a release to try.")
    if promotes == Experiment.Promotes.POLICY:
        raise PlanInvalid("There is no candidate to promote. Let people decide, or name a release to try.")
    return deployment


def _as_columns(plan: ExperimentPlan) -> dict[str, Any]:
    lists = {"guardrails", "steps"}
    columns = {name: getattr(plan, name) for name in ExperimentPlan.__dataclass_fields__ if name not in lists}
    return columns | {name: [item.as_json() for item in getattr(plan, name)] for name in lists}
