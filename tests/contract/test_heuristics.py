"""/api/v1/heuristics: propose, list, read."""

import pytest

from memory.heuristics.models import Heuristic
from tests.api.proposing import LESSON, URL
from tests.factories import make_heuristic, make_trajectory

pytestmark = pytest.mark.django_db


def test_post_heuristic_answers_201_as_proposed(api_client):
    response = api_client.post(URL, LESSON)

    assert response.status_code == 201
    body = response.json()
    assert response["Location"] == f"{URL}/{body['id']}"
    assert {name: body[name] for name in LESSON} == LESSON
    assert (body["status"], body["served"], body["served_revision"], body["revision"]) == ("proposed", False, None, 1)
    assert response["ETag"] == f'"{body["content_sha256"]}"'


def test_post_heuristic_with_only_what_is_required_is_proposed_for_the_project(api_client):
    body = api_client.post(URL, {"trigger": "t", "guideline": "g"}).json()

    assert (body["scope"], body["polarity"], body["tags"], body["task_id"]) == ("project", "mixed", [], "")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"trigger": ""}, "/trigger"),
        ({"guideline": " "}, "/guideline"),
        ({"trigger": 1}, "/trigger"),
        ({"trigger": "x" * 2_001}, "/trigger"),
        ({"polarity": "good"}, "/polarity"),
        ({"scope": "task_family", "task_id": ""}, "/task_id"),
        ({"tags": "a"}, "/tags"),
        ({"status": "approved"}, "/status"),
        ({"approved_by": "me"}, "/approved_by"),
        ({"served": True}, "/served"),
        ({"confidence": 2}, "/confidence"),
    ],
)
def test_post_invalid_heuristic_answers_400_with_the_place(api_client, changes, place):
    response = api_client.post(URL, LESSON | changes)

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]
    assert not Heuristic.objects.exists()


def test_post_heuristic_without_guideline_answers_400(api_client):
    response = api_client.post(URL, {"trigger": "t"})

    assert "/guideline" in response.json()["error"]["fields"]


def test_get_heuristic_shows_its_evidence(api_client, project):
    trajectory = make_trajectory(project=project)
    heuristic = make_heuristic(trajectory=trajectory)

    body = api_client.get(f"{URL}/{heuristic.pk}").json()

    assert body["support"] == 1
    assert body["evidence"] == [
        {
            "trajectory_id": str(trajectory.pk),
            "first_step": 1,
            "last_step": 2,
            "quote": "policy refuses",
            "counts": False,
        }
    ]


def test_list_heuristics_shows_this_project_newest_first(api_client, project):
    make_heuristic()
    mine = [str(make_heuristic(project=project).pk) for _ in range(3)]

    body = api_client.get(URL).json()

    assert [item["id"] for item in body["results"]] == mine[::-1]
    assert "evidence" not in body["results"][0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "rejected"),
        ("source_task", "Cancel reservation EHGLP3"),
        ("task_id", "airline.cancel"),
        ("polarity", "works"),
    ],
)
def test_list_heuristics_filters_exactly(api_client, project, name, value):
    make_heuristic(project=project)
    wanted = make_heuristic(project=project, **{name: value})

    body = api_client.get(URL, {name: value}).json()

    assert [item["id"] for item in body["results"]] == [str(wanted.pk)]


@pytest.mark.parametrize("query", ["status=good", "polarity=x", "colour=red", "limit=201"])
def test_list_heuristics_with_invalid_query_answers_400(api_client, query):
    assert api_client.get(f"{URL}?{query}").status_code == 400


def test_list_heuristics_takes_a_fixed_number_of_queries(api_client, project, django_assert_num_queries):
    for _ in range(20):
        make_heuristic(project=project, status="approved")
    api_client.get(URL)  # the key is verified

    with django_assert_num_queries(3):
        api_client.get(URL)


def test_list_can_be_of_what_is_served_with_its_line_and_effect(api_client, project):
    served = make_heuristic(project=project, status="approved", trigger="When it rains.", guideline="Take <|a coat|>")
    proposed = make_heuristic(project=project)

    (shown,) = api_client.get(f"{URL}?served=true").json()["results"]
    (other,) = api_client.get(f"{URL}?served=false").json()["results"]

    assert (shown["id"], other["id"]) == (str(served.pk), str(proposed.pk))
    assert shown["usefulness"] == 0.5
    assert shown["served_revision"]["line"] == f"[H-{str(served.pk)[-8:]}] When it rains: Take (|a coat|>"


def test_list_of_what_is_neither_served_nor_not_answers_400(api_client):
    assert api_client.get(f"{URL}?served=1").status_code == 400
