import re
from typing import Any
from uuid import UUID

import pytest
import structlog
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient
from structlog.testing import capture_logs

from erl_site.web.middleware import child_trace

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def ask(client: Any, path: str = "/tiny", **headers: str) -> Any:
    return client.get(path, headers=headers)


def test_request_gets_an_id(api_client: APIClient) -> None:
    assert UUID(ask(api_client)["X-Request-ID"]).version == 7


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 128, "01a1fc5e-9815-7880-bec5-e3397d75af56"])
def test_well_formed_id_is_taken_over(api_client: APIClient, given: str) -> None:
    assert ask(api_client, **{"X-Request-ID": given})["X-Request-ID"] == given


@pytest.mark.parametrize(
    "given", ["", " ", "a b", "a,b", "x" * 129, "x" * 10_000, "é", "a\r\nX-Evil: 1", "a\n", "<b>", "a\x00", "../etc"]
)
def test_malformed_id_is_replaced(api_client: APIClient, given: str) -> None:
    answered = api_client.get("/tiny", HTTP_X_REQUEST_ID=given)["X-Request-ID"]

    assert UUID(answered).version == 7


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/no/such/place", b"", {}, 404),
        ("GET", "/crash", b"", {}, 500),
        ("GET", "/health", b"", {}, 200),
        ("PUT", "/tiny", b"", {}, 405),
        ("POST", "/tiny", b"{", {"Content-Type": "application/json"}, 400),
        ("POST", "/tiny", b" " * 2_000_000, {"Content-Type": "application/json"}, 413),
        ("GET", "/tiny", b"", {"Host": "evil.example"}, 400),
        ("GET", "/tiny", b"", {"Host": "evil.example\x00"}, 400),
        ("GET", "/admin/", b"", {}, 302),
        ("GET", "/static/nothing.css", b"", {}, 404),
    ],
)
def test_every_answer_carries_the_id(
    api_client: Any, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    content_type = headers.pop("Content-Type", "")
    response = api_client.generic(
        method, path, body, content_type=content_type, headers={**headers, "X-Request-ID": "mine"}
    )

    assert (response.status_code, response["X-Request-ID"]) == (status, "mine")


def test_id_is_bound_for_logs_and_jobs(api_client: APIClient) -> None:
    seen: dict[str, Any] = {}

    def look(execute: Any, *arguments: Any) -> Any:
        seen.update(structlog.contextvars.get_contextvars())
        return execute(*arguments)

    with connection.execute_wrapper(look):
        api_client.get("/tiny", headers={"X-Request-ID": "mine", "traceparent": TRACE})

    assert seen["request_id"] == "mine"
    assert seen["traceparent"].split("-")[1] == TRACE.split("-")[1]
    assert seen["client"] == "agent"


def test_nothing_is_left_bound_for_the_next_request(api_client: APIClient) -> None:
    api_client.get("/tiny", headers={"traceparent": TRACE})
    Client().get("/health")

    assert set(structlog.contextvars.get_contextvars()) == {"request_id"}


def test_request_is_logged_without_its_query(api_client: APIClient) -> None:
    with capture_logs() as logs:
        api_client.get("/tiny?task=secret-words&limit=5")

    (line,) = [log for log in logs if log["event"] == "request_finished"]
    assert (line["method"], line["route"], line["status"]) == ("GET", "tiny", 200)
    assert line["duration_ms"] >= 0
    assert "secret" not in str(line)


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_watching_is_not_logged_at_info(path: str) -> None:
    with capture_logs() as logs:
        Client().get(path)

    assert [log["log_level"] for log in logs if log["event"] == "request_finished"] == ["debug"]


def test_trace_goes_on_under_a_span_of_ours() -> None:
    child = child_trace(TRACE)

    assert re.fullmatch(r"00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01", child)
    assert "00f067aa0ba902b7" not in child


def test_trace_of_a_later_version_is_continued_in_ours() -> None:
    assert child_trace("cc" + TRACE[2:] + "-what-the-future-will-be").startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "ff" + TRACE[2:],
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        TRACE.upper(),
        TRACE + "-more",
        TRACE[:-1],
        TRACE + "\n",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "x" * 10_000,
    ],
)
def test_malformed_trace_is_dropped(given: str) -> None:
    assert child_trace(given) == ""
