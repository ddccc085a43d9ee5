"""Lessons in use with which runs succeed less often: found, shown in the inbox, kept or retired."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.effects.comparison import LessonEffect
from memory.effects.harm import note_harmful_lessons
from memory.effects.interval import Share
from memory.heuristics.models import Heuristic, Review
from memory.projects.models import Project
from tests.factories import make_heuristic, make_project, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db
INBOX = reverse("admin:inbox")


def record_runs(lesson: Heuristic, *, failures: int, successes: int) -> None:
    """Record runs that were given the lesson and failed, and others that succeeded without it."""
    given = make_retrieval(project=lesson.project, heuristic_ids=[lesson.pk])
    for _ in range(failures):
        make_trajectory(project=lesson.project, retrieval=given, task_id="bags", outcome="failure")
    for _ in range(successes):
        make_trajectory(project=lesson.project, task_id="bags", outcome="success", score=1)


@pytest.fixture
def harmful() -> Heuristic:
    lesson = make_heuristic(project=make_project(), status="approved", trigger="A bag is lost")
    record_runs(lesson, failures=5, successes=5)
    assert note_harmful_lessons() == 1
    return lesson


def decide(client: Client, lesson: Heuristic, decision: str, **values: str) -> None:
    assert lesson.current_revision is not None
    lesson.refresh_from_db()
    sent = {"decision": decision, "content_sha256": lesson.current_revision.content_sha256, **values}
    client.post(reverse("admin:inbox_item", args=["harmful", lesson.pk]), sent)


def test_interval_of_a_difference_is_that_of_newcombe() -> None:
    """The first example of the paper: 56 of 70 against 48 of 80, with an interval from 0.0524 to 0.3339."""
    pk = make_heuristic().pk
    effect = LessonEffect(heuristic_id=pk, given=Share(successes=56, known=70), without=Share(successes=48, known=80))

    assert effect.interval == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_harmful_lesson_waits_with_its_interval(reviewer: Client, harmful: Heuristic) -> None:
    html = reviewer.get(INBOX).content.decode()

    assert 'data-kind="harmful"' in html
    assert '<p class="empty" hidden>' in html  # the lesson itself waits for no decision, but the list is not empty
    assert "−100 points (−" in html
    assert "Runs that were given this lesson succeed less often" in html
    assert 'value="keep"' in html


def test_few_runs_prove_no_harm() -> None:
    lesson = make_heuristic(status="approved")
    record_runs(lesson, failures=1, successes=1)

    assert note_harmful_lessons() == 0


def test_lesson_that_is_kept_is_left_alone_for_a_while(reviewer: Client, harmful: Heuristic) -> None:
    decide(reviewer, harmful, "keep")

    assert Review.objects.get().decision == "keep"
    assert note_harmful_lessons() == 0
    assert "A bag is lost" not in reviewer.get(INBOX).content.decode()


def test_retired_lesson_leaves_the_inbox(reviewer: Client, harmful: Heuristic) -> None:
    decide(reviewer, harmful, "retire", reason_code="Wrong")

    harmful.refresh_from_db()
    assert harmful.status == "retired"
    assert "A bag is lost" not in reviewer.get(INBOX).content.decode()


def test_harm_that_is_over_is_forgotten(harmful: Heuristic, project: Project) -> None:
    record_runs(harmful, failures=0, successes=0)
    harmful.project.trajectories.update(created_at=timezone.now() - timedelta(days=91))

    note_harmful_lessons()

    harmful.refresh_from_db()
    assert harmful.harm is None
