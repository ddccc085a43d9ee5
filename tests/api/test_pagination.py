import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from memory.api.pagination import _in_fixed_order
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.api.problems import read_problem
from tests.factories import make_trajectory

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]


def make_many(project: Project, count: int) -> list[str]:
    """Make rows of one moment, so that their order depends on the id alone, and return their tasks in that order."""
    now = timezone.now()
    rows = [make_trajectory(project=project, task=f"task {n}", created_at=now) for n in range(count)]
    return [row.task for row in sorted(rows, key=lambda row: row.pk, reverse=True)]


def test_page_is_the_newest_first(api_client: APIClient, project: Project) -> None:
    tasks = make_many(project, 5)

    body = api_client.get("/tiny?limit=2&offset=1").json()

    assert body == {"results": tasks[1:3], "pagination": {"limit": 2, "offset": 1, "total": 5}}


def test_pages_cover_everything_once(api_client: APIClient, project: Project) -> None:
    tasks = make_many(project, 23)

    pages = [api_client.get(f"/tiny?limit=5&offset={offset}").json()["results"] for offset in range(0, 30, 5)]

    assert [task for page in pages for task in page] == tasks


def test_offset_behind_the_end_is_an_empty_page(api_client: APIClient, project: Project) -> None:
    make_many(project, 3)

    body = api_client.get("/tiny?offset=100000").json()

    assert (body["results"], body["pagination"]["total"]) == ([], 3)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=201",
        "limit=1e9",
        "limit=abc",
        "limit=",
        "limit=%00",
        "limit=1.0",
        "limit=+5",
        "limit=%205",
        "limit=0x10",
        "limit=%D9%A3",
        "limit=99999999999999999999999",
        "offset=-1",
        "offset=100001",
        "offset=one",
        "offset=",
        "offset=%ff",
    ],
)
def test_page_out_of_bounds_is_400_and_names_the_parameter(api_client: APIClient, query: str) -> None:
    error = read_problem(api_client.get(f"/tiny?{query}"))["error"]

    assert (error["code"], list(error["fields"])) == ("invalid_query", [query.split("=")[0]])


@pytest.mark.parametrize("limit", [1, 200])
def test_bounds_themselves_are_accepted(api_client: APIClient, limit: int) -> None:
    assert api_client.get(f"/tiny?limit={limit}").json()["pagination"]["limit"] == limit


def test_rows_of_equal_rank_get_a_fixed_order() -> None:
    assert _in_fixed_order(Trajectory.objects.order_by("task")).query.order_by == ("task", "-pk")
