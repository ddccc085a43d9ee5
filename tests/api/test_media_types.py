"""Media types that cannot be read are refused; otherwise a server would have to make an answer of an exception."""

import json
from collections.abc import Iterator

import pytest

from memory.projects.api_keys import NewApiKey
from tests.security.contract import Answer, Sent, application, requests_on_this_connection, send

pytestmark = pytest.mark.django_db

# charsets that decode no text, and parameters in a charset that is none (RFC 2231)
HEX, UTF_16 = "application/json; charset=hex", "application/json; charset=utf-16"
UNREADABLE = ["application/json; a*=nope''x", "application/json; charset*=undefined''x"]
LIST = "/api/v1/trajectories"


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    with requests_on_this_connection():
        yield


def ask(
    key: NewApiKey, *, method: str = "GET", path: str = LIST, query: str = "", body: bytes = b"", **headers: str
) -> tuple[int, str]:
    """Return status and code of the answer to a request without Django's test client, which reads it as it likes."""
    request = Sent(
        method=method,
        path=path,
        query=query,
        headers={"HTTP_HOST": "testserver", "HTTP_AUTHORIZATION": f"Bearer {key.token}"} | headers,
        body=body,
    )
    answer: Answer = send(application, request)
    return answer.status, json.loads(answer.body).get("error", {}).get("code", "")


@pytest.mark.parametrize("kind", [HEX, UTF_16, *UNREADABLE])
def test_query_is_read_as_utf8_whatever_the_content_type_names(api_key: NewApiKey, kind: str) -> None:
    assert ask(api_key, query="agent=%C3%A9", CONTENT_TYPE=kind) == (200, "")
    assert ask(api_key, query="colour=red", CONTENT_TYPE=kind) == (400, "invalid_query")


@pytest.mark.parametrize("kind", ["", "application/json; charset=utf-8", HEX])
def test_query_of_too_many_parameters_is_400(api_key: NewApiKey, kind: str) -> None:
    assert ask(api_key, query="a=b&" * 1001, CONTENT_TYPE=kind) == (400, "invalid_request")


@pytest.mark.parametrize("kind", [HEX, UTF_16, *UNREADABLE])
def test_body_of_a_kind_that_cannot_be_read_is_415(api_key: NewApiKey, kind: str) -> None:
    expected = (415, "unsupported_media_type")

    assert ask(api_key, method="POST", body=b'{"task": "x"}', CONTENT_TYPE=kind) == expected


@pytest.mark.parametrize("kind", UNREADABLE)
def test_accept_header_that_cannot_be_read_is_406(api_key: NewApiKey, kind: str) -> None:
    assert ask(api_key, HTTP_ACCEPT=kind) == (406, "not_acceptable")


@pytest.mark.parametrize("kind", [HEX, UTF_16, *UNREADABLE])
def test_kind_of_no_body_does_not_matter(api_key: NewApiKey, kind: str) -> None:
    nothing = f"{LIST}/019a0000-0000-7000-8000-000000000000"

    assert ask(api_key, method="DELETE", path=nothing, CONTENT_TYPE=kind) == (404, "not_found")
