"""Look at running experiments, write down what was found, and act on it: roll back, widen, promote, end."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from evaluation.experiments.analysis import ArmVerdict, Findings, analyse
from evaluation.experiments.exposures import Exposures, read_exposures
from evaluation.experiments.lifecycle import end_experiment
from evaluation.experiments.models import Experiment, Look
from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.releases.deployments import lock_deployment, promote, roll_back, start_canary
from memory.releases.models import Deployment

log = structlog.get_logger(__name__)

POLICY = Actor.policy("experiments")
_FINAL = frozenset({ArmVerdict.BETTER, ArmVerdict.NO_BENEFIT, ArmVerdict.ROLL_BACK, ArmVerdict.INVALID})


def look_at_experiments() -> list[Look]:
    """Look at every running experiment of which something new is known; return the looks."""
    looks = []
    for id in list(Experiment.objects.running().order_by("started_at").values_list("pk", flat=True)):
        try:
            look = take_look(id)
        except MemoryAppError as error:
            # The project may have been archived, for example. The other experiments are looked at all the same.
            log.warning("experiment_not_looked_at", experiment=str(id), reason=type(error).__name__)
        else:
            looks += [look] if look else []
    return looks


@transaction.atomic
def take_look(id: UUID) -> Look | None:
    """Look at one experiment and act on the verdict, all in one transaction.

    Returns None where it has ended, where another process looks at it now, or where nothing new is known. What is
    deployed is read before the look and once more after it, from when on it can no longer change: a person may have
    changed it meanwhile.
    """
    experiment = (
        Experiment.objects.running()
        # Another process that looks at it now does all there is to do.
        .select_for_update(of=("self",), skip_locked=True)
        .select_related("project", "treated_release", "deployment")
        .filter(pk=id)
        .first()
    )
    if experiment is None:
        return None
    deployment = experiment.deployment
    if reason := _find_change(experiment, deployment):
        end_experiment(experiment, by=POLICY, reason=reason)
        return None
    exposures = read_exposures(experiment, now=database_now())
    findings = analyse(
        experiment.plan,
        exposures.units,
        ratios=exposures.ratios,
        past=exposures.past,
        steps_done=_is_last_step_done(experiment, exposures, deployment),
    )
    look = _build_look(experiment, findings, share=_get_share(experiment, deployment))
    last = experiment.looks.order_by("-number").first()
    # Without new figures a look says nothing, and the list of looks stays short.
    if last is not None and _read_figures(last) == _read_figures(look):
        return None
    # Taken late, since reading the runs takes a second and people must be able to deploy meanwhile.
    deployment = lock_deployment(experiment.project)
    if reason := _find_change(experiment, deployment):
        end_experiment(experiment, by=POLICY, reason=reason)
        return None
    look.number = last.number + 1 if last else 1
    look.save(force_insert=True)
    _act(experiment, look, exposures, deployment)
    return look


def find_last_looks(experiments: Iterable[Experiment]) -> dict[UUID, Look]:
    """Return the last look of each experiment that has one. One query."""
    looks = Look.objects.filter(experiment__in=list(experiments)).order_by("experiment_id", "-number")
    return {look.experiment_id: look for look in looks.distinct("experiment_id")}


def _act(experiment: Experiment, look: Look, exposures: Exposures, deployment: Deployment) -> None:
    project, is_canary = experiment.project, experiment.compared == Experiment.Compared.CANARY
    if look.verdict == ArmVerdict.ROLL_BACK and is_canary:
        roll_back(project, by=POLICY, reason=f"{experiment}: {look.reason}")
    elif look.verdict == ArmVerdict.BETTER and experiment.promotes == Experiment.Promotes.POLICY:
        promote(project, by=POLICY, release=experiment.treated_release, reason=f"{experiment}: {look.reason}")
    if look.verdict in _FINAL:
        end_experiment(experiment, by=POLICY, reason=look.reason, conclusion=look.verdict)
    elif is_canary and (share := _find_next_share(experiment, exposures, deployment)):
        assert experiment.treated_release is not None
        start_canary(
            project,
            release=experiment.treated_release,
            share=share,
            by=POLICY,
            reason=f"{experiment}: enough units at {deployment.canary_share / 10:g}%.",
        )


def _find_change(experiment: Experiment, deployment: Deployment) -> str:
    """Return how the deployment was changed by others so that the experiment cannot go on, or nothing.

    It counts what was changed since the start, even if it was changed back: units were given something else meanwhile.
    """
    if deployment.version == experiment.first_version:
        return ""
    states = list(
        deployment.events.filter(version__gte=experiment.first_version)
        .order_by("version")
        .values_list("state", flat=True)
    )
    if len({state["unit"] for state in states}) > 1:
        return "The deployment was changed: another unit stays in one arm."
    if experiment.compared == Experiment.Compared.CANARY:
        as_planned = (str(experiment.treated_release_id), str(experiment.control_release_id))
        if any((state["candidate_id"], state["stable_id"]) != as_planned for state in states):
            return "The deployment was changed: another release is stable, or the candidate is no longer on trial."
        return ""
    planned = str(experiment.treated_release_id) if experiment.treated_release_id else None
    if any(state["stable_id"] != planned for state in states):
        return "The deployment was changed: another release is stable."
    return "" if all(state["holdout_share"] for state in states) else "The hold-out ended."


def _find_next_share(experiment: Experiment, exposures: Exposures, deployment: Deployment) -> int | None:
    """Return the next share of the canary if the present one is a step that had enough units."""
    steps = experiment.plan.steps
    for step, following in pairwise(steps):
        if step.share == deployment.canary_share and exposures.count_treated(share=step.share) >= step.units:
            return following.share
    return None


def _is_last_step_done(experiment: Experiment, exposures: Exposures, deployment: Deployment) -> bool:
    steps = experiment.plan.steps
    if not steps:
        return True
    last = steps[-1]
    return deployment.canary_share >= last.share and exposures.count_treated(share=last.share) >= last.units


def _get_share(experiment: Experiment, deployment: Deployment) -> int:
    if experiment.compared == Experiment.Compared.CANARY:
        return deployment.canary_share
    # Of the lessons as a whole, the treated arm is everything but the hold-out.
    return 1000 - deployment.holdout_share


def _build_look(experiment: Experiment, findings: Findings, *, share: int) -> Look:
    difference, interval = findings.difference, findings.interval
    return Look(
        project_id=experiment.project_id,
        experiment=experiment,
        control_units=findings.units["control"],
        treated_units=findings.units["treated"],
        control_mean=findings.means["control"],
        treated_mean=findings.means["treated"],
        estimate=difference.estimate if difference else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        e_value=findings.e_value,
        ratio_e_value=findings.ratio_e_value,
        missing_e_value=findings.missing_e_value,
        guardrails=findings.guardrails,
        outcomes=findings.outcomes,
        families=findings.families,
        share=share,
        verdict=findings.verdict,
        reason=findings.reason,
    )


def _read_figures(look: Look) -> dict[str, Any]:
    # These differ without anything new being known.
    left_out = {"id", "number", "taken_at", "share"}
    return {
        field.attname: getattr(look, field.attname)
        for field in look._meta.concrete_fields
        if field.name not in left_out
    }
