"""POST and GET /api/v1/evaluate."""

import time
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from evaluation.models import EvaluationRun
from evaluation.requests import run_evaluation
from evaluation.runner import create_run, end_run
from evaluation.suites.base import Options
from memory.projects.models import Project
from reflection.jobs.execution import Outcome
from reflection.jobs.models import Job
from reflection.jobs.queue import claim
from tests.api.conftest import make_client
from tests.factories import bearer, make_api_key, make_project
from tests.stack import Stack, kill_workers

pytestmark = pytest.mark.slow

URL = "/api/v1/evaluate"


@pytest.fixture
def project(db: None) -> Project:
    return make_project()


@pytest.fixture
def api(project: Project) -> APIClient:
    return make_client(make_api_key(project=project).token)


def make_run(project: Project | None, *, status: str = "finished", suite: str = "replay") -> EvaluationRun:
    ended = timezone.now() if status in ("finished", "failed") else None
    job = None
    if project is not None and ended is None:
        job = Job.objects.create(kind="evaluation", project=project, subject=str(project.pk))
    return EvaluationRun.objects.create(
        project=project,
        job=job,
        status=status,
        suites=[suite],
        configuration={"suites": [suite]},
        finished_at=ended,
        results={"suites": [{"name": suite, "per_task": {"none": [1.0] * 1000}}]} if status == "finished" else {},
    )


def test_evaluation_is_queued_with_small_defaults_for_its_project(api: APIClient, project: Project) -> None:
    response = api.post(URL, {"suites": ["yours"], "seeds": 2})

    assert response.status_code == 202
    assert response["Location"] == URL
    run = EvaluationRun.objects.get(pk=response.json()["id"])
    assert (run.status, run.project) == ("queued", project)
    assert (run.configuration["limit"], run.configuration["seeds"]) == (120, 2)
    assert run.configuration["project"] == project.slug


def test_body_may_be_left_out(api: APIClient) -> None:
    response = api.post(URL)

    assert response.status_code == 202
    assert response.json()["suites"] == ["toolchoice", "replay"]


def test_second_request_returns_the_queued_evaluation(api: APIClient) -> None:
    first = api.post(URL, {"suites": ["replay"]}).json()
    second = api.post(URL, {"suites": ["toolchoice"]}).json()

    assert second["id"] == first["id"]
    assert EvaluationRun.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {"suites": ["live"]},
        {"suites": []},
        {"arms": ["best:5"]},
        {"arms": ["hybrid:999999999"]},
        {"seeds": 6},
        {"data": "/etc"},
        {"limit": "5"},
    ],
)
def test_invalid_options_are_refused(api: APIClient, body: dict[str, Any]) -> None:
    response = api.post(URL, body)

    assert response.status_code == 400
    assert not EvaluationRun.objects.exists()


def test_project_without_evaluations_gets_nulls(api: APIClient) -> None:
    assert api.get(URL).json() == {"running": None, "finished": None, "failed": None}


def test_newest_finished_and_running_evaluations_are_returned(api: APIClient, project: Project) -> None:
    make_run(project)
    newest = make_run(project)
    running = make_run(project, status="running")

    answer = api.get(URL).json()

    assert (answer["finished"]["id"], answer["running"]["id"]) == (str(newest.pk), str(running.pk))
    assert answer["finished"]["results"]["suites"] == [{"name": "replay"}]
    assert (answer["running"]["units_finished"], answer["running"]["units_total"]) == (0, 5)


def test_evaluation_of_another_project_is_hidden(api: APIClient) -> None:
    make_run(make_project())

    assert api.get(URL).json()["finished"] is None


def test_evaluation_by_the_operator_is_visible(api: APIClient) -> None:
    run = make_run(None)

    assert api.get(URL).json()["finished"]["id"] == str(run.pk)


def test_evaluation_that_the_operator_ran_for_another_project_is_hidden(api: APIClient, project: Project) -> None:
    other = make_project()

    for about in (other, project):
        end_run(create_run(Options(suites=("yours",), project=about.slug), by="command:evaluate"), "failed")
        failed = api.get(URL).json()["failed"]
        assert (failed is None) is (about == other)


