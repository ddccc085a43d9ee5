"""A URL that is too long is refused with a problem document, like other errors."""

import http.client
import json

from tests.stack import Stack


def test_address_that_is_too_long_is_a_problem(stack: Stack) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=10)
    connection.request("GET", "/api/v1/context?task=" + "x" * 9000)

    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()

    assert (answer.status, answer.headers["Content-Type"]) == (414, "application/problem+json")
    assert '"code": "request_too_large"' in body
    assert "POST /api/v1/retrieve" in body
    assert answer.headers["X-Request-ID"] == json.loads(body)["error"]["request_id"]


def test_address_of_eight_thousand_characters_is_read(stack: Stack) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=10)
    connection.request("GET", "/api/v1/context?task=" + "x" * 8000)

    answer = connection.getresponse()
    answer.read()
    connection.close()

    assert answer.status == 401, "only the key is missing"
