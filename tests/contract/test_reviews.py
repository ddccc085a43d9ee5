"""Merging over the API, and the records of all decisions."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from memory.heuristics.models import Evidence, HeuristicRevision
from memory.projects.models import Project
from memory.review.models import Review
from tests.factories import make_heuristic, make_trajectory, read

pytestmark = pytest.mark.django_db

URL = "/api/v1/heuristics"
REVIEWS = "/api/v1/reviews"


def merge(client: APIClient, heuristic: Any, into: Any, **body: Any) -> Any:
    return client.post(f"{URL}/{heuristic.pk}/merge", {"into_id": str(into.pk), **body})


def test_merge_supersedes_and_gives_the_evidence(api_client: APIClient, project: Project) -> None:
    heuristic = make_heuristic(project=project, trajectory=make_trajectory(project=project))
    into = make_heuristic(project=project, status="approved", guideline="What stays.")

    response = merge(api_client, heuristic, into, reason="The same.")

    assert response.status_code == 200
    body = response.json()
    assert (body["id"], body["status"], body["superseded_by_id"]) == (str(heuristic.pk), "superseded", str(into.pk))
    assert Evidence.objects.filter(heuristic=into).exists()
    assert HeuristicRevision.objects.get(served=True).guideline == "What stays."
    review = Review.objects.get(heuristic=heuristic)
    assert (review.decision, review.reason, review.reviewer_key is not None) == ("merge", "The same.", True)


def test_merge_with_the_wording_serves_it(api_client: APIClient, project: Project) -> None:
    heuristic = make_heuristic(project=project, guideline="Better words.")
    into = make_heuristic(project=project, status="approved", guideline="Old words.")

    assert merge(api_client, heuristic, into, take_wording=True, content_sha256=read(heuristic)).status_code == 200

    assert HeuristicRevision.objects.get(served=True).guideline == "Better words."


def test_merge_into_what_does_not_exist_answers_404_and_names_the_member(
    api_client: APIClient, project: Project
) -> None:
    foreign = make_heuristic()

    response = merge(api_client, make_heuristic(project=project), foreign)

    assert response.status_code == 404
    assert "/into_id" in response.json()["error"]["fields"]


def test_merge_into_itself_answers_409(api_client: APIClient, project: Project) -> None:
    heuristic = make_heuristic(project=project)

    response = merge(api_client, heuristic, heuristic)

    assert (response.status_code, response.json()["error"]["code"]) == (409, "cannot_merge")


def test_merge_of_other_text_than_was_read_answers_409(api_client: APIClient, project: Project) -> None:
    heuristic, into = make_heuristic(project=project), make_heuristic(project=project)

    response = merge(api_client, heuristic, into, into_sha256="0" * 64)

    assert (response.status_code, response.json()["error"]["code"]) == (409, "changed_meanwhile")
    assert Review.objects.count() == 0


@pytest.mark.parametrize("body", [{}, {"into_id": "x"}, {"into_id": None}, {"take_wording": "maybe"}, {"unknown": 1}])
def test_invalid_merge_answers_400(api_client: APIClient, project: Project, body: Any) -> None:
    into = make_heuristic(project=project)
    body = body if "into_id" in body or not body else {"into_id": str(into.pk), **body}

    assert api_client.post(f"{URL}/{make_heuristic(project=project).pk}/merge", body).status_code == 400


def test_reviews_list_what_was_decided_on_which_text(api_client: APIClient, project: Project) -> None:
    make_heuristic(status="approved")  # another project's
    heuristic = make_heuristic(project=project)
    api_client.post(f"{URL}/{heuristic.pk}/approve", {"content_sha256": read(heuristic), "reason": "Seen thrice."})
    api_client.post(f"{URL}/{heuristic.pk}/retire", {"reason": "Over."})

    body = api_client.get(REVIEWS).json()

    assert body["pagination"]["total"] == 2
    newest, first = body["results"]
    assert (newest["decision"], first["decision"], first["reason"]) == ("retire", "approve", "Seen thrice.")
    assert first["heuristic_id"] == str(heuristic.pk)
    assert heuristic.current_revision is not None
    assert first["content_sha256"] == heuristic.current_revision.content_sha256
    assert first["reviewer"].startswith("key:")
    assert first["revision"] == 1


@pytest.mark.parametrize(
    ("query", "total"),
    [
        ("decision=approve", 1),
        ("decision=reject", 0),
        ("reviewer=user:eve", 0),
        ("since=2000-01-01T00:00:00Z", 2),
        ("until=2000-01-01T00:00:00Z", 0),
        ("heuristic={id}", 2),
    ],
)
def test_reviews_are_filtered(api_client: APIClient, project: Project, query: str, total: int) -> None:
    heuristic = make_heuristic(project=project)
    api_client.post(f"{URL}/{heuristic.pk}/approve", {"content_sha256": read(heuristic)})
    api_client.post(f"{URL}/{heuristic.pk}/retire")

    body = api_client.get(f"{REVIEWS}?{query.format(id=heuristic.pk)}").json()

    assert body["pagination"]["total"] == total


@pytest.mark.parametrize("query", ["decision=no", "since=soon", "heuristic=x", "who=ana"])
def test_reviews_with_an_invalid_filter_answer_400(api_client: APIClient, query: str) -> None:
    assert api_client.get(f"{REVIEWS}?{query}").status_code == 400


@pytest.mark.parametrize("zone", ["+23:59", "-23:59", "Z"])
@pytest.mark.parametrize("year", ["0001", "2026", "9999"])
def test_time_in_any_zone_is_read(api_client: Any, year: str, zone: str) -> None:
    response = api_client.get("/api/v1/reviews", {"since": f"{year}-01-01T00:00:00{zone}"})

    assert response.status_code == 200
