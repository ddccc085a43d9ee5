"""POST /api/v1/reflect and the reflections it queues."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.utils import timezone

from memory.runs.models import Trajectory
from reflection.reflectors.models import Proposal, Reflection
from tests.api.conftest import make_client
from tests.factories import make_api_key, make_heuristic, make_project, make_reflection, make_trajectory

pytestmark = pytest.mark.django_db
URL = "/api/v1/reflect"
LIST = "/api/v1/reflections"


def test_reflect_on_a_recorded_run_answers_202_and_queues_it(api_client, api_key, project):
    trajectory = make_trajectory(project=project)

    response = api_client.post(URL, {"trajectory_id": str(trajectory.pk)})

    assert response.status_code == 202
    body = response.json()
    assert response["Location"] == f"{LIST}/{body['id']}"
    assert (body["status"], body["finished"], body["trajectory_id"]) == ("queued", False, str(trajectory.pk))
    assert body["links"] == {"self": response["Location"], "trajectory": f"/api/v1/trajectories/{trajectory.pk}"}
    row = Reflection.objects.get(pk=body["id"])
    assert (row.requested_by, row.request_id) == (f"key:{api_key.api_key.client}", response["X-Request-ID"])


def test_reflect_twice_answers_the_queued_one(api_client, project):
    trajectory = make_trajectory(project=project)
    first = api_client.post(URL, {"trajectory_id": str(trajectory.pk)}).json()
    second = api_client.post(URL, {"trajectory_id": str(trajectory.pk)}).json()

    assert second["id"] == first["id"]


def test_reflect_on_a_new_run_records_it(api_client):
    body = api_client.post(URL, {"trajectory": {"task": "Cancel EHGLP3", "score": 0, "agent": "travel"}}).json()

    trajectory = Trajectory.objects.get(pk=body["trajectory_id"])
    assert (trajectory.task, trajectory.outcome) == ("Cancel EHGLP3", "failure")
    assert Reflection.objects.count() == 1


def test_reflect_on_a_new_run_needs_the_scope_to_record(client, project):
    token = make_api_key(project=project, scopes=["reflect"]).token

    response = make_client(token).post(URL, {"trajectory": {"task": "t"}})

    assert response.status_code == 403
    assert not Trajectory.objects.exists()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "/trajectory_id"),
        ({"trajectory_id": "x"}, "/trajectory_id"),
        ({"trajectory_id": 5}, "/trajectory_id"),
        ({"trajectory_id": str(uuid.uuid4()), "trajectory": {"task": "t"}}, "/trajectory_id"),
        ({"trajectory": {}}, "/trajectory/task"),
        ({"trajectory": {"task": "t", "score": 2}}, "/trajectory/score"),
        ({"trajectory": "t"}, "/trajectory"),
        ({"wait": 5}, "/wait"),
    ],
)
def test_invalid_reflect_answers_400_with_the_place(api_client, body, place):
    response = api_client.post(URL, body)

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]
    assert not Reflection.objects.exists()


def test_reflect_on_an_unknown_run_answers_404(api_client):
    assert api_client.post(URL, {"trajectory_id": str(uuid.uuid4())}).status_code == 404


def test_reflect_on_a_foreign_run_answers_404(api_client):
    assert api_client.post(URL, {"trajectory_id": str(make_trajectory().pk)}).status_code == 404
    assert not Reflection.objects.exists()


def test_reflect_with_idempotency_key_answers_the_same_bytes(api_client, project):
    body = {"trajectory_id": str(make_trajectory(project=project).pk)}
    headers = {"Idempotency-Key": "once"}
    first = api_client.post(URL, body, headers=headers)
    second = api_client.post(URL, body, headers=headers)

    assert second.status_code == 202
    assert (second.content, second["Location"]) == (first.content, first["Location"])


def test_reflect_that_waits_answers_200_once_it_is_finished(transactional_db):
    key = make_api_key(project=make_project())
    trajectory = make_trajectory(project=key.api_key.project)

    def finish() -> int:
        try:
            while True:
                done = Reflection.objects.filter(status="queued").update(
                    status="done", result={"skip_reason": "Nothing to learn."}, finished_at=timezone.now()
                )
                if done:
                    return done
                time.sleep(0.02)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        worker = pool.submit(finish)
        response = make_client(key.token).post(
            URL, {"trajectory_id": str(trajectory.pk)}, headers={"Prefer": "respond-async, wait=20"}
        )
        assert worker.result(timeout=20) == 1

    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["finished"], body["skip_reason"]) == ("done", True, "Nothing to learn.")
    assert response["Preference-Applied"] == "wait=20"
    assert response["Location"] == f"{LIST}/{body['id']}"


def test_reflect_that_waits_in_vain_answers_202(api_client, project):
    trajectory = make_trajectory(project=project)

    response = api_client.post(URL, {"trajectory_id": str(trajectory.pk)}, headers={"Prefer": "wait=1"})

    assert response.status_code == 202
    assert response.json()["status"] == "queued"


@pytest.mark.parametrize("prefer", ["wait=x", "wait=-1", "waiting=5", "", "wait=0"])
def test_reflect_with_a_preference_it_does_not_know_answers_at_once(api_client, project, prefer):
    trajectory = make_trajectory(project=project)

    response = api_client.post(URL, {"trajectory_id": str(trajectory.pk)}, headers={"Prefer": prefer})

    assert response.status_code == 202
    assert "Preference-Applied" not in response


def test_get_reflection_shows_what_came_of_it(api_client, project):
    trajectory = make_trajectory(project=project)
    heuristic = make_heuristic(project=project)
    reflection = make_reflection(
        trajectory=trajectory,
        status="done",
        attempts=2,
        reflector="llm",
        model="claude",
        prompt_version="3",
        heuristics_proposed=1,
        input_tokens=900,
        output_tokens=120,
        cost_usd="0.0125",
        last_error_code="model_timeout",
        last_error="The model did not answer in time.",
    )
    Proposal.objects.create(project=project, reflection=reflection, ordinal=1, heuristic=heuristic, effect="new")

    body = api_client.get(f"{LIST}/{reflection.pk}").json()

    assert (body["status"], body["finished"], body["attempts"]) == ("done", True, 2)
    assert (body["reflector"], body["model"], body["prompt_version"]) == ("llm", "claude", "3")
    assert (body["input_tokens"], body["output_tokens"], body["cost_usd"]) == (900, 120, 0.0125)
    assert body["proposals"] == [
        {"heuristic_id": str(heuristic.pk), "effect": "new", "near_id": None, "similarity": None, "findings": []}
    ]
    assert body["error"] == {"code": "model_timeout", "message": "The model did not answer in time."}


def reflect_and_finish(project, heuristic):
    reflection = make_reflection(trajectory=make_trajectory(project=project), status="done", heuristics_proposed=1)
    Proposal.objects.create(project=project, reflection=reflection, ordinal=1, heuristic=heuristic, effect="new")
    return reflection


def test_finished_reflection_is_answered_with_its_lessons(api_client, project):
    heuristic = make_heuristic(project=project, guideline="Ask for the fare class.")
    reflection = reflect_and_finish(project, heuristic)

    body = api_client.get(f"{LIST}/{reflection.pk}").json()

    assert body["lessons"] == [api_client.get("/api/v1/heuristics").json()["results"][0]]
    assert (body["lessons"][0]["id"], body["lessons"][0]["guideline"]) == (str(heuristic.pk), "Ask for the fare class.")


def test_key_that_may_not_read_lessons_gets_their_ids(project):
    reflection = reflect_and_finish(project, make_heuristic(project=project))
    token = make_api_key(project=project, scopes=["trajectories:read"]).token

    body = make_client(token).get(f"{LIST}/{reflection.pk}").json()

    assert body["lessons"] is None
    assert len(body["proposals"]) == 1


def test_reflection_that_is_queued_has_no_lessons_yet(api_client, project):
    body = api_client.post(URL, {"trajectory_id": str(make_trajectory(project=project).pk)}).json()

    assert body["lessons"] is None


@pytest.mark.parametrize("name", ["trajectory", "status"])
def test_list_reflections_filters_exactly(api_client, project, name):
    make_reflection(trajectory=make_trajectory(project=project))
    make_reflection()
    wanted = make_reflection(trajectory=make_trajectory(project=project), status="dead")
    value = {"trajectory": str(wanted.trajectory_id), "status": "dead"}[name]

    body = api_client.get(LIST, {name: value}).json()

    assert [item["id"] for item in body["results"]] == [str(wanted.pk)]


def test_list_reflections_follows_the_link_of_a_trajectory(api_client):
    made = api_client.post("/api/v1/trajectories", {"task": "t", "reflect": False}).json()
    queued = api_client.post(URL, {"trajectory_id": made["id"]}).json()

    body = api_client.get(made["links"]["reflections"]).json()

    assert [item["id"] for item in body["results"]] == [queued["id"]]


@pytest.mark.parametrize("query", ["status=tired", "trajectory=x", "colour=red", "limit=0"])
def test_list_reflections_with_invalid_query_answers_400(api_client, query):
    assert api_client.get(f"{LIST}?{query}").status_code == 400


def test_list_reflections_takes_a_fixed_number_of_queries(api_client, project, django_assert_num_queries):
    for _ in range(10):
        make_reflection(trajectory=make_trajectory(project=project))
    api_client.get(LIST)  # the key is verified

    with django_assert_num_queries(3):
        api_client.get(LIST)
