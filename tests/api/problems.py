"""What every error must look like (reliability A11)."""

from typing import Any

from memory.api.errors import ErrorCode

LEAKS = ("Traceback", "SELECT ", "INSERT ", 'File "', "/srv/", ".py", "psycopg", "DETAIL:")


def read_problem(response: Any) -> dict[str, Any]:
    """Check the shape of an error response and return its body."""
    assert response.status_code >= 400
    assert response["Content-Type"] == "application/problem+json"
    assert response["X-Request-ID"]
    body: dict[str, Any] = response.json()
    assert set(body) == {"type", "title", "status", "detail", "instance", "error"}
    assert set(body["error"]) == {"code", "message", "request_id", "retryable", "fields"}
    assert body["status"] == response.status_code
    assert body["error"]["code"] in ErrorCode.values
    assert body["error"]["request_id"] == response["X-Request-ID"]
    assert body["error"]["message"] == body["detail"] != ""
    assert isinstance(body["error"]["retryable"], bool)
    assert all(isinstance(texts, list) and texts for texts in body["error"]["fields"].values())
    text = response.content.decode()
    assert not [leak for leak in LEAKS if leak in text]
    return body


def error_of(response: Any) -> tuple[int, str]:
    """Return status and code of an error response, having checked its shape."""
    return response.status_code, read_problem(response)["error"]["code"]
