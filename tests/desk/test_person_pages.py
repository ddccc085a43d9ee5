"""A person and Retention: found, given out, erased; the dry run of a project's periods."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.models import Erasure
from tests.factories import make_member, make_project, make_trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    project = make_project(name="Shop", run_retention_days=30)
    make_trajectory(
        project=project, task="Write to Ana", user_id="c-17", created_at=timezone.now() - timedelta(days=40)
    )
    make_trajectory(project=project, task="Write to Bob")
    return project


@pytest.fixture
def operator(project: Project, client: Client) -> Client:
    permissions = ("erase_person", "view_project", "change_project", "view_erasure", "view_trajectory")
    client.force_login(make_member("olga", project=project, role="operator", permissions=permissions))
    return client


def ask(client: Client, **form: str) -> str:
    return client.post(reverse("admin:person"), {"user_id": "c-17", **form}, follow=True).content.decode()


def test_operator_sees_what_is_about_a_person(operator: Client) -> None:
    page = ask(operator, do="find")

    assert "Write to Ana" in page
    assert "Write to Bob" not in page


def test_person_is_erased_only_with_the_box_ticked(operator: Client) -> None:
    unticked = ask(operator, do="erase")
    before = Trajectory.objects.count()
    ask(operator, do="erase", confirmed="yes")

    assert "Tick this box first." in unticked
    assert (before, Trajectory.objects.get().task) == (2, "Write to Bob")
    assert Erasure.objects.filter(receipt__isnull=False, erased_by="user:olga").exists()


def test_export_is_a_file_of_json_lines(operator: Client) -> None:
    answer = operator.post(reverse("admin:person"), {"user_id": "c-17", "do": "export"})

    assert answer["Content-Disposition"] == 'attachment; filename="person.jsonl"'
    assert b"Write to Ana" in b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def test_reviewer_may_not_look_for_a_person(project: Project, client: Client) -> None:
    client.force_login(make_member("rae", project=project))

    assert client.get(reverse("admin:person")).status_code == 403


def test_operator_of_another_project_may_not_either(project: Project, client: Client) -> None:
    member = make_member("rae", project=project, permissions=("erase_person",))
    client.force_login(member)

    assert client.get(reverse("admin:person")).status_code == 403


def test_retention_page_is_a_dry_run(operator: Client) -> None:
    page = operator.get(reverse("admin:retention"))

    counts = {row.period.label: (row.days, row.count) for row in page.context["tables"][0].rows}
    assert counts["runs"] == (30, 1)
    assert counts["answers that no run refers to"] == (180, 0)
    assert Trajectory.objects.count() == 2


def test_search_says_what_tells_runs_apart(operator: Client) -> None:
    page = operator.get(reverse("admin:search"), {"q": "write ana"}).content.decode()

    assert "failure · agent · 2 steps · user c-17" in page
