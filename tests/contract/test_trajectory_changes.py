"""A run's erasure and its late outcome."""

import pytest

from memory.heuristics.models import Heuristic
from tests.api.recording import URL
from tests.factories import make_evidence, make_heuristic, make_trajectory

pytestmark = pytest.mark.django_db


def test_delete_trajectory_erases_it_and_what_rests_on_it(api_client, project):
    trajectory = make_trajectory(project=project)
    alone = make_heuristic(trajectory=trajectory)
    shared = make_heuristic(trajectory=trajectory)
    make_evidence(heuristic=shared, trajectory=make_trajectory(project=project))

    response = api_client.delete(f"{URL}/{trajectory.pk}")

    assert response.status_code == 204
    assert response.content == b""
    assert api_client.get(f"{URL}/{trajectory.pk}").status_code == 404
    assert set(Heuristic.objects.values_list("pk", flat=True)) == {shared.pk}
    assert alone.pk != shared.pk


def test_replay_after_erasure_answers_410(api_client):
    headers = {"Idempotency-Key": "k2"}
    made = api_client.post(URL, {"task": "secret"}, headers=headers)
    api_client.delete(made["Location"])

    response = api_client.post(URL, {"task": "secret"}, headers=headers)

    assert response.status_code == 410
    assert b"secret" not in response.content


def test_post_outcome_sets_it_late(api_client, project):
    trajectory = make_trajectory(project=project, outcome="unknown", score=None)

    response = api_client.post(
        f"{URL}/{trajectory.pk}/outcome", {"outcome": "success", "score": 0.9, "outcome_source": "human"}
    )

    assert response.status_code == 200
    body = response.json()
    assert (body["outcome"], body["score"], body["outcome_source"]) == ("success", 0.9, "human")
    assert body["outcome_at"]


@pytest.mark.parametrize("data", [{}, {"outcome": "great"}, {"score": 2}, {"outcome": "success", "score": 0}, {"a": 1}])
def test_post_invalid_outcome_answers_400(api_client, project, data):
    trajectory = make_trajectory(project=project)

    assert api_client.post(f"{URL}/{trajectory.pk}/outcome", data).status_code == 400
