"""POST /api/v1/trajectories, and who may."""

import uuid

import pytest

from memory.runs.models import Trajectory
from tests.api.recording import RUN, URL, post
from tests.factories import make_retrieval
from tests.real_runs import TAU, WEBSHOP, load_native_runs, load_runs

pytestmark = pytest.mark.django_db


def test_post_trajectory_answers_201_with_every_field(api_client):
    response = post(api_client)

    assert response.status_code == 201
    body = response.json()
    assert response["Location"] == f"{URL}/{body['id']}"
    assert {name: body[name] for name in RUN if name != "steps"} == {n: v for n, v in RUN.items() if n != "steps"}
    assert body["steps"][1] == {
        "index": 2,
        "thought": "",
        "action": {"name": "cancel_reservation", "arguments": {"reservation_id": "EHGLP3"}},
        "observation": "",
        "error": "Error: not allowed",
    }
    assert body["step_count"] == 2
    assert body["created_at"]
    assert body["links"] == {"reflections": f"/api/v1/reflections?trajectory={body['id']}"}


def test_post_trajectory_stores_who_recorded_it(api_client, api_key):
    body = post(api_client).json()

    stored = Trajectory.objects.get(pk=body["id"])
    assert (stored.project, stored.api_key, stored.client) == (
        api_key.api_key.project,
        api_key.api_key,
        api_key.api_key.client,
    )
    assert stored.request_id


def test_post_trajectory_with_known_external_id_answers_200_with_the_first(api_client):
    first = post(api_client)
    second = post(api_client)

    assert second.status_code == 200
    assert second.json() == first.json()
    assert Trajectory.objects.count() == 1


def test_post_other_trajectory_with_known_external_id_answers_409(api_client):
    post(api_client)
    response = post(api_client, task="Book a flight")

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "external_id_taken"


def test_post_trajectory_with_only_a_task_takes_defaults(api_client):
    body = api_client.post(URL, {"task": "Say hello"}).json()

    assert (body["outcome"], body["score"], body["outcome_source"], body["steps"]) == ("unknown", None, "agent", [])


@pytest.mark.parametrize(("score", "outcome"), [(1, "success"), (0.85, "success"), (0.6, "unknown"), (0.49, "failure")])
def test_post_trajectory_without_outcome_takes_it_from_the_score(api_client, score, outcome):
    body = api_client.post(URL, {"task": "Say hello", "score": score}).json()

    assert body["outcome"] == outcome


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"task": ""}, "/task"),
        ({"task": " \n"}, "/task"),
        ({"task": 5}, "/task"),
        ({"task": None}, "/task"),
        ({"outcome": "great"}, "/outcome"),
        ({"outcome": ["success"]}, "/outcome"),
        ({"outcome": "success", "score": 0}, "/outcome"),
        ({"outcome": "failure", "score": 1}, "/outcome"),
        ({"score": 1.1}, "/score"),
        ({"score": "1"}, "/score"),
        ({"score": True}, "/score"),
        ({"outcome_source": "rumour"}, "/outcome_source"),
        ({"tags": "airline"}, "/tags"),
        ({"tags": [1]}, "/tags/0"),
        ({"tags": ["x" * 101]}, "/tags/0"),
        ({"mistake_cards": [{"lesson": "x"}]}, "/mistake_cards/0/mistake_type"),
        ({"mistake_cards": [{"mistake_type": "a", "seen": 4}]}, "/mistake_cards/0/seen"),
        ({"tokens": -1}, "/tokens"),
        ({"tokens": 1.5}, "/tokens"),
        ({"tokens": 1e300}, "/tokens"),
        ({"cost_usd": -0.1}, "/cost_usd"),
        ({"cost_usd": 1e12}, "/cost_usd"),
        ({"cost_usd": "1"}, "/cost_usd"),
        ({"external_id": "x" * 201}, "/external_id"),
        ({"metadata": []}, "/metadata"),
        ({"retrieval_id": "x"}, "/retrieval_id"),
        ({"retrieval_id": 7}, "/retrieval_id"),
        ({"reflect": "no"}, "/reflect"),
        ({"messages": []}, "/messages"),
        ({"colour": "red"}, "/colour"),
        ({"project": str(uuid.uuid4())}, "/project"),
    ],
)
def test_post_invalid_trajectory_answers_400_with_the_place(api_client, changes, place):
    response = post(api_client, **changes)

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]
    assert not Trajectory.objects.exists()


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        ("walk", "/steps"),
        (5, "/steps"),
        ({"a": 1}, "/steps"),
        ([5], "/steps/0"),
        ([{"walk": 1}], "/steps/0"),
        ([{}, {"action": {"name": ""}}], "/steps/1/action/name"),
        ([{"role": "king"}], "/steps/0/role"),
        ({"messages": [{"role": "king"}]}, "/messages/0/role"),
    ],
)
def test_post_trajectory_with_unreadable_steps_answers_400_with_the_place(api_client, steps, place):
    response = post(api_client, steps=steps)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_steps"
    assert list(response.json()["error"]["fields"]) == [place]


