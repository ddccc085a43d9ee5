import pytest
from django.test import override_settings
from rest_framework.test import APIClient

from memory.api.models import IdempotencyRecord
from memory.runs.models import Trajectory
from tests.api.problems import error_of

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]

UUID = "8e03978e-40d5-43e8-bc93-6894a57f9324"
ACCEPTED = {
    "abc": "abc",
    '"abc"': "abc",
    '  "abc"  ': "abc",
    "\tabc\t": "abc",
    "a": "a",
    '"a"': "a",
    "0": "0",
    UUID: UUID,
    f'"{UUID}"': UUID,
    "A" * 255: "A" * 255,
    '"' + "A" * 255 + '"': "A" * 255,
    "run:42/step+1=~x._-": "run:42/step+1=~x._-",
    "-": "-",
    "...": "...",
    ":YWJj:": ":YWJj:",
    "true": "true",
    "null": "null",
}
REFUSED = [
    "",
    " ",
    '""',
    '"',
    '"abc',
    'abc"',
    '""abc""',
    "'abc'",
    "A" * 256,
    '"' + "A" * 256 + '"',
    "A" * 100_000,
    "a b",
    '"a b"',
    '" abc"',
    "a,b",
    '"a", "b"',
    "abc, abc",
    '"abc";v=1',
    "abc;v=1",
    r'"a\"b"',
    r'"a\\b"',
    "a\\b",
    "a\x00b",
    "\x00",
    "a\r\nX-Evil: 1",
    "a\nb",
    "abc\r",
    "\x7f",
    "é",
    "\u202eabc",
    "{}",
    "(a)",
    "a?b",
    "a#b",
    "a%20b",
    "a*b",
    "a@b",
    "<script>",
    "'; DROP TABLE memory_idempotencyrecord; --",
    "$(id)",
]


@pytest.mark.parametrize("spelling", ACCEPTED, ids=repr)
def test_key_is_accepted_and_kept_bare(api_client: APIClient, spelling: str) -> None:
    response = api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY=spelling)

    assert response.status_code == 201
    assert IdempotencyRecord.objects.get().key == ACCEPTED[spelling]


@pytest.mark.parametrize("spelling", REFUSED, ids=lambda key: repr(key[:20]))
def test_malformed_key_is_400(api_client: APIClient, spelling: str) -> None:
    response = api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY=spelling)

    assert error_of(response) == (400, "idempotency_key_invalid")


def test_both_spellings_are_one_key(api_client: APIClient) -> None:
    first = api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY="abc")
    second = api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY='"abc"')

    assert second.content == first.content
    assert Trajectory.objects.count() == 1


def test_keys_differ_by_case(api_client: APIClient) -> None:
    api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY="abc")
    api_client.post("/tiny", {}, HTTP_IDEMPOTENCY_KEY="ABC")

    assert Trajectory.objects.count() == 2


def test_key_is_optional(api_client: APIClient) -> None:
    assert api_client.post("/tiny", {}).status_code == 201
    assert not IdempotencyRecord.objects.exists()


@override_settings(ERL_IDEMPOTENCY_REQUIRED=True)
def test_missing_key_is_400_where_keys_are_required(api_client: APIClient) -> None:
    assert error_of(api_client.post("/tiny", {})) == (400, "idempotency_key_required")


@override_settings(ERL_IDEMPOTENCY_REQUIRED=True)
def test_reading_and_deleting_need_no_key(api_client: APIClient) -> None:
    statuses = [api_client.get("/tiny").status_code, api_client.delete(f"/tiny/{UUID}").status_code]

    assert statuses == [200, 404]


def test_malformed_key_on_a_get_is_ignored(api_client: APIClient) -> None:
    assert api_client.get("/tiny", HTTP_IDEMPOTENCY_KEY="a b").status_code == 200
