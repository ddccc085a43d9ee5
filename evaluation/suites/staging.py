"""Stage three releases end to end, as a project would: a good, a useless and a poisoned one.

Each is cut, tried as a canary by an experiment that was planned before, and judged by the outcomes of the tasks alone.
The policy of the experiment promotes or rolls back; nothing here does. All three are staged in one project, one after
the other, so that the useless and the poisoned release have to beat what the good one left.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any

import numpy as np

from evaluation.arms import EVALUATION
from evaluation.environments.base import Task, TryResult
from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.looks import take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import ExperimentPlan, Guardrail, RolloutStep
from evaluation.reports.figures import rounded
from evaluation.suites.base import APPROVED_UNREAD, About, Options, Progress, UnitResult
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, get_deployment, roll_back
from memory.releases.models import Deployment, Release
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question

PLAN = ExperimentPlan(
    guardrails=(Guardrail(metric="success"),),
    steps=(RolloutStep(share=100, units=20), RolloutStep(share=500, units=50)),
    max_units=400,
)
LOOK_EVERY = 20  # units
MOST_UNITS = 800  # asked for; some outcomes may be missing
USELESS = 100  # lessons about other work
STAGED = {"good": True, "useless": False, "poisoned": False}  # whether each release should be promoted
PROMOTED, ROLLED_BACK, NOT_PROMOTED = "promoted", "rolled back", "not promoted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A release to stage: what has to be approved or retired before it is cut."""

    name: str
    prepare: Callable[[], object]


