"""The pages of evolutions, and that what they show stays as it was."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from evaluation.models import Evolution
from memory.projects.models import Project
from runtime.models.changes import EvaluationRow
from tests.evaluation.evolution_rows import MEASURED, store_evolution
from tests.factories import make_member, make_project
from tests.runtime.changing import make_change
from tests.runtime.running import make_agent

pytestmark = pytest.mark.django_db
LIST = "admin:evaluation_evolution_changelist"
HOSTILE = "<script>alert(1)</script>"


def log_in(project: Project, *, permissions: tuple[str, ...] = ("view_evolution",)) -> Client:
    client = Client()
    client.force_login(make_member("ana", project=project, role="auditor", permissions=permissions))
    return client


def address(evolution: Evolution) -> str:
    return reverse("admin:evaluation_evolution_change", args=[evolution.pk])


def read(client: Client, evolution: Evolution) -> str:
    response = client.get(address(evolution))
    assert response.status_code == 200
    return response.content.decode()


def test_page_says_what_was_gained_and_draws_every_candidate(admin_client: Client) -> None:
    page = read(admin_client, store_evolution())

    gained = "Candidate 1 takes 1,015 fewer tokens per task (3.0%, interval 338 to 1,712) on 60 tasks"
    assert gained in page
    assert page.count("<title>Candidate ") == 4
    assert "<title>Candidate 2: stopped by read_then_pay</title>" in page
    assert "<title>Candidate 3: 435 tokens per task, look 3, stopped by regression</title>" in page


@pytest.mark.parametrize(
    ("tokens", "success", "said"),
    [
        ({"low": -40, "high": 30}, {}, "No gain is certain"),
        ({}, {"mean": -0.1, "low": -0.2, "high": -0.05}, "Candidate 1 does harm"),
        ({"mean": 200, "low": 100, "high": 300}, {}, "takes 200 more tokens per task"),
    ],
)
def test_sentence_claims_no_more_than_was_measured(
    tokens: dict[str, Any], success: dict[str, Any], said: str, admin_client: Client
) -> None:
    measured = MEASURED | {"tokens": MEASURED["tokens"] | tokens, "success": MEASURED["success"] | success}  # type: ignore[operator]

    assert said in read(admin_client, store_evolution(measured=measured))


def test_evolution_in_which_nothing_passed_says_so(admin_client: Client) -> None:
    assert "Nothing was gained" in read(admin_client, store_evolution(gains=False))


def test_member_reads_the_evolutions_of_a_project_and_no_others() -> None:
    change = make_change(make_project(), step="check")
    own = store_evolution(agent=change.agent, change=change)
    other, demo = store_evolution(agent=make_agent()), store_evolution()
    client = log_in(change.project)

    page = client.get(reverse(LIST)).content.decode()

    assert (page.count("Candidate 1 takes"), f"{change.agent.name} on" in page) == (1, True)
    assert reverse("admin:agents_change_change", args=[change.pk]) in read(client, own)
    assert {client.get(address(each)).status_code for each in (other, demo)} == {302}  # to the start, which says so


def test_evolutions_are_shown_with_the_permission_alone() -> None:
    agent = make_agent()
    evolution = store_evolution(agent=agent)

    assert log_in(agent.project, permissions=("view_agent",)).get(address(evolution)).status_code == 403


def test_texts_of_an_evolution_are_escaped(admin_client: Client) -> None:
    evolution = store_evolution(text=HOSTILE)

    page = read(admin_client, evolution) + admin_client.get(reverse(LIST)).content.decode()

    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page


def test_list_asks_as_often_for_many_as_for_one(admin_client: Client) -> None:
    store_evolution()
    admin_client.get(reverse(LIST))
    with CaptureQueriesContext(connection) as one:
        admin_client.get(reverse(LIST))
    store_evolution(agent=make_agent())
    store_evolution()
    with CaptureQueriesContext(connection) as many:
        admin_client.get(reverse(LIST))

    assert len(many) == len(one)


@pytest.mark.parametrize("kind", ["evolution", "candidate"])
def test_what_an_evolution_found_stays(kind: str) -> None:
    store_evolution()
    rows = EvaluationRow.objects.filter(kind=kind)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        rows.update(said="other")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        rows._raw_delete(rows.db)


def test_nothing_can_be_changed(admin_client: Client) -> None:
    evolution = store_evolution()

    assert admin_client.post(address(evolution), {"suite": "other"}).status_code == 403
    deleting = reverse("admin:evaluation_evolution_delete", args=[evolution.pk])
    assert admin_client.post(deleting, {"post": "yes"}).status_code == 403
