"""The same key and the same request have one effect and one answer."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.api.models import IdempotencyRecord
from memory.projects.actors import Actor
from memory.projects.api_keys import NewApiKey, revoke_api_key, rotate_api_key
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from tests.api.conftest import make_client
from tests.api.problems import error_of, read_problem
from tests.api.repeating import BODY, KEY
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]


def test_replay_says_that_it_is_one(api_client: APIClient) -> None:
    first = api_client.post("/tiny", BODY, **KEY)
    replay = api_client.post("/tiny", BODY, **KEY)

    assert "Idempotent-Replayed" not in first
    assert replay["Idempotent-Replayed"] == "true"
    assert replay["Original-Request-Id"] == first["X-Request-ID"] != replay["X-Request-ID"]


def test_replay_keeps_status_and_the_headers_that_belong_to_the_answer(api_client: APIClient) -> None:
    first = api_client.post("/tiny", BODY, **KEY)
    replay = api_client.post("/tiny", BODY, **KEY)

    kept = ("Content-Type", "Location", "ETag")
    assert (replay.status_code, *(replay[name] for name in kept)) == (201, *(first[name] for name in kept))
    assert "Set-Cookie" not in replay


def test_answer_without_content_is_replayed_without_content(api_client: APIClient) -> None:
    made = api_client.post("/tiny", BODY).json()["id"]
    first, replay = (api_client.delete(f"/tiny/{made}", **KEY) for _ in range(2))

    assert [(one.status_code, one.content, "Content-Type" in one) for one in (first, replay)] == [(204, b"", False)] * 2


def test_same_payload_in_another_spelling_is_the_same_request(api_client: APIClient) -> None:
    first = api_client.post("/tiny", b'{"task": "x", "n": 100}', content_type="application/json", **KEY)
    second = api_client.post("/tiny", b'{"n":1e2,"task":"\\u0078"}', content_type="application/json", **KEY)

    assert (second.status_code, second.content) == (201, first.content)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tiny", {"task": "Cancel", "id": 9223372036854775806}),
        ("/tiny", {"task": "Cancel"}),
        ("/tiny", {**BODY, "more": None}),
        ("/tiny/01900000-0000-7000-8000-000000000000/outcome", BODY),
        ("/tiny-wait", BODY),
    ],
    ids=["changed-digit", "less", "more", "other-path", "other-route"],
)
def test_key_of_another_request_is_409_for_good(api_client: APIClient, path: str, body: dict[str, Any]) -> None:
    api_client.post("/tiny", BODY, **KEY)

    problem = read_problem(api_client.post(path, body, **KEY))

    assert (problem["status"], problem["error"]["code"]) == (409, "idempotency_key_reused")
    assert problem["error"]["retryable"] is False


def test_same_route_with_another_id_is_another_request(api_client: APIClient) -> None:
    first = api_client.post("/tiny/01900000-0000-7000-8000-000000000000/outcome", **KEY)
    second = api_client.post("/tiny/01900000-0000-7000-8000-000000000001/outcome", **KEY)

    assert (first.status_code, error_of(second)) == (200, (409, "idempotency_key_reused"))


def test_missing_key_stores_nothing_and_leaves_the_key_new(api_client: APIClient, anonymous_client: APIClient) -> None:
    statuses = [client.post("/tiny", BODY, **KEY).status_code for client in (anonymous_client, api_client)]

    assert statuses == [401, 201]


def test_missing_scope_stores_nothing_and_leaves_the_key_new(project: Project) -> None:
    weak, strong = (
        make_client(make_api_key(project=project, scopes=[scope]).token)
        for scope in (ApiKey.Scope.RETRIEVE, ApiKey.Scope.TRAJECTORIES_WRITE)
    )

    statuses = [client.post("/tiny", BODY, **KEY).status_code for client in (weak, strong)]

    assert statuses == [403, 201]


def test_failure_without_a_key_rolls_back_too(api_client: APIClient) -> None:
    api_client.post("/tiny", {"task": "conflict"})

    assert not Trajectory.objects.exists()


def test_other_project_s_key_is_another_key(api_client: APIClient, other_client: APIClient) -> None:
    ours, theirs = api_client.post("/tiny", BODY, **KEY), other_client.post("/tiny", BODY, **KEY)

    assert (theirs.status_code, "Idempotent-Replayed" in theirs) == (201, False)
    assert ours.json()["id"] not in theirs.content.decode()


def test_other_client_s_key_is_another_key(project: Project) -> None:
    one, other = (make_client(make_api_key(project=project, client=name).token) for name in ("one", "other"))

    assert one.post("/tiny", BODY, **KEY).content != other.post("/tiny", BODY, **KEY).content


def test_key_survives_the_rotation_of_the_api_key(api_client: APIClient, api_key: NewApiKey) -> None:
    first = api_client.post("/tiny", BODY, **KEY)
    new_client = make_client(rotate_api_key(api_key.api_key).token)

    assert new_client.post("/tiny", BODY, **KEY).content == first.content


def test_replay_needs_a_valid_key(api_client: APIClient, api_key: NewApiKey) -> None:
    api_client.post("/tiny", BODY, **KEY)
    revoke_api_key(api_key.api_key)
    verified_keys.clear()

    assert error_of(api_client.post("/tiny", BODY, **KEY)) == (401, "invalid_api_key")


def test_replay_needs_the_scope(api_client: APIClient, project: Project) -> None:
    api_client.post("/tiny", BODY, **KEY)
    weak = make_client(make_api_key(project=project, scopes=[ApiKey.Scope.RETRIEVE]).token)

    assert error_of(weak.post("/tiny", BODY, **KEY)) == (403, "missing_scope")


def test_erased_resource_is_410_and_its_bytes_are_gone(api_client: APIClient) -> None:
    made = api_client.post("/tiny", {"task": "canary-4711"}, **KEY).json()["id"]
    erase_trajectory(Trajectory.objects.get(pk=made), by=Actor(label="test"))

    response = api_client.post("/tiny", {"task": "canary-4711"}, **KEY)

    assert error_of(response) == (410, "erased")
    record = IdempotencyRecord.objects.get()
    assert (bytes(record.body), bytes(record.request), record.headers) == (b"", b"", {})


def test_waiting_answer_is_sent_and_the_first_one_is_kept(api_client: APIClient) -> None:
    sent = api_client.post("/tiny-wait", {"trajectory": 1}, HTTP_PREFER="wait=5", **KEY)
    replay = api_client.post("/tiny-wait", {"trajectory": 1}, HTTP_PREFER="wait=5", **KEY)

    assert (sent.status_code, sent.json()["status"]) == (200, "done")
    assert (replay.status_code, replay.json()["status"]) == (202, "queued")


def test_failure_while_waiting_leaves_the_first_answer(api_client: APIClient) -> None:
    sent = api_client.post("/tiny-wait", {"trajectory": 1}, HTTP_PREFER="wait=5, fail", **KEY)

    assert (sent.status_code, sent.json()["status"]) == (202, "queued")


@pytest.mark.django_db(transaction=True)
def test_waiting_happens_outside_of_a_transaction(api_client: APIClient) -> None:
    sent = api_client.post("/tiny-wait", {"trajectory": 1}, HTTP_PREFER="wait=5", **KEY)

    assert sent.json()["in_transaction"] is False
