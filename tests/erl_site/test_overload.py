"""Requests that waited too long for a thread are turned away."""

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from erl_site.web.worker import waited_seconds


@pytest.fixture
def waited() -> Iterator[None]:
    token = waited_seconds.set(0.3)
    with override_settings(ERL_API_MAX_WAIT_SECONDS=0.25):
        yield
    waited_seconds.reset(token)


def test_a_request_that_waited_too_long_is_told_when_to_come_again(client: Client, waited: None) -> None:
    response = client.post("/api/v1/retrieve", {"task": "Book a flight"}, content_type="application/json")
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert response["Content-Type"] == "application/problem+json"
    assert response["X-Request-ID"]
    assert response.json()["error"]["code"] == "overloaded"
    assert response.json()["error"]["retryable"] is True


def test_health_is_told_however_long_it_took(client: Client, waited: None) -> None:
    assert client.get("/health").status_code == 200


def test_no_limit_turns_nobody_away(client: Client, waited: None) -> None:
    with override_settings(ERL_API_MAX_WAIT_SECONDS=0):
        response = client.post("/api/v1/retrieve", {}, content_type="application/json")
    assert response.status_code == 401