def make_stages(good: Callable[[], object], useless: Callable[[], object], poison: Callable[[], object]) -> list[Stage]:
    """Return the stages of `STAGED`, each with what prepares it."""
    return [Stage(name=name, prepare=prepare) for name, prepare in zip(STAGED, (good, useless, poison), strict=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """The tasks that agents get, in an order of each stage's own, and how one is tried with the lessons given."""

    tasks: Sequence[Task]
    attempt: Callable[[Task, str], TryResult]
    options: Options
    seed: str
    progress: Progress
    plan: ExperimentPlan = PLAN


def stage_releases(project: Project, stages: Sequence[Stage], *, traffic: Traffic) -> UnitResult:
    """Stage releases one after the other, and return what became of each."""
    started = time.perf_counter()
    change_deployment(project, by=EVALUATION, change=DeploymentChange(mode=Deployment.Mode.RELEASES))
    return {
        "stages": {stage.name: _stage(project, stage, traffic) for stage in stages},
        "timing": {"seconds": round(time.perf_counter() - started, 1)},
    }


def _stage(project: Project, stage: Stage, traffic: Traffic) -> dict[str, Any]:
    stage.prepare()
    release = cut_release(project, by=EVALUATION, note=stage.name)
    experiment = start_experiment(
        project, plan=traffic.plan, by=EVALUATION, release=release, promotes=Experiment.Promotes.POLICY
    )
    _repeat_draw(project, f"{traffic.seed}:{stage.name}")
    order = Random(f"{traffic.seed}:{stage.name}").sample(list(traffic.tasks), len(traffic.tasks))  # noqa: S311 - repeatable
    asked = 0
    for asked, task in zip(range(1, MOST_UNITS + 1), cycle(order), strict=False):
        _send(project, task, traffic=traffic, session=f"{stage.name}-{asked}")
        traffic.progress(f"{traffic.seed}, {stage.name} release", asked, MOST_UNITS)
        if asked % LOOK_EVERY == 0 and _has_ended(experiment):
            break
    outcome = _describe(project, experiment, release, asked=asked)
    # In a real installation a person would end this canary.
    if get_deployment(project).candidate is not None:
        roll_back(project, by=EVALUATION, reason="The experiment ended without a benefit.")
    return outcome


def _send(project: Project, task: Task, *, traffic: Traffic, session: str) -> None:
    """Ask, try and report as one unit, as an agent of the project."""
    answer = retrieve(
        Question(
            project=project,
            task=task.text,
            task_id=task.family,
            top_k=traffic.options.k,
            budget_tokens=traffic.options.budget_tokens,
            record=False,
            session=session,
            by=EVALUATION,
        )
    )
    tried = traffic.attempt(task, answer.context)
    data = {
        "task": task.text,
        "task_id": task.family,
        "steps": [],
        "outcome": "success" if tried.success else "failure",
        "outcome_source": "environment",
        "retrieval_id": answer.retrieval_id,
        "external_id": session,
    }
    record_trajectory(project, data=data, by=EVALUATION, reflect=False)


def _has_ended(experiment: Experiment) -> bool:
    take_look(experiment.pk)
    experiment.refresh_from_db()
    return experiment.status == Experiment.Status.ENDED


def _repeat_draw(project: Project, salt: str) -> None:
    """Draw the arms by a salt of this stage, so that the evaluation gives the same figures again."""
    Deployment.objects.filter(project=project).update(canary_salt=salt)


def _describe(project: Project, experiment: Experiment, release: Release, *, asked: int) -> dict[str, Any]:
    deployment, last = get_deployment(project), experiment.looks.order_by("-number").first()
    if deployment.stable == release:
        became = PROMOTED
    elif deployment.candidate is None:
        became = ROLLED_BACK
    else:
        became = NOT_PROMOTED
    return {
        "became": became,
        "conclusion": experiment.conclusion,
        "reason": experiment.reason,
        "units": asked,
        "canary_units": last.treated_units if last else 0,
        "control_mean": last.control_mean if last else None,
        "treated_mean": last.treated_mean if last else None,
        "estimate": last.estimate if last else None,
        "low": last.low if last else None,
        "high": last.high if last else None,
        "looks": last.number if last else 0,
        "lessons": len(release.manifest["lessons"]),
    }


def summarise_stages(about: About, units: dict[str, UnitResult], stages: dict[str, bool]) -> dict[str, Any]:
    """Combine the seeds into the report. `stages` says of each release whether it should be promoted."""
    figures, checks = [], []
    for name, should in stages.items():
        played = [unit["stages"][name] for unit in units.values()]
        for label, values in (
            ("promoted", [float(stage["became"] == PROMOTED) for stage in played]),
            ("rolled back", [float(stage["became"] == ROLLED_BACK) for stage in played]),
            ("units asked", [stage["units"] for stage in played]),
            ("canary units", [stage["canary_units"] for stage in played]),
            ("control", [stage["control_mean"] or 0.0 for stage in played]),
            ("canary", [stage["treated_mean"] or 0.0 for stage in played]),
        ):
            figures.append({"arm": name, "name": label, **_spread(values)})
        as_planned = sum((stage["became"] == PROMOTED) == should for stage in played)
        checks.append(
            {
                "name": f"the {name} release is {'promoted' if should else 'not promoted'}",
                "passed": as_planned == len(played),
                "says": " ".join(
                    f"{seed}: {unit['stages'][name]['became']} after {unit['stages'][name]['units']:,} units."
                    for seed, unit in units.items()
                ),
            }
        )
    return {
        **about.as_json(),
        "title": f"{about.title.partition(':')[0]}: staged releases",
        "proves": (
            "This shows that a release goes from its cut through a canary and a sequential test to its promotion or "
            "roll-back by outcomes alone. It does not show how large the effect of lessons on a language model is."
        ),
        "units": list(units),
        "n": len(units),
        "tasks": [],
        "arms": [],
        "figures": figures,
        "curve": [],
        "checks": checks,
        "notes": [
            APPROVED_UNREAD,
            (
                f"The canary goes from {PLAN.steps[0].share / 10:g}% to {PLAN.steps[1].share / 10:g}%. Each "
                f"experiment is looked at every {LOOK_EVERY} units and ends after {PLAN.max_units:,} outcomes at "
                f"{PLAN.steps[1].share / 10:g}%."
            ),
            "The useless release adds lessons about other work. It and the poisoned one have to beat the good one.",
        ],
        "power": "",
        "per_task": {},
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "n": len(values),
        "mean": rounded(np.mean(values)),
        "low": rounded(min(values)),
        "high": rounded(max(values)),
    }
