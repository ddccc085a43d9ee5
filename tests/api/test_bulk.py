"""Many lessons or decisions in one request: each is taken or refused by itself, the whole once under its key."""

from typing import Any

import pytest
from django.conf import LazySettings
from rest_framework.test import APIClient

from memory.api.models import IdempotencyRecord
from memory.curation.decisions import decide_unflagged
from memory.curation.priority import prioritise_heuristics
from memory.errors import NotReadYet
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from tests.api.proposing import LESSON
from tests.api.proposing import URL as HEURISTICS
from tests.factories import make_heuristic, make_trajectory, read

pytestmark = pytest.mark.django_db
BATCH, REVIEWS = "/api/v1/heuristics/batch", "/api/v1/reviews"
WITHOUT_GUIDELINE = {"trigger": "A fare is refunded"}


def results_of(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.content
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def codes_of(response: Any) -> list[tuple[int, str]]:
    return [(each["status"], (each["error"] or {}).get("code", "")) for each in results_of(response)]


def decide(heuristic: Heuristic, decision: str = "approve", **changes: Any) -> dict[str, Any]:
    return {"heuristic_id": str(heuristic.pk), "decision": decision, "content_sha256": read(heuristic)} | changes


def make_checked(project: Project, *, flags: tuple[str, ...] = ()) -> Heuristic:
    """Make a proposal that the checks have looked at."""
    heuristic = make_heuristic(project=project)
    prioritise_heuristics([heuristic.pk])
    Heuristic.objects.filter(pk=heuristic.pk).update(risk_flags=list(flags))
    return heuristic


def test_each_lesson_is_proposed_or_refused_by_itself(api_client: APIClient) -> None:
    foreign = str(make_trajectory().pk)
    sent = [LESSON, WITHOUT_GUIDELINE, LESSON | {"evidence": [{"trajectory_id": foreign}]}, 7, LESSON | {"tags": ["b"]}]

    response = api_client.post(BATCH, {"heuristics": sent})

    refused = [(400, "invalid_request"), (404, "not_found"), (400, "invalid_request")]
    assert codes_of(response) == [(201, ""), *refused, (201, "")]
    results = results_of(response)
    assert [each["index"] for each in results] == [0, 1, 2, 3, 4]
    assert list(results[1]["error"]["fields"]) == ["/guideline"]
    made = {str(each.pk): read(each) for each in Heuristic.objects.all()}
    assert {each["heuristic_id"]: each["content_sha256"] for each in results if not each["error"]} == made


def test_batch_under_its_key_happens_once(api_client: APIClient) -> None:
    headers = {"Idempotency-Key": "playbook"}
    first = api_client.post(BATCH, {"heuristics": [LESSON, LESSON, WITHOUT_GUIDELINE]}, headers=headers)
    second = api_client.post(BATCH, {"heuristics": [LESSON, LESSON, WITHOUT_GUIDELINE]}, headers=headers)

    assert second.content == first.content
    assert Heuristic.objects.count() == 2


def test_batch_with_outside_ids_can_be_sent_again(api_client: APIClient) -> None:
    sent = {"heuristics": [LESSON | {"external_id": str(number)} for number in range(3)]}

    first, second = api_client.post(BATCH, sent), api_client.post(BATCH, sent)

    assert (codes_of(first), codes_of(second)) == ([(201, "")] * 3, [(200, "")] * 3)
    assert HeuristicRevision.objects.count() == 3


def test_record_of_a_batch_holds_none_of_its_words(api_client: APIClient) -> None:
    api_client.post(BATCH, {"heuristics": [LESSON]}, headers={"Idempotency-Key": "once"})

    record = IdempotencyRecord.objects.get()
    assert bytes(record.request) == b""
    assert b"fare class" not in bytes(record.body)


def test_batch_stops_at_the_limit_of_waiting_lessons(api_client: APIClient, settings: LazySettings) -> None:
    settings.ERL_PENDING_PROPOSALS_PER_CLIENT = 2

    response = api_client.post(BATCH, {"heuristics": [LESSON] * 3})

    assert codes_of(response) == [(201, ""), (201, ""), (429, "too_many_proposals")]
    assert results_of(response)[2]["error"]["retryable"]


@pytest.mark.parametrize("body", [{}, {"heuristics": []}, {"heuristics": [LESSON] * 51}, {"heuristics": LESSON}])
def test_batch_of_the_wrong_shape_is_refused_as_a_whole(api_client: APIClient, body: dict[str, Any]) -> None:
    response = api_client.post(BATCH, body)

    assert response.status_code == 400
    assert "/heuristics" in response.json()["error"]["fields"]
    assert not Heuristic.objects.exists()


def test_each_decision_is_taken_or_refused_by_itself(api_client: APIClient, project: Project) -> None:
    good, bad, changed, decided = (make_checked(project) for _ in range(4))
    foreign = make_heuristic()
    api_client.post(f"{HEURISTICS}/{decided.pk}/reject")
    decisions = [
        decide(good, reason="True on five runs."),
        decide(bad, "reject"),
        decide(changed, content_sha256="0" * 64),
        decide(decided),
        decide(foreign),
        decide(good, "retire"),
    ]

    response = api_client.post(REVIEWS, {"decisions": decisions})

    assert codes_of(response) == [
        (200, ""),
        (200, ""),
        (409, "changed_meanwhile"),
        (409, "already_decided"),
        (404, "not_found"),
        (400, "invalid_request"),
    ]
    assert [each["heuristic_status"] for each in results_of(response)[:2]] == ["approved", "rejected"]
    assert [each.heuristic_id for each in HeuristicRevision.objects.served()] == [good.pk]
    review = Review.objects.get(decision="approve")
    assert (review.reason, review.request_id) == ("True on five runs.", response["X-Request-ID"])
    foreign.refresh_from_db()
    assert foreign.status == "proposed"


@pytest.mark.parametrize("missing", ["content_sha256", "decision", "heuristic_id"])
def test_decision_without_the_hash_that_was_read_is_refused(
    api_client: APIClient, project: Project, missing: str
) -> None:
    decision = decide(make_checked(project))
    del decision[missing]

    response = api_client.post(REVIEWS, {"decisions": [decision]})

    assert list(results_of(response)[0]["error"]["fields"]) == [f"/{missing}"]
    assert not HeuristicRevision.objects.served().exists()


def test_what_the_checks_flagged_is_not_approved_among_many(api_client: APIClient, project: Project) -> None:
    flagged, unseen = make_checked(project, flags=("names_a_person",)), make_heuristic(project=project)

    response = api_client.post(REVIEWS, {"decisions": [decide(flagged), decide(unseen), decide(flagged, "reject")]})

    assert [status for status, _ in codes_of(response)] == [400, 400, 200]
    assert "names_a_person" in results_of(response)[0]["error"]["message"]
    assert not HeuristicRevision.objects.served().exists()


def test_decisions_under_their_key_are_taken_once(api_client: APIClient, project: Project) -> None:
    decisions = {"decisions": [decide(make_checked(project)), decide(make_checked(project), "reject")]}
    headers = {"Idempotency-Key": "monday"}

    first = api_client.post(REVIEWS, decisions, headers=headers)
    second = api_client.post(REVIEWS, decisions, headers=headers)

    assert (second.status_code, second.content) == (200, first.content)
    assert Review.objects.count() == 2


def test_more_decisions_than_a_person_can_read_are_refused(api_client: APIClient, project: Project) -> None:
    decisions = [decide(make_checked(project))] * 21

    response = api_client.post(REVIEWS, {"decisions": decisions})

    assert response.status_code == 400
    assert not Review.objects.exists()


def test_flag_that_came_after_the_lesson_was_looked_up_counts(project: Project) -> None:
    found = make_checked(project)
    Heuristic.objects.filter(pk=found.pk).update(risk_flags=["overrides_rules"])

    with pytest.raises(NotReadYet, match="overrides_rules"):
        decide_unflagged(found, approve=True, by=Actor(label="policy:x"), content_sha256=read(found))
