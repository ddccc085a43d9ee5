import io
import json
import sys
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from memory.limits import JsonLimits
from memory.runs.models import Trajectory
from memory.strict_json import InvalidJson, check_json, parse_json
from tests.api.hostile import HOSTILE
from tests.api.problems import error_of, read_problem

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]

JSON = "application/json"


def post(client: Any, body: bytes, content_type: str = JSON, **headers: str) -> Any:
    return client.generic("POST", "/tiny", body, content_type=content_type, headers=headers)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_body_is_400(api_client: APIClient, name: str) -> None:
    assert error_of(post(api_client, HOSTILE[name])) == (400, "invalid_json")


def test_hostile_body_stores_nothing(api_client: APIClient) -> None:
    post(api_client, HOSTILE["nul"])

    assert not Trajectory.objects.exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (rb'{"steps": [{"observation": "ok"}, {"observation": "a\u0000"}]}', "/steps/1/observation"),
        (rb'{"a/b": {"c~d": 1e400}}', "/a~1b/c~0d"),
        (rb'{"a": [1, {"b": 1, "b": 2}]}', "/a/1"),
        (rb'{"a": {"\ud800": 1}}', "/a"),
        (b'{"a": {"b": 9223372036854775808}}', "/a/b"),
        (b'{"a": {"' + b"n" * 1000 + b'": NaN}}', "/a/" + "n" * 197 + "…"),
    ],
)
def test_refused_value_is_pointed_at(api_client: APIClient, body: bytes, pointer: str) -> None:
    assert list(read_problem(post(api_client, body))["error"]["fields"]) == [pointer]


def test_syntax_error_names_line_and_column(api_client: APIClient) -> None:
    assert "line 2, column 9" in read_problem(post(api_client, b'{"a": 1,\n "task" "x"}'))["detail"]


@pytest.mark.parametrize(
    "document",
    [
        {"task": "ab\tc\n", "n": 2**63 - 1, "m": -(2**63) + 1, "f": 0.1, "s": 5e-324},
        {"task": "€ 😀 \u2028", "deep": json.loads("[" * 30 + "1" + "]" * 30)},
        {"task": "x" * 200_000, "": "empty name", "list": list(range(40_000))},
        {"task": "x", "nothing": None, "yes": True, "no": False, "empty": {}, "none": []},
    ],
)
def test_unusual_but_sound_body_is_kept_as_sent(api_client: APIClient, document: dict[str, Any]) -> None:
    response = api_client.post("/tiny", document)

    assert response.status_code == 201
    assert Trajectory.objects.get().metadata["echo"] == document


def test_escaped_surrogate_pair_is_one_character(api_client: APIClient) -> None:
    response = post(api_client, rb'{"task": "\ud83d\ude00"}')

    assert response.json()["task"] == "😀"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/vnd.agent+json",
        "Application/JSON",
        "application/json;charset=utf8;x=y",
    ],
)
def test_json_by_another_name_is_read(api_client: APIClient, content_type: str) -> None:
    assert post(api_client, b'{"task": "x"}', content_type).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/json; charset=zip",
        "application/xml",
        "image/svg+json2",
        "text/x+json",
        "application/" + "x" * 500 + "+json",
        "*/*",
        "application",
        ";",
        "",
    ],
)
def test_body_of_another_type_is_415(api_client: APIClient, content_type: str) -> None:
    assert error_of(post(api_client, b'{"task": "x"}', content_type)) == (415, "unsupported_media_type")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, identity", "x"])
def test_encoded_body_is_415(api_client: APIClient, coding: str) -> None:
    response = post(api_client, b'{"task": "x"}', **{"Content-Encoding": coding})

    assert error_of(response) == (415, "unsupported_media_type")


def test_empty_body_is_refused_where_one_is_needed(api_client: APIClient) -> None:
    assert error_of(post(api_client, b"")) == (400, "body_required")


