"""POST /api/v1/retrieve, GET /api/v1/heuristics?task=…, and the replay of an answer."""

import uuid

import pytest

from memory.models import Retrieval
from memory.services.embed_heuristics import embed_heuristics
from tests.factories import make_api_key, make_heuristic, make_retrieval

pytestmark = pytest.mark.django_db
URL = "/api/v1/retrieve"
TASK = "The customer wants to cancel a basic economy ticket"


@pytest.fixture
def lesson(project):
    heuristic = make_heuristic(
        project=project,
        status="approved",
        trigger="A customer asks to cancel a basic economy ticket",
        guideline="Check the fare class and the time of booking first.",
        task_id="airline.cancel",
        tags=["airline"],
        polarity="works",
    )
    embed_heuristics([heuristic.pk])
    return heuristic


def test_retrieve_answers_the_approved_lesson(api_client, lesson):
    response = api_client.post(URL, {"task": TASK})

    assert response.status_code == 200
    body = response.json()
    assert [item["id"] for item in body["items"]] == [str(lesson.pk)]
    assert body["items"][0]["guideline"] == "Check the fare class and the time of booking first."
    assert body["items"][0]["reason"]
    assert "Check the fare class" in body["context"]
    assert (body["mode"], body["degraded"], body["degraded_reason"]) == ("hybrid", False, "")
    assert body["tokens"] > 0


def test_retrieve_logs_the_answer(api_client, api_key, lesson):
    response = api_client.post(URL, {"task": TASK, "task_id": "airline.cancel", "agent": "travel", "top_k": 3})

    row = Retrieval.objects.get(pk=response.json()["retrieval_id"])
    assert (row.task, row.task_id, row.agent, row.top_k) == (TASK, "airline.cancel", "travel", 3)
    assert (row.api_key, row.client) == (api_key.api_key, api_key.api_key.client)
    assert row.request_id == response["X-Request-ID"]


def test_retrieve_never_serves_what_is_not_approved(api_client, project):
    heuristic = make_heuristic(project=project, trigger="A customer asks to cancel a basic economy ticket")
    embed_heuristics([heuristic.pk])

    body = api_client.post(URL, {"task": TASK}).json()

    assert (body["items"], body["context"], body["tokens"]) == ([], "", 0)


def test_retrieve_never_serves_another_project(other_client, lesson):
    assert other_client.post(URL, {"task": TASK}).json()["items"] == []


def test_retrieve_in_mode_none_answers_an_empty_block(api_client, lesson):
    body = api_client.post(URL, {"task": TASK, "mode": "none"}).json()

    assert (body["mode"], body["items"], body["context"]) == ("none", [], "")


@pytest.mark.parametrize("mode", ["random", "embedding", "lexical", "hybrid"])
def test_retrieve_in_every_mode_finds_the_lesson(api_client, lesson, mode):
    body = api_client.post(URL, {"task": TASK, "mode": mode, "seed": "s"}).json()

    assert body["mode"] == mode
    assert [item["id"] for item in body["items"]] == [str(lesson.pk)]


@pytest.mark.parametrize(("member", "value"), [("tags", ["hotel"]), ("polarity", "avoid")])
def test_retrieve_filters(api_client, lesson, member, value):
    assert api_client.post(URL, {"task": TASK, member: value}).json()["items"] == []


def test_retrieve_within_a_budget_of_nothing_injects_nothing(api_client, lesson):
    body = api_client.post(URL, {"task": TASK, "budget_tokens": 0}).json()

    assert (len(body["items"]), body["context"]) == (1, "")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "/task"),
        ({"task": ""}, "/task"),
        ({"task": " "}, "/task"),
        ({"task": 5}, "/task"),
        ({"task": "t", "top_k": 0}, "/top_k"),
        ({"task": "t", "top_k": 10_000}, "/top_k"),
        ({"task": "t", "top_k": "5"}, "/top_k"),
        ({"task": "t", "top_k": True}, "/top_k"),
        ({"task": "t", "mode": "magic"}, "/mode"),
        ({"task": "t", "budget_tokens": -1}, "/budget_tokens"),
        ({"task": "t", "tags": "airline"}, "/tags"),
        ({"task": "t", "tags": [""]}, "/tags/0"),
        ({"task": "t", "polarity": "good"}, "/polarity"),
        ({"task": "t", "project": "p"}, "/project"),
    ],
)
def test_invalid_retrieve_answers_400_with_the_place(api_client, body, place):
    response = api_client.post(URL, body)

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]
    assert not Retrieval.objects.exists()


def test_retrieve_with_idempotency_key_answers_the_same_bytes_and_logs_once(api_client, lesson):
    headers = {"Idempotency-Key": "r1"}
    first = api_client.post(URL, {"task": TASK}, headers=headers)
    second = api_client.post(URL, {"task": TASK}, headers=headers)

    assert second.content == first.content
    assert Retrieval.objects.count() == 1


def test_retrieve_without_key_answers_401(client):
    assert client.post(URL, {"task": TASK}, content_type="application/json").status_code == 401


def test_retrieve_with_wrong_scope_answers_403(client, project):
    token = make_api_key(project=project, scopes=["heuristics:read"]).token

    response = client.post(
        URL, {"task": TASK}, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
    )

    assert response.status_code == 403


def test_get_heuristics_with_task_retrieves(api_client, lesson):
    response = api_client.get("/api/v1/heuristics", {"task": TASK, "top_k": "5"})

    assert response.status_code == 200
    body = response.json()
    assert [item["id"] for item in body["results"]] == [str(lesson.pk)]
    assert body["pagination"] == {"limit": 5, "offset": 0, "total": 1}
    assert "Check the fare class" in body["context"]
    assert Retrieval.objects.filter(pk=body["retrieval_id"]).exists()


def test_get_heuristics_with_task_needs_the_scope_retrieve(client, project):
    token = make_api_key(project=project, scopes=["heuristics:read"]).token

    response = client.get("/api/v1/heuristics", {"task": TASK}, headers={"Authorization": f"Bearer {token}"})

    assert response.status_code == 403


@pytest.mark.parametrize(
    "query", ["task=", "task=t&top_k=x", "task=t&top_k=0", "task=t&limit=5", "task=t&status=approved"]
)
def test_get_heuristics_with_task_and_invalid_query_answers_400(api_client, query):
    response = api_client.get(f"/api/v1/heuristics?{query}")

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_query"


def test_get_retrieval_replays_the_answer(api_client, lesson):
    answer = api_client.post(URL, {"task": TASK, "agent": "travel"}).json()

    body = api_client.get(f"/api/v1/retrievals/{answer['retrieval_id']}").json()

    assert (body["task"], body["agent"], body["context_sha256"]) == (TASK, "travel", answer["context_sha256"])
    assert body["items"][0]["heuristic"] == str(lesson.pk)
    assert body["items"][0]["injected"] is True


def test_get_unknown_retrieval_answers_404(api_client):
    assert api_client.get(f"/api/v1/retrievals/{uuid.uuid4()}").status_code == 404


def test_get_foreign_retrieval_answers_404(api_client):
    assert api_client.get(f"/api/v1/retrievals/{make_retrieval().pk}").status_code == 404
