"""Insights: trends with their intervals, families without a lesson, and the effect of each lesson."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from desk.pages.trends import EndedRuns, Period, average
from desk.shell.plots import Series, draw_plot
from memory.curation.decisions import reject_heuristic
from memory.effects.interval import Share
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from tests.factories import (
    approve_as_read,
    make_heuristic,
    make_member,
    make_project,
    make_retrieval,
    make_trajectory,
)
from tests.memory.effect_rows import record_observed

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")
PAGES = ("insights", "coverage", "lessons")


def said(client: Client, days: int = 30) -> dict[str, str]:
    shown = client.get(reverse("admin:insights"), {"days": days})
    return {plot.title: plot.summary for plot in shown.context["plots"]}


def move(run: Trajectory, days: int) -> None:
    Trajectory.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(days=days))


# ── Trends ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("successes", "known", "text"),
    [(0, 0, "–"), (1, 1, "100% (21–100%, 1 run)"), (8, 10, "80% (49–94%, 10 runs)"), (0, 10, "0% (0–28%, 10 runs)")],
)
def test_share_is_told_with_the_interval_of_wilson(successes: int, known: int, text: str) -> None:
    assert str(Share(successes=successes, known=known)) == text


def test_scores_are_averaged_over_seven_days() -> None:
    days = [EndedRuns(runs=1, successes=number % 2, failures=1 - number % 2) for number in range(14)]

    shares = average(days)

    assert [round(share.rate or 0, 2) for share in shares[6:] if share] == [0.43, 0.57] * 4


def test_day_without_a_known_end_breaks_no_average() -> None:
    days = [EndedRuns()] * 8 + [EndedRuns(runs=2, successes=1, failures=1)]

    assert [share.rate if share else None for share in average(days)] == [None] * 8 + [0.5]


def test_line_breaks_where_days_have_no_value() -> None:
    series = [Series(label="a", style="first", values=[1.0, None, 0.5, 0.5])]

    plot = draw_plot("A", series, days=Period.last(4).days, summary="", is_share=True)

    assert len(plot.lines[0]["parts"]) == 2


def test_insights_tell_runs_decisions_and_what_waits(admin_client: Client) -> None:
    project = make_project()
    given = make_retrieval(project=project, heuristic_ids=[make_heuristic(project=project).pk])
    make_trajectory(project=project, retrieval=given, outcome="success", score=1)
    move(make_trajectory(project=project, outcome="failure"), 20)
    approve_as_read(make_heuristic(project=project), by=ANA)
    reject_heuristic(make_heuristic(project=project), by=ANA, reason="no")

    shown, week = said(admin_client), said(admin_client, days=7)

    assert shown["Runs per day"] == "2 runs in 30 days."
    assert week["Runs per day"] == "1 run in 7 days."
    assert shown["Success, 7-day average"] == "With lessons 100% (21–100%, 1 run); without 0% (0–79%, 1 run)."
    assert shown["Decisions per day"] == "2 decisions, 1 approved."
    assert shown["Waiting for a first decision"] == "Now 1; 29 days ago 0."


def test_lesson_that_waited_until_today_is_counted_on_the_days_before(admin_client: Client) -> None:
    heuristic = make_heuristic()
    Heuristic.objects.update(created_at=timezone.now() - timedelta(days=100))
    approve_as_read(heuristic, by=ANA)

    assert said(admin_client)["Waiting for a first decision"] == "Now 0; 29 days ago 1."


def test_insights_of_the_chosen_project_leave_others_out(admin_client: Client) -> None:
    project = make_project()
    make_trajectory(project=project)
    make_trajectory(project=make_project())

    admin_client.post(reverse("admin:choose_project"), {"project": project.pk})

    assert said(admin_client)["Runs per day"] == "1 run in 30 days."


# ── Gaps ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_families_that_fail_without_a_lesson_come_first(admin_client: Client) -> None:
    project = make_project()
    for family, failures in (("refunds", 1), ("bags", 3), ("seats", 2)):
        for _ in range(failures):
            make_trajectory(project=project, task_id=family, outcome="failure")
    approve_as_read(make_heuristic(project=project, task_id="seats"), by=ANA)

    shown = admin_client.get(reverse("admin:coverage")).context

    assert [(family["name"], family["failures"]) for family in shown["gaps"]] == [("bags", 3), ("refunds", 1)]
    assert [(family["name"], family["lessons"]) for family in shown["covered"]] == [("seats", 1)]
    assert admin_client.get(shown["gaps"][0]["link"]).context["cl"].result_count == 3


# ── Effect ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_effect_compares_runs_of_the_same_task(admin_client: Client) -> None:
    lesson = make_heuristic(project=make_project(), trigger="good")
    record_observed(lesson, "Show an order", given=(30, 10), without=(20, 20))
    record_observed(lesson, "Refund an order", given=(0, 0), without=(0, 90))

    (row,) = admin_client.get(reverse("admin:lessons")).context["rows"]

    assert row.difference.startswith("+25 points (")
    assert row.basis == "Association: 40 against 40 runs of the same tasks"
    assert not row.is_sure


@pytest.mark.parametrize("sort", ["runs", "-runs", "with", "difference", "nonsense"])
def test_effect_is_sorted_by_any_column(admin_client: Client, sort: str) -> None:
    project = make_project()
    one, two = make_heuristic(project=project), make_heuristic(project=project)
    for ids in ([one.pk], [one.pk, two.pk]):
        make_trajectory(
            project=project, retrieval=make_retrieval(project=project, heuristic_ids=ids), outcome="failure"
        )

    rows = admin_client.get(reverse("admin:lessons"), {"sort": sort}).context["rows"]

    assert len(rows) == 2
    assert sort.removeprefix("-") != "runs" or [row.effect.given.known for row in rows] == (
        [1, 2] if sort == "runs" else [2, 1]
    )


# ── Who may ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_insights_show_nothing_of_other_projects(client: Client) -> None:
    theirs = make_project()
    given = make_retrieval(project=theirs, heuristic_ids=[make_heuristic(project=theirs).pk])
    make_trajectory(project=theirs, retrieval=given, task_id="secret", outcome="failure")
    permissions = ["view_trajectory", "view_heuristic", "view_review"]
    client.force_login(make_member(project=make_project(), permissions=permissions))

    pages = [client.get(reverse(f"admin:{name}")) for name in PAGES]

    assert [page.status_code for page in pages] == [200, 200, 200]
    assert [page for page in pages if b"secret" in page.content] == []
    assert said(client)["Runs per day"] == "0 runs in 30 days."


@pytest.mark.parametrize("name", ["coverage", "lessons"])
def test_person_without_the_permission_is_refused(client: Client, name: str) -> None:
    client.force_login(make_member(project=make_project(), permissions=[]))

    assert client.get(reverse(f"admin:{name}")).status_code == 403
