import time
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.projects.api_keys import Credential, NewApiKey, mint_credential, parse_token, revoke_api_key, rotate_api_key
from memory.projects.models import ApiKey
from tests.api.conftest import make_client
from tests.api.problems import error_of, read_problem
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]

UNCACHED = pytest.mark.usefixtures("uncached")


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.api.authentication.CACHE_SECONDS", 0)


def get(header: str | None) -> Any:
    return APIClient(raise_request_exception=False).get("/tiny", headers={"Authorization": header} if header else {})


def test_no_key_is_401_with_a_challenge() -> None:
    response = get(None)

    assert error_of(response) == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="erl"'


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer  "])
def test_scheme_is_read_leniently(api_key: NewApiKey, scheme: str) -> None:
    assert get(f"{scheme} {api_key.token}").status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Token erl_live_x",
        "Bearer erl_live_" + "a" * 8 + "_" + "b" * 43 + "_" + "c" * 6,
        "Bearer " + "x" * 10_000,
        "Bearer \u00e9",
        "Bearer erl_live_\x00",
    ],
)
def test_anything_else_is_401_without_a_query(header: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = get(header)

    assert error_of(response) == (401, "invalid_api_key")
    assert response["WWW-Authenticate"] == 'Bearer realm="erl", error="invalid_token"'
    assert not queries.captured_queries


def test_unknown_prefix_is_401_in_the_same_words(api_key: NewApiKey) -> None:
    wrong_secret = Credential(prefix=api_key.api_key.prefix, secret=mint_credential().secret)

    unknown, known = get(f"Bearer {mint_credential().token}"), get(f"Bearer {wrong_secret.token}")

    assert unknown.json()["detail"] == known.json()["detail"]


def test_what_is_stored_does_not_authenticate(api_key: NewApiKey) -> None:
    stored = Credential(prefix=api_key.api_key.prefix, secret=api_key.api_key.secret_sha256[:43])

    assert error_of(get(f"Bearer {stored.token}")) == (401, "invalid_api_key")
    assert api_key.token not in str(ApiKey.objects.values().get())


def test_revoked_key_works_no_longer_than_the_cache(
    api_key: NewApiKey, api_client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_client.get("/tiny")
    revoke_api_key(api_key.api_key)
    now = __import__("time").monotonic()
    statuses = []
    for seconds in (3.0, 5.0):
        monkeypatch.setattr("memory.api.authentication.time.monotonic", lambda seconds=seconds: now + seconds)
        statuses.append(api_client.get("/tiny").status_code)

    assert statuses == [200, 401]


def test_revoking_twice_changes_nothing(api_key: NewApiKey) -> None:
    assert [revoke_api_key(api_key.api_key), revoke_api_key(api_key.api_key)] == [True, False]


def test_key_that_expires_while_cached_is_401() -> None:
    new = make_api_key(expires_at=timezone.now() + timedelta(seconds=1.5))
    client = make_client(new.token)
    before = client.get("/tiny").status_code
    time.sleep(1.6)

    assert (before, client.get("/tiny").status_code) == (200, 401)


@pytest.mark.parametrize("minutes_left", [-30, 30])
def test_a_wrong_clock_of_the_machine_neither_ends_nor_prolongs_a_key(minutes_left: int) -> None:
    new = make_api_key(expires_at=timezone.now() + timedelta(minutes=minutes_left))
    statuses = []
    for hours in (-1, 0, 1):
        verified_keys.clear()
        with time_machine.travel(timezone.now() + timedelta(hours=hours)):
            statuses.append(make_client(new.token).get("/tiny").status_code)

    assert statuses == [200 if minutes_left > 0 else 401] * 3


def test_second_request_verifies_without_a_query(api_client: APIClient) -> None:
    api_client.get("/tiny")

    with CaptureQueriesContext(connection) as queries:
        api_client.get("/tiny")

    assert not [query for query in queries.captured_queries if "apikey" in query["sql"]]


def test_cache_does_not_hold_tokens(api_key: NewApiKey, api_client: APIClient) -> None:
    api_client.get("/tiny")

    assert verified_keys._entries
    assert api_key.token not in str(vars(verified_keys))


def test_cache_is_bounded(api_key: NewApiKey) -> None:
    for number in range(3000):
        verified_keys.add(str(number).encode(), api_key.api_key, left=None)

    assert len(verified_keys._entries) <= 1024


@UNCACHED
def test_use_is_noted_at_most_once_a_minute(api_key: NewApiKey, api_client: APIClient) -> None:
    api_client.get("/tiny")
    first = ApiKey.objects.get().last_used_at
    api_client.get("/tiny")

    assert first is not None
    assert ApiKey.objects.get().last_used_at == first


@UNCACHED
def test_use_is_noted_again_after_a_minute(api_key: NewApiKey, api_client: APIClient) -> None:
    long_ago = timezone.now() - timedelta(seconds=61)
    ApiKey.objects.update(last_used_at=long_ago)

    api_client.get("/tiny")

    last_used_at = ApiKey.objects.get().last_used_at
    assert last_used_at is not None
    assert last_used_at > long_ago + timedelta(seconds=60)


@pytest.mark.parametrize(("method", "path"), [("GET", "/tiny"), ("HEAD", "/tiny"), ("POST", "/tiny")])
def test_key_without_the_scope_is_403(method: str, path: str) -> None:
    client = make_client(make_api_key(scopes=[ApiKey.Scope.RETRIEVE]).token)

    response = client.generic(method, path, "{}", content_type="application/json")

    assert response.status_code == 403


def test_scope_refusal_names_the_scope_in_the_challenge() -> None:
    response = make_client(make_api_key(scopes=[ApiKey.Scope.RETRIEVE]).token).post("/tiny", {})

    assert read_problem(response)["error"]["code"] == "missing_scope"
    assert 'scope="trajectories:write"' in response["WWW-Authenticate"]


def test_view_that_forgot_its_scopes_is_closed(api_client: APIClient) -> None:
    assert error_of(api_client.get("/tiny-unscoped")) == (403, "permission_denied")


def test_rotated_key_gives_way_to_a_new_one_with_the_same_rights(api_key: NewApiKey) -> None:
    new = rotate_api_key(api_key.api_key, overlap=timedelta(hours=1))

    assert [get(f"Bearer {token}").status_code for token in (api_key.token, new.token)] == [200, 200]
    assert (new.api_key.client, new.api_key.scopes) == (api_key.api_key.client, api_key.api_key.scopes)


@UNCACHED
def test_rotated_key_ends_after_the_overlap(api_key: NewApiKey) -> None:
    rotate_api_key(api_key.api_key, overlap=timedelta(0))

    assert get(f"Bearer {api_key.token}").status_code == 401


def test_rotation_never_prolongs_a_key() -> None:
    soon = timezone.now() + timedelta(minutes=5)
    old = make_api_key(expires_at=soon).api_key

    rotate_api_key(old, overlap=timedelta(days=1))

    old.refresh_from_db()
    assert old.expires_at == soon


def test_token_has_its_form() -> None:
    prefix, secret, checksum = mint_credential().token.removeprefix("erl_live_").split("_")

    assert (len(prefix), len(secret), len(checksum)) == (8, 43, 6)


def test_token_reads_back() -> None:
    credential = mint_credential()

    assert parse_token(credential.token) == credential


@pytest.mark.parametrize("position", [9, 12, 18, 40, 61, 63, 67])
def test_changed_character_is_noticed(position: int) -> None:
    token = mint_credential().token
    changed = "0" if token[position] != "0" else "1"

    assert parse_token(token[:position] + changed + token[position + 1 :]) is None


def test_credential_does_not_show_itself() -> None:
    credential = mint_credential()

    assert credential.secret not in repr(credential)
    assert credential.secret not in repr(make_api_key())
