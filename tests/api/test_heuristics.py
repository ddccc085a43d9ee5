"""/api/v1/heuristics: propose, list, read, reword, decide."""

import uuid

import pytest

from memory.models import Heuristic, HeuristicRevision, Review
from tests.factories import make_api_key, make_heuristic, make_trajectory

pytestmark = pytest.mark.django_db
URL = "/api/v1/heuristics"
LESSON = {
    "trigger": "A customer asks to cancel a basic economy ticket",
    "guideline": "Check the fare class and the time of booking before calling cancel_reservation.",
    "avoid": "Calling cancel_reservation at once.",
    "not_when": "The airline cancelled the flight.",
    "rationale": "The policy refuses it after 24 hours.",
    "polarity": "avoid",
    "scope": "task_family",
    "task_id": "airline.cancel",
    "tags": ["airline", "refund"],
    "source_task": "Cancel reservation EHGLP3",
}


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
        {"trajectory_id": str(trajectory.pk), "first_step": 1, "last_step": 2, "quote": "policy refuses"}
    ]


def test_get_unknown_heuristic_answers_404(api_client):
    assert api_client.get(f"{URL}/{uuid.uuid4()}").status_code == 404


def test_get_foreign_heuristic_answers_404(api_client):
    assert api_client.get(f"{URL}/{make_heuristic().pk}").status_code == 404


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


def test_approve_serves_the_text(api_client, project, api_key):
    heuristic = make_heuristic(project=project)

    response = api_client.post(f"{URL}/{heuristic.pk}/approve", {"reason": "True on five runs."})

    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["served"], body["approved_by"]) == ("approved", True, f"key:{api_key.api_key.client}")
    assert body["served_revision"]["guideline"] == body["guideline"]
    review = Review.objects.get()
    assert (review.decision, review.reason, review.reviewer_key) == ("approve", "True on five runs.", api_key.api_key)
    assert review.request_id == response["X-Request-ID"]


def test_approve_needs_no_body(api_client, project):
    heuristic = make_heuristic(project=project)

    assert api_client.post(f"{URL}/{heuristic.pk}/approve").status_code == 200


def test_approve_of_the_text_that_was_read_serves_it(api_client):
    made = api_client.post(URL, LESSON).json()

    response = api_client.post(f"{URL}/{made['id']}/approve", {"content_sha256": made["content_sha256"]})

    assert response.json()["served"] is True


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

    response = api_client.post(f"{URL}/{heuristic.pk}/{decision}")

    assert response.status_code == 409
    assert response.json()["error"]["code"] == code


@pytest.mark.parametrize("decision", ["approve", "reject", "retire", "quarantine"])
def test_decision_on_foreign_heuristic_answers_404(api_client, decision):
    heuristic = make_heuristic(status="approved" if decision in ("retire", "quarantine") else "proposed")

    assert api_client.post(f"{URL}/{heuristic.pk}/{decision}").status_code == 404


@pytest.mark.parametrize("decision", ["approve", "reject", "retire", "quarantine"])
def test_decision_without_review_scope_answers_403(client, project, decision):
    token = make_api_key(project=project, scopes=["heuristics:read", "heuristics:write"]).token
    heuristic = make_heuristic(project=project)

    response = client.post(f"{URL}/{heuristic.pk}/{decision}", headers={"Authorization": f"Bearer {token}"})

    assert response.status_code == 403


@pytest.mark.parametrize("body", [{"content_sha256": "abc"}, {"reason": 5}, {"status": "approved"}])
def test_invalid_decision_answers_400(api_client, project, body):
    heuristic = make_heuristic(project=project)

    assert api_client.post(f"{URL}/{heuristic.pk}/approve", body).status_code == 400


def test_patch_makes_a_proposed_revision_and_goes_on_serving_the_old_one(api_client):
    made = api_client.post(URL, LESSON).json()
    api_client.post(f"{URL}/{made['id']}/approve")

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


def test_patch_foreign_heuristic_answers_404(api_client):
    assert api_client.patch(f"{URL}/{make_heuristic().pk}", {"avoid": "x"}).status_code == 404


def test_heuristics_without_key_answer_401(client):
    assert client.post(URL, LESSON, content_type="application/json").status_code == 401
