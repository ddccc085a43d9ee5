"""The whole loop without a language model: runs, reflection, approval by a policy, retrieval, better runs."""

import pytest

from evaluation.arms import EVALUATION
from evaluation.environments.base import Task
from evaluation.environments.clerk import Clerk
from evaluation.suites.loop.store import Learner, LearningCounts, approve_all
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.review.models import Review
from tests.factories import make_project

pytestmark = pytest.mark.django_db

FAMILY = "refund"


def count_solved(project: Project, tasks: list[Task]) -> int:
    """Return how many tasks the clerk solves with the lessons that the project serves."""
    blocks = [
        retrieve(Question(project=project, task=task.text, task_id=task.family, record=False, by=EVALUATION)).context
        for task in tasks
    ]
    return sum(Clerk().run(task, lessons=block, trial=0).success for task, block in zip(tasks, blocks, strict=True))


def test_lessons_from_failed_runs_solve_new_tasks_once_they_are_approved() -> None:
    clerk, project = Clerk(), make_project()
    old, new = ([task for task in clerk.tasks(split, seed=0) if task.family == FAMILY] for split in ("source", "test"))
    runs = [(task, clerk.run(task, lessons="", trial=0)) for task in old]

    Learner(agent="clerk", make_reflector=None).learn(project, runs, LearningCounts())
    before = count_solved(project, new)
    approve_all(project)
    embed_heuristics(list(Heuristic.objects.values_list("pk", flat=True)))

    assert set(Review.objects.values_list("decision", "reviewer")) == {("approve", "policy:evaluation")}
    after = count_solved(project, new)
    assert after >= before + 3, (before, after, len(new))
