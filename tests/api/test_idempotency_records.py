"""What is stored of a request, and for how long."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection
from django.db.models.functions import Now
from django.test import override_settings
from rest_framework.test import APIClient

from memory.api import idempotency
from memory.api.idempotency import delete_expired_idempotency_records
from memory.api.models import IdempotencyRecord
from memory.projects.api_keys import NewApiKey
from memory.runs.models import Trajectory
from tests.api.problems import error_of
from tests.api.repeating import BODY, KEY
from tests.factories import make_idempotency_record, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]


@pytest.mark.parametrize(
    ("request_arguments", "status"),
    [
        ({"data": b"{", "content_type": "application/json"}, 400),
        ({"data": b"{}", "content_type": "text/plain"}, 415),
        ({"data": b"[" + b" " * 2_000_000 + b"]", "content_type": "application/json"}, 413),
        ({"data": {"task": "fail"}}, 500),
        ({"data": {"task": "conflict"}}, 409),
        ({"data": {"task": ""}}, 500),  # refused by a constraint of the database
        ({"data": {}, "HTTP_ACCEPT": "image/png"}, 406),
    ],
    ids=["400", "415", "413", "500", "409", "500-in-sql", "406"],
)
def test_failure_stores_nothing_and_leaves_the_key_new(
    api_client: APIClient, request_arguments: dict[str, Any], status: int
) -> None:
    failed = api_client.post("/tiny", **{"format": None, **request_arguments, **KEY})
    left = (Trajectory.objects.count(), IdempotencyRecord.objects.count())
    corrected = api_client.post("/tiny", BODY, **KEY)

    assert (failed.status_code, left, corrected.status_code) == (status, (0, 0), 201)


@pytest.mark.parametrize(("age", "replayed"), [("71:59:00", True), ("72:01:00", False)])
def test_key_is_new_again_after_its_time(api_client: APIClient, age: str, replayed: bool) -> None:
    first = api_client.post("/tiny", BODY, **KEY)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE memory_idempotencyrecord SET expires_at = expires_at - %s::interval", [age])

    second = api_client.post("/tiny", BODY, **KEY)

    assert (second.status_code, second.content == first.content) == (201, replayed)
    assert IdempotencyRecord.objects.count() == 1


def test_expired_key_may_carry_another_request(api_client: APIClient) -> None:
    api_client.post("/tiny", BODY, **KEY)
    IdempotencyRecord.objects.update(expires_at=Now())

    assert api_client.post("/tiny", {"task": "another"}, **KEY).status_code == 201


@override_settings(ERL_IDEMPOTENCY_HOURS=1)
def test_key_lives_as_long_as_the_setting_says(api_client: APIClient) -> None:
    api_client.post("/tiny", BODY, **KEY)

    record = IdempotencyRecord.objects.get()
    assert round((record.expires_at - record.created_at).total_seconds() / 3600) == 1


def test_record_names_the_resource_and_the_request(api_client: APIClient) -> None:
    response = api_client.post("/tiny", BODY, **KEY)

    record = IdempotencyRecord.objects.get()
    assert record.resource_id == UUID(response.json()["id"])
    assert (record.method, record.route, record.request_id) == ("POST", "tiny", response["X-Request-ID"])
    assert json.loads(bytes(record.request)) == BODY


def test_stored_request_is_redacted(api_client: APIClient, api_key: NewApiKey) -> None:
    api_client.post("/tiny", {"task": f"use {api_key.token}", "password": "hunter2-hunter2"}, **KEY)

    stored = bytes(IdempotencyRecord.objects.get().request)
    assert api_key.token.encode() not in stored
    assert b"hunter2" not in stored


def test_answer_too_large_to_keep_has_no_effect(api_client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_RESPONSE_BYTES", 1000)

    response = api_client.post("/tiny", {"task": "large"}, **KEY)

    assert error_of(response) == (413, "request_too_large")
    assert not Trajectory.objects.exists()


def test_expired_records_are_deleted_in_batches() -> None:
    project = make_project()
    for _ in range(7):
        make_idempotency_record(project=project, expires_at=Now() - timedelta(seconds=1))
    kept = make_idempotency_record(project=project)

    assert delete_expired_idempotency_records(batch_size=3) == 7
    assert list(IdempotencyRecord.objects.all()) == [kept]


@pytest.mark.parametrize("headers", ["null", "[]", '"Location"', "1"])
def test_database_refuses_headers_that_no_replay_could_give(headers: str) -> None:
    record = make_idempotency_record()

    with pytest.raises(IntegrityError, match="memory_idempotency_headers_are_an_object"), connection.cursor() as cursor:
        cursor.execute("UPDATE memory_idempotencyrecord SET headers = %s::jsonb WHERE id = %s", [headers, record.pk])
