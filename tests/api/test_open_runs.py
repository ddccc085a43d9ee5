"""Runs in parts: POST /trajectories with open, …/steps and …/finish; parents; runs left open."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.intake.open_runs import close_unfinished_runs
from memory.limits import MAX_OPEN_RUN_CHARS
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.api.conftest import make_client
from tests.api.recording import URL
from tests.factories import make_api_key, make_project, make_trajectory

pytestmark = pytest.mark.django_db

STEPS: list[dict[str, Any]] = [{"index": 1, "action": "look[desk]", "observation": "a lamp"}, {"action": "take[lamp]"}]


@pytest.fixture
def run(api_client):
    return f"{URL}/{api_client.post(URL, {'task': 'Take the lamp', 'open': True}).json()['id']}"


def test_run_in_parts_is_reflected_on_only_when_finished(api_client, run):
    appended = api_client.post(f"{run}/steps", {"steps": STEPS})
    assert (appended.status_code, appended.json()["open"], appended.json()["step_count"]) == (200, True, 2)
    assert Reflection.objects.count() == 0

    finished = api_client.post(f"{run}/finish", {"score": 1.0, "outcome_source": "test", "tokens": 9})

    body = finished.json()
    assert (finished.status_code, body["open"], body["outcome"], body["tokens"]) == (200, False, "success", 9)
    assert body["outcome_source"] == "test"
    assert Reflection.objects.count() == 1


def test_steps_sent_again_change_nothing(api_client, run):
    first = api_client.post(f"{run}/steps", {"steps": STEPS}).json()

    again = api_client.post(f"{run}/steps", {"steps": STEPS})
    more = api_client.post(f"{run}/steps", {"steps": [STEPS[1] | {"index": 2}, {"action": "go[home]"}]})

    assert again.json() == first
    assert [step["action"]["name"] for step in more.json()["steps"]] == ["look", "take", "go"]


@pytest.mark.parametrize("step", [{"index": 1, "action": "look[door]"}, {"index": 4, "action": "go[home]"}])
def test_other_step_or_gap_is_409(api_client, run, step):
    api_client.post(f"{run}/steps", {"steps": STEPS})

    refused = api_client.post(f"{run}/steps", {"steps": [step]})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "steps_differ")


def test_steps_after_the_end_are_409(api_client, run):
    api_client.post(f"{run}/finish", {})

    refused = api_client.post(f"{run}/steps", {"steps": STEPS})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_is_finished")


def test_finish_again_the_same_way_changes_nothing_and_otherwise_is_409(api_client, run):
    first = api_client.post(f"{run}/finish", {"outcome": "failure"})
    again = api_client.post(f"{run}/finish", {"outcome": "failure"})
    other = api_client.post(f"{run}/finish", {"outcome": "success"})

    assert (again.status_code, again.json()) == (200, first.json())
    assert (other.status_code, other.json()["error"]["code"]) == (409, "run_is_finished")
    assert Reflection.objects.count() == 1


def test_open_run_takes_neither_outcome_nor_reflection(api_client, run):
    outcome = api_client.post(f"{run}/outcome", {"outcome": "failure"})
    reflected = api_client.post("/api/v1/reflect", {"trajectory_id": run.rpartition("/")[2]})
    opened = api_client.post(URL, {"task": "x", "open": True, "outcome": "success"})

    assert [r.json()["error"]["code"] for r in (outcome, reflected)] == ["run_is_open", "run_is_open"]
    assert list(opened.json()["error"]["fields"]) == ["/open"]


def test_opening_the_same_run_again_answers_it_with_its_steps(api_client):
    body = {"task": "Take the lamp", "open": True, "external_id": "r-1"}
    run = api_client.post(URL, body).json()
    api_client.post(f"{URL}/{run['id']}/steps", {"steps": STEPS})

    again = api_client.post(URL, body)

    assert (again.status_code, again.json()["id"], again.json()["step_count"]) == (200, run["id"], 2)


def test_secrets_in_appended_steps_are_taken_out(api_client, run):
    mail = "ana@example.org"

    body = api_client.post(f"{run}/steps", {"steps": [{"observation": f"Write to {mail}"}]}).json()

    assert mail not in str(body)
    assert sum(body["redactions"].values()) == 1


@pytest.mark.parametrize("body", [{}, {"steps": []}, {"steps": "x"}, {"steps": [{"role": "user", "content": "Hi"}]}])
def test_steps_that_are_no_steps_are_400(api_client, run, body):
    assert api_client.post(f"{run}/steps", body).status_code == 400


def test_run_of_another_project_is_no_parent(api_client):
    other = make_trajectory(project=make_project(slug="other"), is_open=True)

    assert api_client.post(URL, {"task": "x", "parent_id": str(other.pk)}).status_code == 404


@pytest.mark.parametrize(("path", "body"), [("steps", {"steps": STEPS}), ("finish", {"summary": "It went well."})])
def test_only_the_client_that_opened_a_run_says_more_in_it(project, run, path, body):
    another = make_client(make_api_key(project=project, client="another").token)

    refused = another.post(f"{run}/{path}", body)

    kept = Trajectory.objects.get()
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert (kept.is_open, kept.steps, kept.summary) == (True, [], "")


def test_another_key_of_the_same_client_goes_on_with_a_run(project, run):
    after_rotation = make_client(make_api_key(project=project).token)

    assert after_rotation.post(f"{run}/steps", {"steps": STEPS}).status_code == 200


def test_open_run_does_not_grow_without_end(api_client, project, api_key):
    steps = [{"index": 1, "observation": "x" * MAX_OPEN_RUN_CHARS}]
    run = make_trajectory(project=project, is_open=True, steps=steps, client=api_key.api_key.client)

    refused = api_client.post(f"{URL}/{run.pk}/steps", {"steps": [{"observation": "more"}]})

    run.refresh_from_db()
    assert (refused.status_code, refused.json()["error"]["code"], len(run.steps)) == (400, "invalid_steps", 1)


@pytest.mark.parametrize("by", ["id", "external_id"])
def test_parent_is_named_by_either_id(api_client, by):
    parent = api_client.post(URL, {"task": "Plan", "external_id": "plan-1"}).json()

    child = api_client.post(URL, {"task": "Do", "parent_id": parent[by]}).json()

    assert child["parent_id"] == parent["id"]


def test_unknown_parent_is_404(api_client):
    refused = api_client.post(URL, {"task": "Do", "parent_id": str(uuid.uuid4())})

    assert (refused.status_code, list(refused.json()["error"]["fields"])) == (404, ["/parent_id"])


def test_run_left_open_is_closed_as_unknown(monkeypatch):
    monkeypatch.setattr("memory.intake.open_runs.LEFT_OPEN_HOURS", 2.0)
    project = make_project()
    hours: dict[str, Any] = {"steps": [], "outcome": "unknown", "score": None, "is_open": True, "project": project}
    old = make_trajectory(created_at=timezone.now() - timedelta(hours=3), **hours)
    working = make_trajectory(
        created_at=timezone.now() - timedelta(hours=3), appended_at=timezone.now() - timedelta(hours=1), **hours
    )

    assert close_unfinished_runs() == 1

    old.refresh_from_db()
    assert (old.is_open, old.outcome, old.metadata) == (False, "unknown", {"left_open": True})
    assert Trajectory.objects.get(is_open=True) == working
