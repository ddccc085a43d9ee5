"""Past requests reach the ranking through the API alone: record the runs, cite them, approve."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.test import APIClient

from memory.heuristics.models import Evidence, Heuristic
from memory.projects.models import Project
from tests.api.conftest import make_client
from tests.api.problems import error_of
from tests.api.proposing import LESSON, URL
from tests.factories import make_api_key, make_heuristic, make_project, make_trajectory, read

pytestmark = pytest.mark.django_db
TASK = "Transfer the savings of Ms Okafor to her new account"


def record(client: APIClient, id: str, task: str = TASK) -> Any:
    return client.post("/api/v1/trajectories", {"task": task, "external_id": id, "reflect": False})


def url_of(heuristic: Heuristic, action: str = "evidence") -> str:
    return f"{URL}/{heuristic.pk}/{action}"


def test_past_request_leads_to_the_lesson_that_served_it(transactional_db: None) -> None:
    client = make_client(make_api_key(project=make_project()).token)
    record(client, "old-1")
    lesson = LESSON | {"external_id": "own-1", "evidence": [{"trajectory_id": "old-1"}]}
    made = client.post(f"{URL}/batch", {"heuristics": [lesson]}).json()["results"][0]

    client.post(f"{URL}/{made['heuristic_id']}/approve", {"content_sha256": made["content_sha256"]})
    answer = client.post("/api/v1/retrieve", {"task": TASK}).json()

    assert [(item["id"], item["matched_task"]) for item in answer["items"]] == [(made["heuristic_id"], TASK)]


def test_request_that_came_later_leads_to_the_lesson_once_it_is_confirmed(transactional_db: None) -> None:
    project = make_project()
    client, lesson = (
        make_client(make_api_key(project=project).token),
        make_heuristic(project=project, status="approved"),
    )
    record(client, "old-1")

    cited = client.post(url_of(lesson), {"evidence": [{"trajectory_id": "old-1"}]})
    before = client.post("/api/v1/retrieve", {"task": TASK}).json()["items"]
    client.post(url_of(lesson, "confirm-evidence"), {"content_sha256": read(lesson)})
    after = client.post("/api/v1/retrieve", {"task": TASK, "top_k": 3}).json()["items"]

    assert (cited.status_code, cited.json()["support"], before) == (200, 1, [])
    assert [item["matched_task"] for item in after] == [TASK]


def test_many_runs_are_cited_at_once_and_each_once(api_client: APIClient, project: Project) -> None:
    lesson = make_heuristic(project=project, status="approved")
    runs = [{"trajectory_id": record(api_client, f"old-{n}", f"Task {n}").json()["external_id"]} for n in range(3)]

    for _ in range(2):
        body = api_client.post(url_of(lesson), {"evidence": runs}).json()

    assert (body["support"], Evidence.objects.count()) == (3, 3)


def test_unknown_run_is_named_and_nothing_is_cited(api_client: APIClient, project: Project) -> None:
    lesson = make_heuristic(project=project)
    record(api_client, "old-1")

    response = api_client.post(url_of(lesson), {"evidence": [{"trajectory_id": "old-1"}, {"trajectory_id": "old-2"}]})

    assert error_of(response) == (404, "not_found")
    assert "/evidence/1/trajectory_id" in response.json()["error"]["fields"]
    assert not Evidence.objects.exists()


def test_lesson_that_is_no_longer_used_takes_no_evidence(api_client: APIClient, project: Project) -> None:
    lesson = make_heuristic(project=project, status="rejected")
    record(api_client, "old-1")

    response = api_client.post(url_of(lesson), {"evidence": [{"trajectory_id": "old-1"}]})

    assert error_of(response) == (409, "not_servable")


@pytest.mark.parametrize(("action", "status"), [("approve", "proposed"), ("confirm-evidence", "approved")])
def test_evidence_that_came_after_reading_does_not_count(
    api_client: APIClient, project: Project, action: str, status: str
) -> None:
    lesson = make_heuristic(project=project, status=status)
    for id in ("old-1", "old-2"):
        record(api_client, id)
        api_client.post(url_of(lesson), {"evidence": [{"trajectory_id": id}]})
    read_at = parse_datetime("2026-01-01T12:00:00Z")
    assert read_at is not None
    Evidence.objects.filter(trajectory__external_id="old-1").update(created_at=read_at - timedelta(seconds=1))

    sent = {"content_sha256": read(lesson), "read_at": read_at.isoformat()}
    response = api_client.post(url_of(lesson, action), sent)

    assert response.status_code == 200
    assert Evidence.objects.get(approved_at__isnull=False).trajectory.external_id == "old-1"


def test_time_of_reading_needs_a_time_zone(api_client: APIClient, project: Project) -> None:
    lesson = make_heuristic(project=project)
    read_at = timezone.now().replace(tzinfo=None).isoformat()

    response = api_client.post(url_of(lesson, "approve"), {"content_sha256": read(lesson), "read_at": read_at})

    assert error_of(response) == (400, "invalid_request")
    assert "/read_at" in response.json()["error"]["fields"]


def test_many_approvals_at_once_count_what_was_read(api_client: APIClient, project: Project) -> None:
    lesson = make_heuristic(project=project, trajectory=make_trajectory(project=project))
    Heuristic.objects.update(prioritised_at=timezone.now())
    sent = {"heuristic_id": str(lesson.pk), "decision": "approve", "content_sha256": read(lesson)}

    api_client.post("/api/v1/reviews", {"decisions": [sent | {"read_at": "2026-01-01T12:00:00Z"}]})

    lesson.refresh_from_db()
    assert (lesson.status, lesson.approved_support) == ("approved", 0)
