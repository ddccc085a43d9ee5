"""Where requests end."""

import pytest

from erl_site.web.framing import MAX_HEAD_BYTES, HeadTooLarge, RawRequest, RequestBuffer

LIMIT = 1000
GET = b"GET /path?query=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization:  Bearer key \r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
WITH_LENGTH = HEAD + b"Content-Length: 5\r\n\r\nhello"
IN_CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"
WITH_TRAILER = HEAD + b"Transfer-Encoding: Chunked\r\n\r\n2\r\n\r\n\r\n0\r\nX-After: 1\r\n\r\n"
WHOLE = {"get": GET, "length": WITH_LENGTH, "chunks": IN_CHUNKS, "trailer": WITH_TRAILER}
CUT = {
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "length of words": HEAD + b"Content-Length: five\r\n\r\nhello",
    "negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "length beyond the limit": HEAD + b"Content-Length: 1001\r\n\r\n",
    "chunk beyond the limit": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + b"x" * (LIMIT + 1),
    "chunk without a size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk whose size does not end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 8193,
    "address beyond the limit": b"GET /" + b"x" * 8200,
}


def take(sent: bytes) -> RawRequest | None:
    buffer = RequestBuffer(max_body_bytes=LIMIT)
    buffer.feed(sent)
    return buffer.take()


@pytest.mark.parametrize("sent", WHOLE.values(), ids=WHOLE)
def test_request_is_whole_with_its_last_byte_and_not_before(sent: bytes) -> None:
    buffer = RequestBuffer(max_body_bytes=LIMIT)
    taken = []
    for place in range(len(sent)):
        buffer.feed(sent[place : place + 1])
        taken.append(buffer.take())
    assert taken == [None] * (len(sent) - 1) + [RawRequest(data=sent)]


@pytest.mark.parametrize("sent", WHOLE.values(), ids=WHOLE)
def test_what_follows_a_request_is_left_for_the_next(sent: bytes) -> None:
    buffer = RequestBuffer(max_body_bytes=LIMIT)
    buffer.feed(sent + GET + b"GET")
    assert [buffer.take(), buffer.take(), buffer.take()] == [RawRequest(data=sent), RawRequest(data=GET), None]
    assert len(buffer) == 3


@pytest.mark.parametrize("sent", CUT.values(), ids=CUT)
def test_request_that_cannot_be_framed_is_the_last(sent: bytes) -> None:
    assert take(sent) == RawRequest(data=sent, is_cut=True)


def test_header_fields_have_a_limit() -> None:
    with pytest.raises(HeadTooLarge):
        take(b"GET / HTTP/1.1\r\n" + b"X-Long: 1\r\n" * (MAX_HEAD_BYTES // 10))


def test_path_and_credential_are_read() -> None:
    taken = take(GET)
    assert taken is not None
    assert (taken.path, taken.credential) == (b"/path", b"key")


@pytest.mark.parametrize("said", [b"bearer key", b"BEARER   key", b"Bearer \xa0key", b"\xa0Bearer key"])
def test_one_key_is_one_credential_however_it_is_written(said: bytes) -> None:
    taken = take(GET.replace(b"Bearer key", said))
    assert taken is not None
    assert taken.credential == b"key"


def test_credential_in_a_body_is_none() -> None:
    body = b"\r\nAuthorization: x\r\n"
    taken = take(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert taken is not None
    assert taken.credential == b""
