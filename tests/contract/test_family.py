"""The task family is called `family`; its older name `task_id` works as before."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from memory.heuristics.models import HeuristicRevision
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.factories import make_heuristic, make_trajectory

pytestmark = pytest.mark.django_db
NAMES = pytest.mark.parametrize("name", ["family", "task_id"])
LESSON = {"trigger": "A refund is asked for", "guideline": "Check the fare class first."}


@NAMES
def test_run_is_recorded_with_its_family(api_client: APIClient, name: str) -> None:
    answer = api_client.post("/api/v1/trajectories", {"task": "Refund A1", name: "shop", "reflect": False})

    assert (answer.status_code, answer.json()["task_id"]) == (201, "shop")
    assert Trajectory.objects.get().task_id == "shop"


@NAMES
def test_lesson_is_proposed_for_a_family(api_client: APIClient, name: str) -> None:
    assert api_client.post("/api/v1/heuristics", LESSON | {name: "shop"}).status_code == 201
    assert HeuristicRevision.objects.get().task_id == "shop"


@NAMES
@pytest.mark.parametrize(("method", "path"), [("post", "retrieve"), ("get", "heuristics"), ("get", "context")])
def test_lessons_are_asked_for_by_family(api_client: APIClient, name: str, method: str, path: str) -> None:
    answer = getattr(api_client, method)(f"/api/v1/{path}", {"task": LESSON["trigger"], name: "shop"})

    assert answer.status_code == 200
    assert list(Retrieval.objects.values_list("task_id", flat=True)) == ["shop"]


@NAMES
@pytest.mark.parametrize("path", ["trajectories", "heuristics"])
def test_lists_are_filtered_by_family(api_client: APIClient, project: Project, name: str, path: str) -> None:
    make_heuristic(trajectory=make_trajectory(project=project, task_id="shop"), task_id="shop")
    make_heuristic(trajectory=make_trajectory(project=project, task_id="bank"), task_id="bank")

    rows = api_client.get(f"/api/v1/{path}", {name: "shop"}).json()["results"]

    assert [row["task_id"] for row in rows] == ["shop"]


@NAMES
def test_memory_is_summed_up_by_family(api_client: APIClient, project: Project, name: str) -> None:
    make_trajectory(project=project, task_id="shop")
    make_trajectory(project=project, task_id="bank")

    answer = api_client.get("/api/v1/memory/summary", {name: "shop"}).json()

    assert {row["task_id"] for row in answer["scores"]} == {"shop"}


def test_both_names_may_say_the_same(api_client: APIClient) -> None:
    body = {"task": "Refund A1", "family": "shop", "task_id": "shop", "reflect": False}
    assert api_client.post("/api/v1/trajectories", body).status_code == 201


@pytest.mark.parametrize(
    ("sent", "place", "fault"),
    [
        ({"family": "shop", "task_id": "bank"}, "/family", "This is the task family, and so is task_id."),
        ({"family": 5}, "/family", "This should be a valid string."),
        ({"task_id": 5}, "/task_id", "This should be a valid string."),
    ],
)
def test_fault_is_named_as_it_was_sent(api_client: APIClient, sent: dict[str, Any], place: str, fault: str) -> None:
    answer = api_client.post("/api/v1/trajectories", {"task": "Refund A1", **sent})

    assert answer.status_code == 400
    [(named, texts)] = answer.json()["error"]["fields"].items()
    assert (named, texts[0].startswith(fault)) == (place, True)
