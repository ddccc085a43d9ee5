"""Answers without a run are deleted after a time, and what lessons did stays known."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from erl_site.tasks import EVERY_HOUR
from memory.effects.models import HeuristicFeedback
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.trust.retention import delete_old_answers
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db


def make_answer(project: Project, *, days: int) -> Retrieval:
    made = timezone.now() - timedelta(days=days)
    return Retrieval.objects.create(project=project, task="t", mode="hybrid", top_k=1, budget_tokens=1, created_at=made)


def test_old_answers_go_and_the_others_stay() -> None:
    project = make_project()
    make_answer(project, days=180 + 31)
    new = make_answer(project, days=180)

    assert delete_old_answers() == 1
    assert list(Retrieval.objects.all()) == [new]


def test_answers_that_are_evidence_stay() -> None:
    lesson = make_heuristic()
    with_run, with_feedback = (make_answer(lesson.project, days=999) for _ in range(2))
    make_trajectory(project=lesson.project, retrieval=with_run)
    HeuristicFeedback.objects.create(
        project=lesson.project, heuristic=lesson, retrieval=with_feedback, verdict="followed", client="agent"
    )

    assert delete_old_answers() == 0
    assert set(Retrieval.objects.all()) == {with_run, with_feedback}


def test_many_are_deleted_in_batches() -> None:
    project = make_project()
    for _ in range(5):
        make_answer(project, days=999)

    assert delete_old_answers(batch_size=2) == 5
    assert not Retrieval.objects.exists()


def test_without_a_time_all_are_kept(settings: Any) -> None:
    settings.ERL_RETENTION_DAYS = 0
    make_answer(make_project(), days=9999)

    assert delete_old_answers() == 0


def test_it_is_part_of_the_periodic_work() -> None:
    assert delete_old_answers in EVERY_HOUR
