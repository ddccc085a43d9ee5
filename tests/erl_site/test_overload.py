"""Requests that waited too long for a thread are refused."""

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from erl_site.web.application import waited_seconds


@pytest.fixture
def waited() -> Iterator[None]:
    token = waited_seconds.set(0.3)
    with override_settings(ERL_API_MAX_WAIT_SECONDS=0.25):
        yield
    waited_seconds.reset(token)


@pytest.mark.parametrize("path", ["/api/v1/retrieve", "/otlp/v1/traces"])
def test_request_that_waited_too_long_is_told_when_to_retry(client: Client, waited: None, path: str) -> None:
    response = client.post(path, {"task": "Book a flight"}, content_type="application/json")
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert response["Content-Type"] == "application/problem+json"
    assert response["X-Request-ID"]
    assert response.json()["error"]["code"] == "overloaded"
    assert response.json()["error"]["retryable"] is True


def test_health_is_answered_however_long_it_waited(client: Client, waited: None) -> None:
    assert client.get("/health").status_code == 200


def test_without_a_limit_no_request_is_refused(client: Client, waited: None) -> None:
    with override_settings(ERL_API_MAX_WAIT_SECONDS=0):
        response = client.post("/api/v1/retrieve", {}, content_type="application/json")
    assert response.status_code == 401
