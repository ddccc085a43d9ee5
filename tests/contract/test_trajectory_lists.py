"""GET /api/v1/trajectories and one run."""

import pytest

from tests.api.recording import URL, post
from tests.factories import make_trajectory

pytestmark = pytest.mark.django_db


def test_get_trajectory_answers_what_was_recorded(api_client):
    made = post(api_client)

    response = api_client.get(made["Location"])

    assert response.status_code == 200
    assert response.json() == made.json()


def test_list_trajectories_has_no_steps_but_their_count(api_client, project):
    make_trajectory(project=project)

    body = api_client.get(URL).json()

    assert body["pagination"] == {"limit": 50, "offset": 0, "total": 1}
    assert body["results"][0]["step_count"] == 2
    assert "steps" not in body["results"][0]


def test_list_trajectories_is_newest_first_and_of_this_project_only(api_client, project):
    make_trajectory()
    mine = [str(make_trajectory(project=project).pk) for _ in range(3)]

    body = api_client.get(URL).json()

    assert [item["id"] for item in body["results"]] == mine[::-1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", "Book a flight, & pay"),
        ("task_id", "airline.book"),
        ("outcome", "success"),
        ("agent", " booker "),
        ("external_id", "r-2"),
    ],
)
def test_list_trajectories_filters_exactly(api_client, project, name, value):
    make_trajectory(project=project)
    wanted = make_trajectory(project=project, score=1.0, **{"outcome": "success", name: value})

    body = api_client.get(URL, {name: value}).json()

    assert [item["id"] for item in body["results"]] == [str(wanted.pk)]


def test_list_trajectories_filter_finds_nothing_by_a_part_of_the_text(api_client, project):
    make_trajectory(project=project, task="Book a flight")

    assert api_client.get(URL, {"task": "Book"}).json()["pagination"]["total"] == 0


@pytest.mark.parametrize("query", ["outcome=great", "colour=red", "limit=0", "limit=x", "offset=-1", "task=%00"])
def test_list_trajectories_with_invalid_query_answers_400(api_client, query):
    response = api_client.get(f"{URL}?{query}")

    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["error"]["fields"]


def test_list_trajectories_takes_a_fixed_number_of_queries(api_client, project, django_assert_num_queries):
    for _ in range(20):
        make_trajectory(project=project)
    api_client.get(URL)  # the key is verified

    with django_assert_num_queries(2):
        api_client.get(URL)


def test_list_trajectories_pages_repeat_nothing_while_rows_are_added(api_client, project):
    before = {str(make_trajectory(project=project).pk) for _ in range(10)}
    seen = [item["id"] for item in api_client.get(URL, {"limit": 4}).json()["results"]]
    make_trajectory(project=project)
    seen += [item["id"] for item in api_client.get(URL, {"limit": 4, "offset": 5}).json()["results"]]
    seen += [item["id"] for item in api_client.get(URL, {"limit": 4, "offset": 9}).json()["results"]]

    assert sorted(seen) == sorted(before)
