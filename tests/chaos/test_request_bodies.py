"""Bodies that only a real server can be sent: in chunks, cut off, endless."""

import json
import socket
from collections.abc import Iterable
from typing import Any

import psutil
import pytest

from tests.chaos.web import RIGHT, ChaosWeb
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MEGABYTE = 1024 * 1024


def send(port: int, token: str, *, headers: str, body: Iterable[bytes]) -> tuple[int, dict[str, Any]]:
    """Send a request byte by byte as told and return status and body, also where the server answers early."""
    head = f"POST {RIGHT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\n{headers}\r\n".encode())
        try:
            for piece in body:
                connection.sendall(piece)
        except OSError:
            pass  # it has answered and hung up
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head_received, _, content = received.partition(b"\r\n\r\n")
    return int(head_received.split()[1]), json.loads(content)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.fixture
def token() -> str:
    return make_api_key().token


CHUNKED = "Transfer-Encoding: chunked\r\n"


def test_body_in_chunks_is_read(chaos_web: ChaosWeb, token: str) -> None:
    body = [chunk(b'{"task": '), chunk(b'"in chunks", "reflect": false}'), b"0\r\n\r\n"]

    status, answer = send(chaos_web.port, token, headers=CHUNKED, body=body)

    assert (status, answer["task"]) == (201, "in chunks")


def test_body_of_many_chunks_is_413_and_not_kept_in_memory(chaos_web: ChaosWeb, token: str) -> None:
    workers = psutil.Process(chaos_web.processes["web"].pid).children()
    before = [worker.memory_info().rss for worker in workers]
    blanks = chunk(b" " * MEGABYTE)

    status, answer = send(chaos_web.port, token, headers=CHUNKED, body=(blanks for _ in range(64)))

    grown = [worker.memory_info().rss - rss for worker, rss in zip(workers, before, strict=True)]
    assert (status, answer["error"]["code"]) == (413, "request_too_large")
    assert max(grown) < 20 * MEGABYTE


def test_announced_length_is_enough_to_refuse(chaos_web: ChaosWeb, token: str) -> None:
    status, answer = send(chaos_web.port, token, headers=f"Content-Length: {10 * MEGABYTE}\r\n", body=[b"{"])

    assert (status, answer["error"]["code"]) == (413, "request_too_large")


def test_broken_chunk_is_400_in_our_shape(chaos_web: ChaosWeb, token: str) -> None:
    status, answer = send(chaos_web.port, token, headers=CHUNKED, body=[b"zz\r\nnonsense\r\n0\r\n\r\n"])

    assert (status, answer["error"]["code"]) == (400, "invalid_request")
