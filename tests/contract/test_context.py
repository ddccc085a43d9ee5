"""GET /api/v1/context: the block alone, with an ETag."""

import pytest

from memory.retrieval.models import Retrieval
from tests.factories import make_heuristic
from tests.product import embed_heuristics

pytestmark = pytest.mark.django_db
URL = "/api/v1/context"
TASK = "The customer wants to cancel a basic economy ticket"


@pytest.fixture
def lesson(project):
    heuristic = make_heuristic(project=project, status="approved", trigger="A customer asks to cancel a ticket")
    embed_heuristics([heuristic.pk])
    return heuristic


def test_context_is_plain_text(api_client, lesson):
    response = api_client.get(URL, {"task": TASK, "top_k": 5})

    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert "Check the fare class first." in response.content.decode()


def test_context_is_the_one_that_retrieve_gives(api_client, lesson):
    answer = api_client.post("/api/v1/retrieve", {"task": TASK}).json()
    response = api_client.get(URL, {"task": TASK})

    assert response.content.decode() == answer["context"]
    assert response["ETag"] == f'"{answer["context_sha256"]}"'


def test_context_names_the_logged_retrieval(api_client, lesson):
    response = api_client.get(URL, {"task": TASK})

    assert Retrieval.objects.get(pk=response["X-Retrieval-ID"]).task == TASK


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_context_that_is_known_answers_304(api_client, lesson, form):
    etag = api_client.get(URL, {"task": TASK})["ETag"]

    response = api_client.get(URL, {"task": TASK}, headers={"If-None-Match": form.format(etag)})

    assert response.status_code == 304
    assert response.content == b""
    assert response["ETag"] == etag
    assert "Content-Length" not in response  # it would have to be that of the whole (RFC 9110 8.6)


def test_context_that_changed_answers_200(api_client, project, lesson):
    etag = api_client.get(URL, {"task": TASK})["ETag"]
    api_client.post(f"/api/v1/heuristics/{lesson.pk}/retire")

    response = api_client.get(URL, {"task": TASK}, headers={"If-None-Match": etag})

    assert response.status_code == 200
    assert response.content == b""


def test_context_of_an_empty_memory_is_empty(api_client):
    response = api_client.get(URL, {"task": TASK})

    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("query", ["", "task=", "task=t&top_k=0", "task=t&colour=red", "task=t&task=u"])
def test_context_with_invalid_query_answers_400(api_client, query):
    response = api_client.get(f"{URL}?{query}")

    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_context_of_another_project_is_not_given(other_client, lesson):
    assert other_client.get(URL, {"task": TASK}).content == b""
