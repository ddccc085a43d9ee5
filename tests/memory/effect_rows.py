"""Rows as live traffic leaves them where a hold-out decides who is given a lesson, and where nothing does."""

from typing import Any

from django.utils import timezone

from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.actors import Actor
from memory.releases.deployments import DeploymentChange, change_deployment
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.factories import make_heuristic, make_project, make_retrieval

BY = Actor(label="user:ana")


def make_lesson(**text: Any) -> Heuristic:
    """Make a lesson in use, in a project with a hold-out of a fifth."""
    lesson = make_heuristic(**{"project": make_project(), "status": "approved", **text})
    change_deployment(lesson.project, by=BY, change=DeploymentChange(holdout_share=200))
    return lesson


def record_units(lesson: Heuristic, *, arm: str = "stable", family: str = "bags", **ends: int) -> None:
    """Record units of an arm, each with one run; in the hold-out the lesson is withheld. `ends` counts outcomes."""
    ids = {"considered_ids" if arm == "holdout" else "injected_ids": [lesson.pk]}
    outcomes = [outcome for outcome, count in ends.items() for _ in range(count)]
    answers = [
        Retrieval(
            project=lesson.project,
            task=f"Task {number}",
            task_id=family,
            mode="hybrid",
            top_k=5,
            budget_tokens=1000,
            arm=arm,
            unit=f"session:{uuid7()}",
            deployment_version=1,
            created_at=timezone.now(),
            **ids,
        )
        for number in range(len(outcomes))
    ]
    Retrieval.objects.bulk_create(answers)
    Trajectory.objects.bulk_create(
        Trajectory(
            project=lesson.project,
            task=answer.task,
            task_id=family,
            retrieval=answer,
            outcome=outcome,
            outcome_source="test",
        )
        for answer, outcome in zip(answers, outcomes, strict=True)
        if outcome != "pending"
    )


def record_observed(lesson: Heuristic, task: str, *, given: tuple[int, int], without: tuple[int, int]) -> None:
    """Record runs of a task with and without a lesson where nothing was drawn: (successes, failures)."""
    answer = make_retrieval(project=lesson.project, heuristic_ids=[lesson.pk])
    for retrieval, (good, bad) in ((answer, given), (None, without)):
        Trajectory.objects.bulk_create(
            Trajectory(
                project=lesson.project,
                task=task,
                task_id="shop",
                retrieval=retrieval,
                outcome="success" if number < good else "failure",
                outcome_source="environment",
            )
            for number in range(good + bad)
        )
