"""/api/v1/heuristics/…: decide and reword."""

import pytest

from memory.heuristics.models import HeuristicRevision
from memory.review.models import Review
from tests.api.proposing import LESSON, URL
from tests.factories import make_heuristic, read

pytestmark = pytest.mark.django_db


def test_approve_serves_the_text(api_client, project, api_key):
    heuristic = make_heuristic(project=project)

    decision = {"content_sha256": read(heuristic), "reason": "True on five runs."}
    response = api_client.post(f"{URL}/{heuristic.pk}/approve", decision)

    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["served"], body["approved_by"]) == ("approved", True, f"key:{api_key.api_key.client}")
    assert body["served_revision"]["guideline"] == body["guideline"]
    review = Review.objects.get()
    assert (review.decision, review.reason, review.reviewer_key) == ("approve", "True on five runs.", api_key.api_key)
    assert review.request_id == response["X-Request-ID"]


@pytest.mark.parametrize("body", [{}, {"reason": "Right."}, {"content_sha256": None}])
def test_approve_without_the_hash_that_was_read_answers_400(api_client, project, body):
    heuristic = make_heuristic(project=project)

    response = api_client.post(f"{URL}/{heuristic.pk}/approve", body)

    assert response.status_code == 400
    assert "Send the hash of the wording you read" in response.json()["error"]["fields"]["/content_sha256"][0]
    assert not HeuristicRevision.objects.served().exists()


def test_approve_without_a_body_answers_400(api_client, project):
    heuristic = make_heuristic(project=project)

    assert api_client.post(f"{URL}/{heuristic.pk}/approve").status_code == 400
    assert not HeuristicRevision.objects.served().exists()


def test_merge_that_takes_the_wording_needs_the_hash_that_was_read(api_client, project):
    heuristic, into = make_heuristic(project=project), make_heuristic(project=project, status="approved")
    merge = {"into_id": str(into.pk), "take_wording": True}

    without = api_client.post(f"{URL}/{heuristic.pk}/merge", merge)
    read_it = api_client.post(f"{URL}/{heuristic.pk}/merge", merge | {"content_sha256": read(heuristic)})

    assert (without.status_code, list(without.json()["error"]["fields"])) == (400, ["/content_sha256"])
    assert read_it.status_code == 200


def test_approve_of_text_that_changed_answers_409(api_client):
    made = api_client.post(URL, LESSON).json()
    api_client.patch(f"{URL}/{made['id']}", {"guideline": "Something else."})

    response = api_client.post(f"{URL}/{made['id']}/approve", {"content_sha256": made["content_sha256"]})

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "changed_meanwhile"
    assert not HeuristicRevision.objects.served().exists()


def test_reject_keeps_it_from_being_served(api_client, project):
    heuristic = make_heuristic(project=project)

    body = api_client.post(f"{URL}/{heuristic.pk}/reject", {"reason": "Too general."}).json()

    assert (body["status"], body["served"]) == ("rejected", False)


def test_retire_stops_serving(api_client, project):
    heuristic = make_heuristic(project=project, status="approved")

    body = api_client.post(f"{URL}/{heuristic.pk}/retire", {"reason": "Old."}).json()

    assert (body["status"], body["served"]) == ("retired", False)


def test_quarantine_stops_serving(api_client, project):
    heuristic = make_heuristic(project=project, status="approved")

    body = api_client.post(f"{URL}/{heuristic.pk}/quarantine", {}).json()

    assert (body["status"], body["served"]) == ("quarantined", False)


def body_of(decision, heuristic):
    """What a decision needs: an approval the hash that was read."""
    return {"content_sha256": read(heuristic)} if decision == "approve" else {}


@pytest.mark.parametrize(
    ("status", "decision", "code"),
    [
        ("approved", "approve", "already_decided"),
        ("rejected", "reject", "already_decided"),
        ("proposed", "retire", "not_servable"),
        ("retired", "retire", "not_servable"),
    ],
)
def test_decision_on_the_wrong_state_answers_409(api_client, project, status, decision, code):
    heuristic = make_heuristic(project=project, status=status)

    response = api_client.post(f"{URL}/{heuristic.pk}/{decision}", body_of(decision, heuristic))

    assert response.status_code == 409
    assert response.json()["error"]["code"] == code


@pytest.mark.parametrize("body", [{"content_sha256": "abc"}, {"reason": 5}, {"status": "approved"}])
def test_invalid_decision_answers_400(api_client, project, body):
    heuristic = make_heuristic(project=project)

    assert api_client.post(f"{URL}/{heuristic.pk}/approve", body).status_code == 400


def test_patch_makes_a_proposed_revision_and_goes_on_serving_the_old_one(api_client):
    made = api_client.post(URL, LESSON).json()
    api_client.post(f"{URL}/{made['id']}/approve", {"content_sha256": made["content_sha256"]})

    response = api_client.patch(f"{URL}/{made['id']}", {"guideline": "Ask for the booking time first."})

    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["revision"], body["served"]) == ("proposed", 2, True)
    assert body["guideline"] == "Ask for the booking time first."
    assert body["trigger"] == LESSON["trigger"]
    assert body["served_revision"]["revision"] == 1
    assert body["served_revision"]["guideline"] == LESSON["guideline"]


def test_patch_with_the_hash_that_was_read_is_taken(api_client):
    made = api_client.post(URL, LESSON).json()

    response = api_client.patch(f"{URL}/{made['id']}", {"tags": ["fare"], "content_sha256": made["content_sha256"]})

    assert response.json()["tags"] == ["fare"]


def test_patch_with_another_hash_answers_409(api_client):
    made = api_client.post(URL, LESSON).json()

    response = api_client.patch(f"{URL}/{made['id']}", {"tags": ["fare"], "content_sha256": "0" * 64})

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "changed_meanwhile"


def test_patch_with_matching_etag_is_taken(api_client):
    made = api_client.post(URL, LESSON)

    response = api_client.patch(made["Location"], {"avoid": "Haste."}, headers={"If-Match": made["ETag"]})

    assert response.status_code == 200


def test_patch_with_another_etag_answers_412(api_client):
    made = api_client.post(URL, LESSON)

    response = api_client.patch(made["Location"], {"avoid": "Haste."}, headers={"If-Match": '"abc"'})

    assert response.status_code == 412
    assert response.json()["error"]["code"] == "changed_meanwhile"


def test_patch_that_changes_nothing_answers_409(api_client):
    made = api_client.post(URL, LESSON).json()

    response = api_client.patch(f"{URL}/{made['id']}", {"guideline": LESSON["guideline"]})

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "nothing_changed"


@pytest.mark.parametrize("body", [{"trigger": ""}, {"status": "approved"}, {"content_sha256": 5}, {"tags": None}])
def test_invalid_patch_answers_400(api_client, body):
    made = api_client.post(URL, LESSON).json()

    assert api_client.patch(f"{URL}/{made['id']}", body).status_code == 400
