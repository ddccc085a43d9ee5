"""Lessons under a client's own id: sent again they are brought up to date, and nothing is made twice."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.provenance import WordOrigin
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import HeuristicEmbedding
from memory.trust.erasure import erase_trajectory
from tests.api.conftest import make_client
from tests.api.problems import error_of
from tests.api.proposing import LESSON, URL
from tests.factories import approve_as_read, make_api_key, make_project, make_trajectory

pytestmark = pytest.mark.django_db
OWN = LESSON | {"external_id": "fare-7", "metadata": {"source": "playbook.md", "line": 12}}
BY = Actor(label="user:ana")


def test_outside_id_and_metadata_are_kept_and_answered(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN)
    listed = api_client.get(URL, {"external_id": "fare-7"}).json()["results"]

    assert made.status_code == 201
    assert {name: made.json()[name] for name in OWN} == OWN
    assert [each["id"] for each in listed] == [made.json()["id"]]


def test_same_lesson_again_answers_200_and_changes_nothing(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN)
    again = api_client.post(URL, OWN)

    assert (again.status_code, again.json(), again["Location"]) == (200, made.json(), made["Location"])
    assert HeuristicRevision.objects.count() == 1


def test_other_words_under_the_id_wait_for_review_while_the_approved_ones_are_served(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN).json()
    approve_as_read(Heuristic.objects.get(), by=BY)

    changed = api_client.post(URL, OWN | {"guideline": "Ask for the booking time.", "metadata": {"line": 14}}).json()

    assert (changed["id"], changed["revision"], changed["status"]) == (made["id"], 2, "proposed")
    assert changed["served_revision"]["guideline"] == LESSON["guideline"]
    assert changed["metadata"] == {"line": 14}


def test_words_that_a_reviewer_improved_are_not_proposed_away(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN).json()
    editor = make_client(make_api_key(project=Heuristic.objects.get().project, client="editor").token)
    edited = editor.patch(f"{URL}/{made['id']}", {"avoid": "Haste."}).json()

    again = api_client.post(URL, OWN).json()

    assert (again["revision"], again["avoid"]) == (edited["revision"], "Haste.")


def test_rejected_lesson_sent_again_stays_rejected(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN).json()
    api_client.post(f"{URL}/{made['id']}/reject")

    assert api_client.post(URL, OWN).json()["status"] == "rejected"


def test_id_that_is_not_stored_as_it_is_does_not_stand_for_another_lesson(api_client: APIClient) -> None:
    """Two addresses are stored as the same text, and the second lesson would take the place of the first."""
    made = api_client.post(URL, OWN | {"external_id": "ana@example.com"})
    other = api_client.post(URL, OWN | {"external_id": "bob@example.com", "guideline": "Something else."})

    for refused in (made, other):
        assert refused.status_code == 400
        assert [*refused.json()["error"]["fields"]] == ["/external_id"]
    assert not Heuristic.objects.exists()


def test_id_belongs_to_one_client(api_client: APIClient, project: Project) -> None:
    other = make_client(make_api_key(project=project, client="another").token)

    ids = {client.post(URL, OWN).json()["id"] for client in (api_client, other)}

    assert len(ids) == 2


def test_id_of_another_project_is_another_lesson(api_client: APIClient, other_client: APIClient) -> None:
    theirs = other_client.post(URL, OWN).json()
    mine = api_client.post(URL, OWN | {"guideline": "Mine."})

    assert (mine.status_code, mine.json()["revision"]) == (201, 1)
    assert other_client.get(f"{URL}/{theirs['id']}").json()["guideline"] == LESSON["guideline"]
    assert api_client.get(URL, {"external_id": "fare-7"}).json()["pagination"]["total"] == 1


def test_lessons_without_an_id_are_always_new(api_client: APIClient) -> None:
    ids = {api_client.post(URL, LESSON).json()["id"] for _ in range(2)}

    assert len(ids) == 2


def test_same_id_at_once_makes_one_lesson(transactional_db: None) -> None:
    token = make_api_key(project=make_project()).token

    def send(number: int) -> int:
        try:
            return make_client(token).post(URL, OWN | {"rationale": f"Reason {number}."}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(send, range(4)))

    assert sorted(statuses) == [200, 200, 200, 201]
    assert Heuristic.objects.count() == 1
    assert HeuristicRevision.objects.count() == 4


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"external_id": 7}, "/external_id"),
        ({"external_id": "x" * 201}, "/external_id"),
        ({"metadata": "text"}, "/metadata"),
        ({"metadata": {"a": "x" * 10_001}}, "/metadata"),
        ({"evidence": {}}, "/evidence"),
        ({"evidence": [{}]}, "/evidence/0/trajectory_id"),
        ({"evidence": [{"trajectory_id": "019a0000-0000-7000-8000-000000000000", "last_step": 1}]}, "/last_step"),
        ({"evidence": [{"trajectory_id": "019a0000-0000-7000-8000-000000000000", "first_step": 0}]}, "/first_step"),
        ({"evidence": [{"trajectory_id": "019a0000-0000-7000-8000-000000000000"}] * 51}, "/evidence"),
    ],
)
def test_invalid_member_answers_400_with_the_place(api_client: APIClient, changes: dict[str, Any], place: str) -> None:
    response = api_client.post(URL, OWN | changes)

    assert response.status_code == 400
    assert any(place in where for where in response.json()["error"]["fields"])
    assert not Heuristic.objects.exists()


def test_secrets_in_metadata_are_taken_out_before_they_are_stored(api_client: APIClient) -> None:
    body = api_client.post(URL, OWN | {"metadata": {"mail": "ana@example.com", "password": "hunter2hunter2"}}).json()

    assert "ana@example.com" not in str(body["metadata"])
    assert "hunter2" not in str(body["metadata"])


def test_runs_are_evidence_that_counts_once_it_is_approved(api_client: APIClient, project: Project) -> None:
    run = make_trajectory(project=project)
    piece = {"trajectory_id": str(run.pk), "first_step": 2, "last_step": 2, "quote": "policy refuses to cancel"}

    body = api_client.post(URL, OWN | {"evidence": [piece]}).json()

    assert (body["support"], body["evidence"]) == (1, [piece | {"counts": False}])
    assert Heuristic.objects.get().approved_support == 0
    approve_as_read(Heuristic.objects.get(), by=BY)
    assert Heuristic.objects.get().approved_support == 1


def test_origin_of_the_words_is_the_run_and_the_client(api_client: APIClient, project: Project) -> None:
    run = make_trajectory(project=project, client="shopper")

    api_client.post(URL, OWN | {"evidence": [{"trajectory_id": str(run.pk)}]})

    assert set(WordOrigin.objects.values_list("client", "trajectory_id")) == {("shopper", run.pk), ("agent", None)}


def test_evidence_sent_again_is_not_doubled(api_client: APIClient, project: Project) -> None:
    evidence = [{"trajectory_id": str(make_trajectory(project=project).pk)}]

    for _ in range(2):
        body = api_client.post(URL, OWN | {"evidence": evidence}).json()

    assert (body["support"], Evidence.objects.count()) == (1, 1)


def test_run_of_another_project_is_no_evidence(api_client: APIClient) -> None:
    foreign = make_trajectory()

    response = api_client.post(URL, OWN | {"evidence": [{"trajectory_id": str(foreign.pk)}]})

    assert error_of(response) == (404, "not_found")
    assert "/evidence/0/trajectory_id" in response.json()["error"]["fields"]
    assert not Heuristic.objects.exists()


@pytest.mark.parametrize(
    ("piece", "place"),
    [
        ({"first_step": 3}, "/evidence/0/last_step"),
        ({"quote": "The customer was angry."}, "/evidence/0/quote"),
        ({"first_step": 1, "quote": "policy refuses"}, "/evidence/0/quote"),
    ],
)
def test_evidence_has_to_be_in_the_run(
    api_client: APIClient, project: Project, piece: dict[str, Any], place: str
) -> None:
    run = make_trajectory(project=project)

    response = api_client.post(URL, OWN | {"evidence": [{"trajectory_id": str(run.pk), **piece}]})

    assert response.status_code == 400
    assert place in response.json()["error"]["fields"]
    assert not Heuristic.objects.exists()


def test_run_is_cited_by_its_own_id_of_the_client(api_client: APIClient, project: Project) -> None:
    run = make_trajectory(project=project, external_id="order-17")
    make_trajectory(external_id="order-17")

    body = api_client.post(URL, OWN | {"evidence": [{"trajectory_id": "order-17"}]}).json()

    assert [piece["trajectory_id"] for piece in body["evidence"]] == [str(run.pk)]


def test_quote_that_would_not_be_stored_is_refused(api_client: APIClient, project: Project) -> None:
    piece = {"trajectory_id": str(make_trajectory(project=project).pk), "first_step": 2}
    api_client.post(URL, OWN | {"evidence": [piece | {"quote": "policy refuses"}]})

    same = api_client.post(URL, OWN | {"evidence": [piece | {"quote": "policy refuses"}, piece]})
    other = api_client.post(URL, OWN | {"evidence": [piece, piece | {"quote": "cancel basic economy"}]})

    assert same.status_code == 200
    assert error_of(other) == (400, "invalid_request")
    assert "/evidence/1/quote" in other.json()["error"]["fields"]


def test_erasing_the_run_erases_the_lesson_with_its_metadata(api_client: APIClient, project: Project) -> None:
    run, headers = make_trajectory(project=project), {"Idempotency-Key": "once"}
    sent = OWN | {"evidence": [{"trajectory_id": str(run.pk)}]}
    api_client.post(URL, sent, headers=headers)

    erase_trajectory(run, by=BY)

    assert not Heuristic.objects.exists()
    assert error_of(api_client.post(URL, sent, headers=headers)) == (410, "erased")


def test_client_does_not_wait_for_vectors(transactional_db: None) -> None:
    client = make_client(make_api_key(project=make_project()).token)

    made = client.post(URL, LESSON).json()
    before = HeuristicEmbedding.objects.count()
    client.post(f"{URL}/{made['id']}/approve", {"content_sha256": made["content_sha256"]})

    assert before == 0
    assert HeuristicEmbedding.objects.filter(heuristic=made["id"], kind="lesson", vector__isnull=False).exists()


def test_evidence_that_came_later_counts_once_it_is_confirmed(api_client: APIClient, project: Project) -> None:
    made = api_client.post(URL, OWN).json()
    approve_as_read(Heuristic.objects.get(), by=BY)
    api_client.post(URL, OWN | {"evidence": [{"trajectory_id": str(make_trajectory(project=project).pk)}]})
    before = Heuristic.objects.get().approved_support
    url, read = f"{URL}/{made['id']}/confirm-evidence", {"content_sha256": made["content_sha256"]}

    confirmed, again = api_client.post(url, read), api_client.post(url, read)

    assert (before, Heuristic.objects.get().approved_support) == (0, 1)
    assert (confirmed.status_code, confirmed.json()["status"]) == (200, "approved")
    assert error_of(again) == (409, "nothing_changed")


def test_confirming_evidence_needs_the_hash_that_was_read(api_client: APIClient) -> None:
    made = api_client.post(URL, OWN).json()
    approve_as_read(Heuristic.objects.get(), by=BY)
    url = f"{URL}/{made['id']}/confirm-evidence"

    assert api_client.post(url, {"reason": "Seen."}).status_code == 400
    assert error_of(api_client.post(url, {"content_sha256": "0" * 64})) == (409, "changed_meanwhile")