def test_post_trajectory_with_null_optional_members_is_recorded(api_client):
    body = api_client.post(
        URL, {"task": "t", "score": None, "tokens": None, "cost_usd": None, "retrieval_id": None, "reflect": None}
    ).json()

    assert (body["tokens"], body["cost_usd"], body["retrieval_id"]) == (None, None, None)


@pytest.mark.parametrize("member", ["messages", "steps"])
def test_post_chat_messages_records_their_steps(api_client, member):
    run = next(run for run in load_native_runs() if run["reward"] == 1)

    response = api_client.post(URL, {member: run["traj"], "score": run["reward"], "external_id": "native"})

    assert response.status_code == 201, response.content
    body = response.json()
    assert body["outcome"] == "success"
    assert body["step_count"] > 5
    assert body["task"] == next(m["content"] for m in run["traj"] if m["role"] == "user")


@pytest.mark.parametrize("path", [TAU, WEBSHOP], ids=["tau", "webshop"])
def test_post_real_runs_are_all_recorded(api_client, path):
    runs = load_runs(path)

    statuses = [
        api_client.post(URL, {n: v for n, v in run.items() if n != "id"} | {"external_id": run["id"]}).status_code
        for run in runs
    ]

    assert statuses == [201] * len(runs)


def test_post_trajectory_links_the_answer_it_was_given(api_client, project):
    retrieval = make_retrieval(project=project)

    body = post(api_client, retrieval_id=str(retrieval.pk)).json()

    assert body["retrieval_id"] == str(retrieval.pk)


def test_post_trajectory_with_foreign_retrieval_answers_404(api_client):
    response = post(api_client, retrieval_id=str(make_retrieval().pk))

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "unknown_retrieval"


def test_post_trajectory_redacts_secrets(api_client):
    response = post(api_client, summary="Used sk-ant-api03-" + "a1B2" * 20)

    assert "a1B2a1B2" not in response.content.decode()
    assert sum(response.json()["redactions"].values()) == 1


def test_post_trajectory_with_idempotency_key_replays_the_bytes(api_client):
    headers = {"Idempotency-Key": "k1"}
    first = api_client.post(URL, {"task": "once"}, headers=headers)
    second = api_client.post(URL, {"task": "once"}, headers=headers)

    assert second["Idempotent-Replayed"] == "true"
    assert second.content == first.content
    assert Trajectory.objects.count() == 1


def test_recording_a_run_takes_a_fixed_number_of_queries(api_client, django_assert_num_queries):
    # The first also counts what waits, and notes the use of the API key.
    api_client.post(URL, RUN | {"external_id": "one", "mistake_cards": []}, headers={"Idempotency-Key": "one"})

    with django_assert_num_queries(6):  # key, run, job and answer, and the savepoint of a test
        api_client.post(URL, RUN | {"external_id": "two", "mistake_cards": []}, headers={"Idempotency-Key": "two"})
