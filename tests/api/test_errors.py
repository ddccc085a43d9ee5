import time

import pytest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, IntegrityError, InternalError, OperationalError, connection
from django.http import Http404
from django.test import Client, RequestFactory, override_settings
from rest_framework import exceptions
from rest_framework.test import APIClient

from erl_site.web.views import csrf_failure
from memory.api.errors import RETRYABLE, STATUS, ErrorCode, Refusal
from memory.api.exception_handler import exception_handler, find_refusal
from memory.api.output import ProblemError
from memory.errors import InvalidInput, MemoryAppError
from tests.api.conftest import make_client
from tests.api.problems import error_of, read_problem
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]

JSON = "application/json"


def all_refusals(base: type[MemoryAppError] = MemoryAppError) -> list[type[MemoryAppError]]:
    return [base, *(inner for kind in base.__subclasses__() for inner in all_refusals(kind))]


def test_path_outside_every_route_is_a_problem(anonymous_client: APIClient) -> None:
    assert error_of(anonymous_client.post("/no/such/place", {})) == (404, "not_found")


def test_path_with_trailing_slash_is_a_problem(api_client: APIClient) -> None:
    assert error_of(api_client.get("/tiny/")) == (404, "not_found")


def test_path_with_hostile_text_is_answered_as_a_uri(anonymous_client: APIClient) -> None:
    body = read_problem(anonymous_client.get("/%00%ff<script>\u20ac"))

    assert body["instance"].isascii()
    assert "<" not in body["instance"]


def test_missing_object_is_404_without_model_names(api_client: APIClient) -> None:
    response = api_client.get("/tiny/01900000-0000-7000-8000-000000000000")

    assert error_of(response) == (404, "not_found")
    assert b"rajectory" not in response.content


def test_method_without_handler_is_405_and_names_the_others(api_client: APIClient) -> None:
    response = api_client.put("/tiny", {})

    assert error_of(response) == (405, "method_not_allowed")
    assert "GET" in response["Allow"]


def test_unknown_method_is_405(api_client: APIClient) -> None:
    assert error_of(api_client.generic("BREW", "/tiny")) == (405, "method_not_allowed")


def test_accept_header_we_cannot_serve_is_406(api_client: APIClient) -> None:
    assert error_of(api_client.get("/tiny", headers={"Accept": "image/png"})) == (406, "not_acceptable")


def test_failing_view_is_500_that_tells_nothing(api_client: APIClient) -> None:
    response = api_client.post("/tiny", {"task": "fail"})

    assert error_of(response) == (500, "internal_error")
    assert b"secret" not in response.content


def test_failing_plain_view_is_500_that_tells_nothing() -> None:
    response = Client(raise_request_exception=False).get("/crash")

    assert error_of(response) == (500, "internal_error")
    assert b"secret" not in response.content


def test_unknown_host_is_400(anonymous_client: APIClient) -> None:
    assert error_of(anonymous_client.get("/tiny", headers={"Host": "evil.example"})) == (400, "invalid_request")


def test_csrf_check_does_not_stand_before_plain_views() -> None:
    response = Client(enforce_csrf_checks=True, raise_request_exception=False).post("/health")

    assert error_of(response) == (405, "method_not_allowed")


