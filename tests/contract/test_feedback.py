"""POST /api/v1/heuristics/{id}/feedback: what a run did with a lesson."""

import uuid

import pytest

from memory.effects.models import HeuristicFeedback
from tests.factories import make_heuristic, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db


def url_of(heuristic) -> str:
    return f"/api/v1/heuristics/{heuristic.pk}/feedback"


@pytest.fixture
def heuristic(project):
    return make_heuristic(project=project, status="approved")


def test_feedback_about_a_run_is_kept(api_client, project, heuristic, api_key):
    trajectory = make_trajectory(project=project)
    said = {"verdict": "followed", "trajectory_id": str(trajectory.pk), "helpful": True, "comment": "It saved a call."}

    response = api_client.post(url_of(heuristic), said)

    assert response.status_code == 201
    body = response.json()
    assert {name: body[name] for name in said} == said
    assert (body["heuristic_id"], body["client"]) == (str(heuristic.pk), api_key.api_key.client)


def test_feedback_about_an_answer_is_kept(api_client, project, heuristic):
    retrieval = make_retrieval(project=project)

    body = api_client.post(url_of(heuristic), {"verdict": "contradicted", "retrieval_id": str(retrieval.pk)}).json()

    assert (body["retrieval_id"], body["trajectory_id"], body["helpful"]) == (str(retrieval.pk), None, None)


def test_feedback_repeated_replaces_the_first(api_client, project, heuristic):
    about = {"trajectory_id": str(make_trajectory(project=project).pk)}
    first = api_client.post(url_of(heuristic), about | {"verdict": "followed"}).json()
    second = api_client.post(url_of(heuristic), about | {"verdict": "not_applicable"}).json()

    assert second["id"] == first["id"]
    assert HeuristicFeedback.objects.get().verdict == "not_applicable"


def test_feedback_without_a_run_answers_400(api_client, heuristic):
    response = api_client.post(url_of(heuristic), {"verdict": "followed"})

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "feedback_without_run"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"verdict": "loved"}, "/verdict"),
        ({"verdict": None}, "/verdict"),
        ({"helpful": "yes"}, "/helpful"),
        ({"comment": 5}, "/comment"),
        ({"trajectory_id": "x"}, "/trajectory_id"),
        ({"client": "another"}, "/client"),
    ],
)
def test_invalid_feedback_answers_400_with_the_place(api_client, project, heuristic, changes, place):
    said = {"verdict": "followed", "trajectory_id": str(make_trajectory(project=project).pk)}

    response = api_client.post(url_of(heuristic), said | changes)

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]


def test_feedback_on_an_unknown_run_answers_404(api_client, heuristic):
    response = api_client.post(url_of(heuristic), {"verdict": "followed", "trajectory_id": str(uuid.uuid4())})

    assert response.status_code == 404
    assert "/trajectory_id" in response.json()["error"]["fields"]