@pytest.mark.parametrize("status", ["running", "finished", "failed"])
def test_agent_of_the_operator_is_neither_started_nor_shown(api: APIClient, status: str) -> None:
    """Its files are on another machine, or gone."""
    run = make_run(None, status=status, suite="yours")
    run.configuration |= {"agent": "my-agent --token s3cret", "tasks": "/gone/tasks.jsonl", "folder": "/gone"}
    run.results |= {"configuration": run.configuration} if run.results else {}
    run.save()

    answer = api.get(URL)

    assert answer.status_code == 200
    assert answer.json()[status]["units_total"] == 0
    assert "s3cret" not in answer.content.decode()
    assert "/gone" not in answer.content.decode()


@pytest.mark.django_db(transaction=True)
def test_same_key_starts_one_evaluation() -> None:
    kill_workers()
    api = make_client(make_api_key().token)
    key = {"Idempotency-Key": str(uuid.uuid4())}

    first = api.post(URL, {"suites": ["replay"]}, headers=key)
    EvaluationRun.objects.update(status="finished", finished_at=timezone.now())
    again = api.post(URL, {"suites": ["replay"]}, headers=key)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert EvaluationRun.objects.count() == 1


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_run_of_a_dead_worker_is_resumed() -> None:
    kill_workers()
    run = make_run(make_project(), status="running")
    finished = {"runs": [{"task": "kept", "score": 1.0, "steps": 1}], "timing": {}}
    EvaluationRun.objects.filter(pk=run.pk).update(units={"replay": {"webshop": finished}})

    run_evaluation(run.job_id, owner="test")

    run.refresh_from_db()
    assert run.status == "finished"
    assert run.results["suites"][0]["tasks"]["webshop"] == ["kept"]


@pytest.mark.django_db(transaction=True)
def test_failure_of_the_process_is_explained_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_workers()
    run = make_run(make_project(), status="running")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings_that_are_missing")  # of the evaluating process

    run_evaluation(run.job_id, owner="test")

    run.refresh_from_db()
    assert run.status == "failed"
    assert "ended with exit code 1" in run.failure
    assert "Request the evaluation again" in run.failure
    assert "--resume" not in run.failure


@pytest.mark.django_db
def test_evaluation_waits_while_another_one_runs(project: Project) -> None:
    first, second = make_run(make_project(), status="queued"), make_run(project, status="queued")
    assert claim("evaluation", first.job_id, owner="other") is not None

    outcome = run_evaluation(second.job_id, owner="test")

    second.refresh_from_db()
    assert second.job is not None
    assert (outcome, second.status) == (Outcome.RETRY, "queued")
    assert (second.job.attempts, second.job.available_at > timezone.now()) == (0, True)


@pytest.mark.django_db
def test_evaluation_that_kills_its_workers_is_given_up_and_says_so(project: Project, settings: Any) -> None:
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 1
    run = make_run(project, status="running")
    claim("evaluation", run.job_id, owner="dead")
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

    run_evaluation(run.job_id, owner="test")

    run.refresh_from_db()
    assert run.status == "failed"
    assert "Every worker that took this evaluation died" in run.failure


@pytest.mark.nightly
def test_worker_runs_a_requested_evaluation(stack: Stack) -> None:
    headers = bearer(make_api_key().token)
    with httpx.Client(base_url=stack.base_url, headers=headers, timeout=30) as client:
        started = client.post(URL, json={"suites": ["replay"]})
        deadline = time.monotonic() + 150
        # A busy server may refuse a request, and so does the limit of 60 per minute
        while not (answer := client.get(URL).json()).get("finished") and time.monotonic() < deadline:
            time.sleep(1.5)

    assert started.status_code == 202
    assert answer["finished"]["id"] == started.json()["id"], stack.log("worker")[-2000:]
    arms = {row["arm"]: row["uplift"].get("mean") for row in answer["finished"]["results"]["suites"][0]["arms"]}
    assert arms["alfworld/reflection"] == pytest.approx(0.246, abs=1e-3)
