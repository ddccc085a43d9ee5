"""The numbers on the admin's first page."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from memory.curation.decisions import reject_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from tests.factories import (
    approve_as_read,
    make_heuristic,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


def home(client: Client) -> str:
    response = client.get("/admin/")
    assert response.status_code == 200
    return response.content.decode()


def figures(client: Client) -> dict[str, str]:
    shown = client.get("/admin/").context["figures"]
    return {figure.label: figure.value for figure in shown}


def test_empty_dashboard_shows_no_division_by_nothing(admin: Client) -> None:
    shown = figures(admin)

    assert (shown["waiting for review"], shown["longest wait"], shown["approved"]) == ("0", "none", "–")


def test_dashboard_counts_the_queue_and_the_decisions(admin: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    approve_as_read(make_heuristic(project=project), by=ANA, seconds_on_screen=8)
    reject_heuristic(make_heuristic(project=project), by=ANA, reason="no", seconds_on_screen=4)

    shown = figures(admin)

    assert (shown["waiting for review"], shown["decisions, 7 days"]) == ("1", "2")
    assert (shown["approved"], shown["time to decide"]) == ("50%", "6 s")
    assert "user:ana" in home(admin)


def test_dashboard_marks_a_proposal_that_waits_for_long(admin: Client) -> None:
    heuristic = make_heuristic()
    Heuristic.objects.filter(pk=heuristic.pk).update(created_at=timezone.now() - timedelta(days=9))

    assert 'class="alarming"' in home(admin)


def test_dashboard_counts_failed_reflections(admin: Client) -> None:
    make_reflection(status="dead")

    assert figures(admin)["reflections failed"] == "1"


def test_charts_draw_runs_and_answers_by_week(admin: Client) -> None:
    project = make_project()
    make_trajectory(project=project, outcome="success", score=1)
    make_trajectory(project=project)
    make_retrieval(project=project)

    runs, answers, guided = admin.get("/admin/").context["charts"]

    assert (runs.bars[-1].first, runs.bars[-1].second, runs.bars[-1].first_height) == (1, 1, 50)
    assert (answers.bars[-1].first, answers.bars[-1].second) == (0, 1)
    assert guided.highest == 0


def test_lessons_given_and_how_their_runs_ended_are_counted(admin: Client) -> None:
    project = make_project()
    given = make_retrieval(project=project, heuristic_ids=[make_heuristic(project=project).pk] * 2)
    make_trajectory(project=project, retrieval=given, outcome="success", score=1)
    make_trajectory(project=project, retrieval=given, outcome="failure")
    make_trajectory(project=project, outcome="unknown", score=None)

    shown = figures(admin)
    link = next(
        figure.link for figure in admin.get("/admin/").context["figures"] if figure.label == "success rate with lessons"
    )

    assert (shown["lessons given, 7 days"], shown["success rate with lessons"]) == ("2", "50%")
    assert (shown["runs recorded, 7 days"], shown["succeeded"]) == ("3", "50%")
    assert admin.get(link).context["cl"].result_count == 2


def test_every_link_of_the_dashboard_opens_a_list(admin: Client) -> None:
    make_trajectory(project=make_project())
    context = admin.get("/admin/").context
    links = [figure.link for figure in context["figures"]] + [bar.link for bar in context["charts"][0].bars]

    answers = {link: admin.get(link).status_code for link in links}

    assert set(answers.values()) == {200}, answers


def test_dashboard_escapes_the_names_of_reviewers(admin: Client) -> None:
    name = "user:<img src=x onerror=alert(1)>"
    approve_as_read(make_heuristic(), by=Actor(label=name))

    html = home(admin)

    assert escape(name) in html
    assert name not in html


def test_dashboard_of_somebody_without_permissions_is_empty(client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    make_heuristic()

    assert figures(client) == {}


def test_oldest_wait_links_to_the_queue_with_the_oldest_first(admin: Client) -> None:
    project = make_project()
    oldest, _ = make_heuristic(project=project), make_heuristic(project=project)
    links = {figure.label: figure.link for figure in admin.get("/admin/").context["figures"]}

    assert admin.get(links["longest wait"]).context["cl"].result_list[0] == oldest
