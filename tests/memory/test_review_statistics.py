"""How the reviewers decide, counted."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.curation.decisions import reject_heuristic, retire_heuristic
from memory.curation.review_statistics import (
    count_reviewers,
    count_weeks,
    find_disagreements,
    find_regrets,
    median_seconds,
)
from memory.curation.undo import undo_review
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.review.models import Review
from tests.factories import approve_as_read, make_heuristic, make_member, make_project

pytestmark = pytest.mark.django_db

ANA, BEN = Actor(label="user:ana"), Actor(label="user:ben")
PAGE = "/admin/memory/review/statistics/"


def say(heuristic: Heuristic, decision: str, by: Actor, **fields: Any) -> Review:
    """Record a decision as it would have been, at any time."""
    revision = heuristic.current_revision
    assert revision is not None
    return Review.objects.create(
        project=heuristic.project,
        kind="lesson",
        heuristic=heuristic,
        revision=revision,
        decision=decision,
        content_sha256=revision.content_sha256,
        reviewer=by.label,
        **fields,
    )


def test_agreement_compares_decisions_on_the_same_words() -> None:
    project = make_project()
    alike, apart, alone = (make_heuristic(project=project) for _ in range(3))
    say(alike, "first_approval", ANA)
    say(alike, "approve", BEN)
    say(apart, "first_approval", ANA)
    say(apart, "reject", BEN)
    say(alone, "approve", ANA)

    rows = {row.reviewer: row for row in count_reviewers(Review.objects.all())}

    assert (rows["user:ana"].agreed, rows["user:ana"].compared) == (1, 2)
    assert rows["user:ben"].agreement_percent == 50
    (found,) = find_disagreements(Review.objects.all())
    assert (found.heuristic, found.approved_by, found.refused_by) == (apart, "user:ana", "user:ben")


def test_regret_is_an_approval_that_was_taken_back() -> None:
    project = make_project()
    kept, taken = make_heuristic(project=project), make_heuristic(project=project)
    approve_as_read(kept, by=ANA)
    approve_as_read(taken, by=ANA)
    retire_heuristic(taken, by=BEN, reason="Policy changed.")

    (ana,) = [row for row in count_reviewers(Review.objects.all()) if row.reviewer == "user:ana"]
    (regret,) = find_regrets(Review.objects.all())

    assert (ana.approved, ana.regretted, ana.regret_percent) == (2, 1, 50)
    assert (regret.heuristic, regret.withdrawn_by, regret.reason) == (taken, "user:ben", "Policy changed.")


def test_what_was_undone_does_not_count() -> None:
    heuristic = make_heuristic()
    approve_as_read(heuristic, by=ANA, seconds_on_screen=3)
    undo_review(Review.objects.get(), by=ANA)
    heuristic.refresh_from_db()
    reject_heuristic(heuristic, by=ANA, seconds_on_screen=9)

    (row,) = count_reviewers(Review.objects.all())

    assert (row.decisions, row.approved, row.median_seconds) == (1, 0, 9)


def test_withdrawal_that_was_undone_is_no_regret_and_leaves_the_approval_counted() -> None:
    heuristic = make_heuristic()
    approve_as_read(heuristic, by=ANA)
    retire_heuristic(heuristic, by=ANA, reason="A slip.")
    undo_review(Review.objects.get(decision="retire"), by=ANA)

    (row,) = count_reviewers(Review.objects.all())

    assert (row.decisions, row.approved, row.regretted) == (1, 1, 0)
    assert find_regrets(Review.objects.all()) == []


def test_median_and_weeks() -> None:
    project = make_project()
    now = timezone.now()
    for seconds, days in ((2, 0), (4, 0), (90, 0), (5, 8)):
        heuristic = make_heuristic(project=project)
        say(heuristic, "approve", ANA, seconds_on_screen=seconds, created_at=now - timedelta(days=days))

    assert median_seconds(Review.objects.all()) == 4.5
    weeks = count_weeks(Review.objects.all(), start=now - timedelta(days=60))
    assert sorted(weeks.values()) in ([(1, 0), (3, 0)], [(1, 0), (1, 0), (2, 0)])


def test_every_number_on_the_page_leads_to_as_many_rows(client: Client) -> None:
    client.force_login(get_user_model().objects.create_superuser("root"))
    project = make_project()
    for _ in range(3):
        approve_as_read(make_heuristic(project=project), by=ANA)
    reject_heuristic(make_heuristic(project=project), by=BEN)
    retire_heuristic(Heuristic.objects.filter(status="approved").latest("created_at"), by=BEN)

    context = client.get(PAGE).context

    counts = {
        name: client.get(context[name]).context["cl"].result_count
        for name in ("reviews_url", "approved_url", "regret_url")
    }
    assert counts == {"reviews_url": 5, "approved_url": 3, "regret_url": 1}
    assert (context["decided"], context["approved"], context["regretted"]) == (5, 3, 1)


def test_page_of_an_empty_project_and_of_a_strange_period(client: Client) -> None:
    client.force_login(get_user_model().objects.create_superuser("root"))

    page = client.get(PAGE, {"days": "x"})

    assert "No decisions in these 90 days." in page.content.decode()


def test_other_projects_and_those_without_the_permission_see_nothing(client: Client) -> None:
    mine = make_project()
    approve_as_read(make_heuristic(project=make_project()), by=ANA)
    client.force_login(make_member("eve", project=mine, permissions=["view_review"]))

    assert client.get(PAGE).context["decided"] == 0
    client.force_login(make_member("max", project=mine, permissions=["view_heuristic"]))
    assert client.get(PAGE).status_code == 403


def test_number_of_queries_does_not_grow(client: Client) -> None:
    client.force_login(get_user_model().objects.create_superuser("root"))

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(PAGE)
        return len(queries)

    def fill(rounds: int) -> None:
        for _ in range(rounds):
            heuristic = make_heuristic()
            say(heuristic, "first_approval", BEN)
            approve_as_read(heuristic, by=ANA)
            retire_heuristic(heuristic, by=BEN)

    fill(1)
    count()  # fills caches
    before = count()
    fill(4)

    assert count() == before