def test_csrf_failure_outside_the_admin_is_a_problem(rf: RequestFactory) -> None:
    response = csrf_failure(rf.post("/tiny"))

    assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (OperationalError("server closed the connection"), 503, "database_unavailable"),
        (DataError("integer out of range"), 400, "invalid_request"),
        (RequestDataTooBig(), 413, "request_too_large"),
        (SuspiciousOperation("x"), 400, "invalid_request"),
        (Http404("no Trajectory at /srv"), 404, "not_found"),
        (exceptions.Throttled(wait=6.2), 429, "rate_limited"),
        (exceptions.ParseError("x"), 400, "invalid_request"),
        (Refusal(ErrorCode.ERASED, "Gone."), 410, "erased"),
        (MemoryAppError("No."), 400, "invalid_request"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_exception_gets_its_status_and_code(raised: Exception, status: int, code: str) -> None:
    refusal = find_refusal(raised)

    assert refusal is not None
    assert (refusal.status_code, refusal.error_code) == (status, code)


def test_unique_violation_nobody_handled_is_a_conflict_to_retry() -> None:
    error = IntegrityError("duplicate key value")
    error.__cause__ = type("UniqueViolation", (Exception,), {"sqlstate": "23505"})()

    refusal = find_refusal(error)

    assert refusal is not None
    assert (refusal.error_code, refusal.headers["Retry-After"]) == ("conflict", "1")


def test_other_integrity_error_is_a_bug() -> None:
    assert find_refusal(IntegrityError("null value")) is None


def test_database_outage_and_throttle_say_when_to_come_back() -> None:
    outage, throttle = find_refusal(OperationalError()), find_refusal(exceptions.Throttled(wait=6.2))

    assert outage is not None
    assert throttle is not None
    assert (outage.headers["Retry-After"], throttle.headers["Retry-After"]) == ("5", "7")


def test_unforeseen_exception_is_left_to_django() -> None:
    assert exception_handler(RuntimeError("x"), {}) is None


@pytest.mark.parametrize("refusal", all_refusals(), ids=lambda kind: kind.__name__)
def test_every_refusal_of_the_app_has_a_code_of_the_enum(refusal: type[MemoryAppError]) -> None:
    assert refusal.code in ErrorCode.values


def test_only_codes_of_the_enum_have_a_status() -> None:
    assert set(STATUS) | RETRYABLE <= set(ErrorCode)


def test_invalid_input_becomes_json_pointers() -> None:
    fields = {"/steps/0/action": ["Bad."], "/task": ["Empty."]}

    refusal = find_refusal(InvalidInput(fields))

    assert refusal is not None
    assert (refusal.error_code, refusal.message, refusal.fields) == ("invalid_request", "/steps/0/action: Bad.", fields)


def test_validation_error_of_a_filter_has_bare_names() -> None:
    refusal = find_refusal(exceptions.ValidationError({"outcome": ["Unknown."]}))

    assert refusal is not None
    assert (refusal.error_code, refusal.fields) == ("invalid_query", {"outcome": ["Unknown."]})


def test_huge_message_is_cut() -> None:
    response = exception_handler(exceptions.ValidationError({"task": ["x" * 100_000]}), {})

    assert response is not None
    assert len(response.content) < 3000


def test_error_is_sent_whatever_the_client_accepts(anonymous_client: APIClient) -> None:
    response = anonymous_client.get("/tiny", headers={"Accept": "application/json"})

    assert error_of(response) == (401, "not_authenticated")


def test_connection_that_stood_still_for_too_long_is_a_503() -> None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = 20")
            cursor.execute("BEGIN")
            time.sleep(0.2)
            with pytest.raises(InternalError) as raised:
                cursor.execute("SELECT 1")
    finally:
        other.close()

    refusal = find_refusal(raised.value)
    assert refusal is not None
    assert (refusal.error_code, refusal.status_code) == ("database_unavailable", 503)


def test_schema_names_every_code() -> None:
    code = ProblemError.model_json_schema()["properties"]["code"]

    assert set(code["enum"]) == set(ErrorCode.values)


@override_settings(DEBUG=False)
def test_unknown_query_parameter_is_refused(api_client: APIClient) -> None:
    body = read_problem(api_client.get("/tiny?taks=x"))

    assert (body["error"]["code"], list(body["error"]["fields"])) == ("invalid_query", ["taks"])


@pytest.mark.parametrize(
    "query", ["task=a&task=b", "task=%00", "format=json", "limit=1&limit=2", "=1", "%ff=1", "task=%ff"]
)
def test_strange_query_is_refused(api_client: APIClient, query: str) -> None:
    assert error_of(api_client.get(f"/tiny?{query}")) == (400, "invalid_query")


def test_query_parameter_on_a_post_is_refused(api_client: APIClient) -> None:
    assert error_of(api_client.post("/tiny?task=x", {})) == (400, "invalid_query")


def test_options_names_the_methods(api_client: APIClient) -> None:
    response = api_client.options("/tiny")

    assert (response.status_code, response["Allow"]) == (204, "GET, POST, HEAD, OPTIONS")


def test_scope_missing_on_the_key_names_the_scope() -> None:
    client = make_client(make_api_key(scopes=["retrieve"]).token)

    body = read_problem(client.get("/tiny"))

    assert (body["status"], body["error"]["code"]) == (403, "missing_scope")
    assert "trajectories:read" in body["detail"]
