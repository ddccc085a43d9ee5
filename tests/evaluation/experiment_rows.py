"""A project that serves releases, and rows as live traffic leaves them."""

import itertools
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from django.utils import timezone

from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import ExperimentPlan, Guardrail
from memory.ids import uuid7
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, start_canary
from memory.releases.models import Deployment, Release
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.factories import make_heuristic, make_project

OPERATOR = Actor.policy("test")
SUCCESS_ONLY = (Guardrail(metric="success"),)
PLAN = ExperimentPlan(guardrails=SUCCESS_ONLY, max_units=5000)
_numbers = itertools.count(1)


def make_deployed(*, holdout: int = 0) -> tuple[Project, Release]:
    """Make a project with a stable release, and a second release that is not deployed."""
    project = make_project()
    make_heuristic(project=project, status="approved")
    change_deployment(project, by=OPERATOR, change=DeploymentChange(mode="releases", holdout_share=holdout))
    make_heuristic(project=project, status="approved")
    return project, cut_release(project, by=OPERATOR)


def make_experiment(*, plan: ExperimentPlan = PLAN, share: int = 500, **options: Any) -> Experiment:
    """Start an experiment with a canary of a share that nothing changes."""
    project, release = make_deployed()
    start_canary(project, release=release, share=share, by=OPERATOR)
    return start_experiment(project, plan=plan, by=OPERATOR, release=release, **options)


@dataclass(kw_only=True)
class Traffic:
    """Writes the rows of answers and their runs, each of a unit of its own, in the arm that a coin says."""

    experiment: Experiment
    base: float = 0.5
    lift: float = 0.0
    random: Random = field(default_factory=lambda: Random(7))
    outcome_source: str = "environment"
    lost: dict[str, float] = field(default_factory=dict)  # share of the runs of an arm that are never reported
    late: dict[str, float] = field(default_factory=dict)  # share that is reported after the look-back window

    def send(self, units: int, *, share: float | None = None, **run: Any) -> None:
        """Write the rows of some units; `share` is the splitter's, which may be broken."""
        deployment = Deployment.objects.get(project=self.experiment.project_id)
        share = deployment.canary_share / 1000 if share is None else share
        answers, runs = [], []
        for _ in range(units):
            arm = "candidate" if self.random.random() < share else "stable"
            answer = self._answer(arm, deployment)
            answers.append(answer)
            if self.random.random() >= self.lost.get(arm, 0):
                runs.append(self._run(answer, arm, run))
        Retrieval.objects.bulk_create(answers)
        Trajectory.objects.bulk_create(runs)

    def _answer(self, arm: str, deployment: Deployment) -> Retrieval:
        return Retrieval(
            id=uuid7(),
            project_id=self.experiment.project_id,
            task="Cancel a reservation",
            task_id="airline.cancel",
            mode="hybrid",
            top_k=5,
            budget_tokens=1000,
            arm=arm,
            release_id=deployment.candidate_id if arm == "candidate" else deployment.stable_id,
            unit=f"session:{next(_numbers)}",
            deployment_version=deployment.version,
            created_at=timezone.now(),
        )

    def _run(self, answer: Retrieval, arm: str, run: dict[str, Any]) -> Trajectory:
        is_late = self.random.random() < self.late.get(arm, 0)
        window = timedelta(seconds=self.experiment.look_back_seconds)
        rate = self.base + self.lift * (arm == "candidate")
        values: dict[str, Any] = {
            "project_id": self.experiment.project_id,
            "retrieval": answer,
            "task": answer.task,
            "task_id": answer.task_id,
            "outcome": "success" if self.random.random() < rate else "failure",
            "outcome_source": self.outcome_source,
            "outcome_at": answer.created_at + 2 * window if is_late else answer.created_at,
        }
        return Trajectory(**values | run)


def make_held_out(*, units: int, base: float, lift: float) -> Experiment:
    """Compare the lessons with a hold-out that a fifth of the units are in."""
    project, _ = make_deployed(holdout=200)
    experiment = start_experiment(project, plan=PLAN, by=OPERATOR)
    traffic = Traffic(experiment=experiment, base=base)
    traffic.send(units // 5, share=0)
    Retrieval.objects.update(arm="holdout")
    replace(traffic, base=base + lift).send(units - units // 5, share=0)
    return experiment