def test_empty_body_is_fine_where_none_is_needed(api_client: APIClient) -> None:
    assert api_client.post("/tiny/01900000-0000-7000-8000-000000000000/outcome").status_code == 200


@override_settings(ERL_API_MAX_REQUEST_BYTES=1000)
@pytest.mark.parametrize(("size", "status"), [(1000, 201), (1001, 413), (10_000_000, 413)])
def test_body_is_bounded(api_client: APIClient, size: int, status: int) -> None:
    body = b'{"task": "x"}'.ljust(size)

    assert post(api_client, body).status_code == status


@override_settings(ERL_API_MAX_REQUEST_BYTES=1000)
def test_too_large_body_says_how_large_it_may_be(api_client: APIClient) -> None:
    response = post(api_client, b" " * 1001)

    assert error_of(response) == (413, "request_too_large")
    assert "1,000 bytes" in response.json()["detail"]


class Endless(io.RawIOBase):
    """A client that never stops sending."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "read without a bound"
        self.taken += size
        return b" " * size


def post_chunked(client: Any, stream: Any) -> Any:
    extra = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": stream, "wsgi.input_terminated": True}
    return client.generic("POST", "/tiny", b"", content_type=JSON, CONTENT_TYPE=JSON, **extra)


def test_chunked_body_without_length_is_read(api_client: APIClient) -> None:
    assert post_chunked(api_client, io.BytesIO(b'{"task": "chunked"}')).json()["task"] == "chunked"


def test_endless_chunked_body_is_413_after_one_byte_too_many(api_client: APIClient) -> None:
    stream = Endless()

    response = post_chunked(api_client, stream)

    assert error_of(response) == (413, "request_too_large")
    assert stream.taken == 1024 * 1024 + 1


def test_body_is_not_read_before_the_key_is_checked(anonymous_client: APIClient) -> None:
    stream = Endless()

    response = post_chunked(anonymous_client, stream)

    assert (response.status_code, stream.taken) == (401, 0)


class HangUp(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise OSError("connection reset")


def test_sender_that_hangs_up_is_400(api_client: Any) -> None:
    response = api_client.generic(
        "POST", "/tiny", b"{}", content_type=JSON, **{"wsgi.input": HangUp(), "CONTENT_LENGTH": "10"}
    )

    assert error_of(response) == (400, "invalid_json")


def test_broken_chunk_is_400(api_client: APIClient) -> None:
    assert error_of(post_chunked(api_client, HangUp())) == (400, "invalid_json")


def test_parsing_keeps_to_its_stack_at_any_depth() -> None:
    depth = sys.getrecursionlimit() * 5
    document: Any = []
    for _ in range(depth):
        document = [document]

    with pytest.raises(InvalidJson, match="Nest at most"):
        check_json(document)


@pytest.mark.parametrize(("nodes", "accepted"), [(50_000, True), (50_001, False)])
def test_values_are_counted_to_the_last(nodes: int, accepted: bool) -> None:
    data = json.dumps([0] * (nodes - 1)).encode()

    assert is_accepted(data) is accepted


@pytest.mark.parametrize(("depth", "accepted"), [(32, True), (33, False)])
def test_depth_is_counted_to_the_last(depth: int, accepted: bool) -> None:
    assert is_accepted(b"[" * depth + b"]" * depth) is accepted


def is_accepted(data: bytes) -> bool:
    try:
        parse_json(data)
    except InvalidJson:
        return False
    return True


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
@settings(max_examples=150, deadline=None)
def test_what_is_accepted_can_be_stored(value: Any) -> None:
    data = json.dumps(value).encode("utf-8", "surrogatepass")

    if is_accepted(data):
        stored = parse_json(data)
        text = json.dumps(stored, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        assert "\\u0000" not in text
    else:
        assert not is_accepted(data)


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    assert is_accepted(data) in (True, False)


def test_limits_can_be_tightened() -> None:
    with pytest.raises(InvalidJson, match="at most 3 values"):
        parse_json(b"[1, 2, 3]", limits=JsonLimits(values=3))
