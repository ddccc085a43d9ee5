"""What experiments found, on the pages of the release and of the deployment that they are about."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from desk.effects.uplift import DAYS, list_families, say_uplift
from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.pages import Figure
from evaluation.experiments.looks import find_last_looks
from evaluation.experiments.models import Experiment
from evaluation.experiments.uplift import measure_uplift
from evaluation.reports.experiments import list_alarms, write_sentence
from memory.projects.models import Project
from memory.releases.deployments import get_deployment
from memory.releases.models import Deployment, Release

SHOWN = 5


def describe_deployment(user: Any, project: Project) -> dict[str, Any] | None:
    """Return the newest experiments of a project, and what its lessons do against the hold-out."""
    if not user.has_perm("evaluation.view_experiment"):
        return None
    deployment = get_deployment(project)
    context: dict[str, Any] = {
        "experiments": _list(Experiment.objects.filter(project=project)),
        "project": project,
        "deployment": deployment,
        "serves_releases": deployment.mode == Deployment.Mode.RELEASES,
        "days": DAYS,
    }
    if deployment.holdout_share:
        measured = measure_uplift(project, since=timezone.now() - timedelta(days=DAYS))
        context |= {"uplift": say_uplift(measured.whole), "families": list_families(measured.by_family)}
    return context


def list_ended(project: Project) -> list[str]:
    """Return which running experiments a promotion or a roll-back ends, with what they know and their alarms.

    Two queries.
    """
    running = list(
        Experiment.objects.running().filter(project=project).select_related("treated_release", "control_release")
    )
    looks = find_last_looks(running)
    ended = []
    for experiment in running:
        look = looks.get(experiment.pk)
        ended.append(
            f"{experiment} is running and ends for good, without a verdict. {write_sentence(experiment, look)}"
        )
        ended += list_alarms(look) if look else []
    return ended


def count_alarms(request: HttpRequest) -> Iterable[Figure]:
    """Return how many running experiments have an alarm, if any has. Two queries."""
    if not request.user.has_perm("evaluation.view_experiment"):
        return
    running = list(narrow_to_chosen(Experiment.objects.running().select_related("project"), request))
    looks = find_last_looks(running) if running else {}
    if doubtful := sum(bool(list_alarms(look)) for look in looks.values()):
        link = reverse("admin:evaluation_experiment_changelist")
        yield Figure(label="experiments with an alarm", value=str(doubtful), link=link, alarming=True)


def describe_release(user: Any, release: Release) -> dict[str, Any] | None:
    """Return what experiments found about a release."""
    if not user.has_perm("evaluation.view_experiment"):
        return None
    experiments = Experiment.objects.filter(
        Q(treated_release=release) | Q(control_release=release), project=release.project
    )
    return {"experiments": _list(experiments)}


def _list(found: Any) -> list[dict[str, Any]]:
    """Return the newest experiments, each with its sentence and its alarms. Two queries."""
    newest = list(found.select_related("treated_release", "control_release").order_by("-number")[:SHOWN])
    looks = find_last_looks(newest)
    shown = []
    for experiment in newest:
        look = looks.get(experiment.pk)
        alarms = list_alarms(look) if look else []
        shown.append({"row": experiment, "sentence": write_sentence(experiment, look), "alarms": alarms})
    return shown
