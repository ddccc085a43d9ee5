"""Evaluations in the admin: start one, see how far it is, compare two."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import EvaluationRun
from memory.projects.models import Project
from reflection.jobs.models import Job
from tests.factories import make_member, make_project

pytestmark = pytest.mark.django_db

START = "/admin/evaluation/evaluationrun/add/"
ASKED = {"suites": ["toolchoice"], "limit": 10, "experience": 10, "k": 3, "seeds": 2}


def log_in(project: Project, *, role: str = "operator") -> Client:
    client = Client()
    client.force_login(make_member(project=project, role=role, permissions=["view_evaluationrun", "add_evaluationrun"]))
    return client


def finish(success: float, *, project: Project) -> EvaluationRun:
    suite: dict[str, Any] = {
        "name": "toolchoice",
        "tasks": ["a", "b"],
        "per_task": {"hybrid": [success, success]},
        "arms": [
            {
                "arm": "hybrid",
                "success": {"mean": success, "low": success, "high": success, "n": 2},
                "uplift": {"n": 0},
            }
        ],
    }
    return EvaluationRun.objects.create(
        project=project,
        suites=["toolchoice"],
        status="finished",
        results={"suites": [suite]},
        finished_at=timezone.now(),
    )


def test_operator_starts_an_evaluation() -> None:
    project = make_project()
    client = log_in(project)

    answer = client.post(START, ASKED | {"project": project.pk}, follow=True)

    run = EvaluationRun.objects.get()
    assert (run.status, run.project, run.configuration["seeds"]) == ("queued", project, 2)
    assert run.requested_by == "user:ana"
    assert Job.objects.filter(evaluation=run, kind="evaluation").exists()
    html = answer.content.decode()
    assert "It waits for a worker." in html
    assert 'hx-trigger="every 3s"' in html


def test_running_evaluation_says_how_far_it_is() -> None:
    project = make_project()
    client = log_in(project)
    client.post(START, ASKED | {"project": project.pk})
    EvaluationRun.objects.update(status="running", units={"toolchoice": {"0": {}}})

    page = client.get(reverse("admin:evaluation_evaluationrun_change", args=[EvaluationRun.objects.get().pk]))
    listed = client.get(reverse("admin:evaluation_evaluationrun_changelist"))

    assert b"1 of 2 parts are done" in page.content
    assert b"1 of 2 parts" in listed.content


def test_second_start_leads_to_the_one_that_is_queued() -> None:
    project = make_project()
    client = log_in(project)

    first, second = (client.post(START, ASKED | {"project": project.pk}).headers["Location"] for _ in range(2))

    assert first == second
    assert EvaluationRun.objects.count() == 1


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"suites": []}, {"suites": ["live"]}, {"project": ""}])
def test_form_refuses_what_cannot_be_measured(wrong: dict[str, Any]) -> None:
    project = make_project()

    answer = log_in(project).post(START, ASKED | {"project": project.pk} | wrong)

    assert answer.status_code == 200
    assert not EvaluationRun.objects.exists()


def test_others_start_none() -> None:
    project, other = make_project(), make_project()
    client = log_in(project)

    assert client.post(START, ASKED | {"project": other.pk}).status_code == 200
    client.force_login(make_member("ben", project=project, role="auditor", permissions=["add_evaluationrun"]))
    assert client.post(START, ASKED | {"project": project.pk}).status_code == 403
    assert not EvaluationRun.objects.exists()


def test_two_evaluations_are_compared_arm_by_arm() -> None:
    project = make_project()
    client = log_in(project)
    runs = [finish(0.5, project=project), finish(0.75, project=project)]
    selected = {"action": "compare_selected", "_selected_action": [run.pk for run in runs]}

    answer = client.post(reverse("admin:evaluation_evaluationrun_changelist"), selected, follow=True)

    arm = answer.context["suites"][0].arms[0]
    assert (arm.before, arm.after, arm.difference) == (
        "0.500 [0.500, 0.500]",
        "0.750 [0.750, 0.750]",
        "+0.250 [+0.250, +0.250]",
    )


def test_one_evaluation_is_not_compared() -> None:
    project = make_project()
    selected = {"action": "compare_selected", "_selected_action": [finish(0.5, project=project).pk]}

    answer = log_in(project).post(reverse("admin:evaluation_evaluationrun_changelist"), selected, follow=True)

    assert b"Select two evaluations to compare." in answer.content


def test_evaluation_of_others_is_not_compared() -> None:
    project = make_project()
    mine, theirs = finish(0.5, project=project), finish(0.75, project=make_project())

    answer = log_in(project).get(
        reverse("admin:evaluation_evaluationrun_compare"),
        {"before": str(mine.pk), "after": str(theirs.pk)},
        follow=True,
    )

    assert b"Select two evaluations to compare." in answer.content
