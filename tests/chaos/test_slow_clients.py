"""Clients that are slow, silent, greedy or many: the others are served, and probes are answered (reliability A15)."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import psycopg
import pytest
from django.db import connection
from django.templatetags.static import static

from tests.chaos.web import ChaosWeb
from tests.factories import make_api_key, make_project, make_trajectory
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

CLIENTS = 24  # three for each thread of the server
SOON_SECONDS = 5.0  # on a busy machine; a server that is blocked answers after ten at least
LARGE_FILE = static("drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js")
POST = b"POST /api/v1/trajectories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@contextmanager
def sockets(port: int, sent: bytes, *, count: int = CLIENTS, receive_bytes: int = 0) -> Iterator[list[socket.socket]]:
    """Connect so many clients, let each send the same, and keep them open."""
    with ExitStack() as opened:
        clients = []
        for _ in range(count):
            client = opened.enter_context(socket.socket())
            if receive_bytes:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            client.settimeout(SOON_SECONDS)
            client.connect(("127.0.0.1", port))
            client.sendall(sent)
            clients.append(client)
        time.sleep(0.5)  # so that threads that take them have them
        yield clients


def ask(port: int, path: str, *, token: str = "") -> int:
    """Return the status of a GET over a connection of its own, or fail if it does not come soon."""
    there = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON_SECONDS)
    try:
        there.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = there.getresponse()
        answer.read()
        return answer.status
    finally:
        there.close()


def assert_others_are_served(port: int, token: str) -> None:
    assert [ask(port, "/health") for _ in range(4)] == [200] * 4
    assert ask(port, "/ready") == 200
    assert [ask(port, "/api/v1/heuristics", token=token) for _ in range(4)] == [200] * 4


@pytest.fixture
def token() -> str:
    return make_api_key().token


SLOW = {
    "half a header block": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "half a request line": b"GET /hea",
    "nothing": b"",
    "half a body": POST + b'Content-Length: 100\r\n\r\n{"task": ',
    "half a chunk": POST + b'Transfer-Encoding: chunked\r\n\r\n40\r\n{"task": ',
    "chunks without an end": POST + b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"ta\r\n',
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_request_that_is_not_whole_takes_no_thread(chaos_web: ChaosWeb, token: str, sent: bytes) -> None:
    with sockets(chaos_web.port, sent):
        assert_others_are_served(chaos_web.port, token)


def test_client_that_does_not_close_takes_no_thread(chaos_web: ChaosWeb, token: str) -> None:
    with sockets(chaos_web.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
        assert_others_are_served(chaos_web.port, token)


def test_client_that_does_not_read_takes_no_thread(chaos_web: ChaosWeb, token: str) -> None:
    request = f"GET {LARGE_FILE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with sockets(chaos_web.port, request * 8, receive_bytes=2048) as clients:  # more than the kernel keeps for it
        assert_others_are_served(chaos_web.port, token)
        assert clients[0].recv(12) == b"HTTP/1.1 200"


def test_idle_connections_take_no_thread(chaos_web: ChaosWeb, token: str) -> None:
    with sockets(chaos_web.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", count=200):
        assert_others_are_served(chaos_web.port, token)


def test_client_that_sends_a_byte_now_and_then_is_told_to_hurry(chaos_web: ChaosWeb) -> None:
    with socket.create_connection(("127.0.0.1", chaos_web.port), timeout=0.5) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        answer = wait_until(lambda: _send_and_receive(client, b"x"), seconds=30, every_seconds=0)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "request_too_slow"' in answer


def _send_and_receive(client: socket.socket, byte: bytes) -> bytes | None:
    client.sendall(byte)
    try:
        return client.recv(65536)
    except TimeoutError:
        return None


def test_waiting_takes_no_thread(chaos_web: ChaosWeb, token: str) -> None:
    """No worker runs here, so nothing that they wait for comes."""
    project = make_project(slug="waiters")
    waiter = make_api_key(project=project).token
    run = make_trajectory(project=project)
    body = json.dumps({"trajectory_id": str(run.pk)}).encode()
    head = f"POST /api/v1/reflect HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {waiter}\r\nPrefer: wait=30\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with sockets(chaos_web.port, request) as clients:
        assert_others_are_served(chaos_web.port, token)
        answers = [_receive_at_once(client) for client in clients]
    statuses = Counter(answer[9:12] for answer in answers)
    assert statuses[b""] >= 8, "none waits"  # two processes with eight places each
    assert statuses[b""] <= 16
    assert set(statuses) == {b"", b"202"}, "the others are told where to look"


def _receive_at_once(client: socket.socket) -> bytes:
    client.settimeout(0.1)
    try:
        return client.recv(65536)
    except TimeoutError:
        return b""


def test_key_that_floods_takes_no_thread_from_others(chaos_web: ChaosWeb, token: str) -> None:
    flooding = make_api_key(project=make_project(slug="flood")).token
    body = b'{"task": "flood", "reflect": false}'
    request = POST + f"Authorization: Bearer {flooding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with runs_locked(), sockets(chaos_web.port, request, count=100) as clients:
        assert_others_are_served(chaos_web.port, token)
        answers = [_receive_at_once(client) for client in clients]
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 429 ")]
    assert len(refused) >= 100 - 2 * 32 - 12, "more than the key may have in flight, and what was answered meanwhile"
    assert b"Retry-After: 1\r\n" in refused[0]
    assert b'"code": "rate_limited"' in refused[0]
    assert ask(chaos_web.port, "/api/v1/heuristics", token=flooding) == 200


@contextmanager
def runs_locked() -> Iterator[None]:
    """Let every request that writes a run wait as long as it may for a lock."""
    parameters = {
        name: value
        for name, value in connection.get_connection_params().items()
        if name not in ("cursor_factory", "context", "prepare_threshold")
    }
    with psycopg.connect(**parameters) as other:
        other.execute("LOCK TABLE memory_trajectory IN ACCESS EXCLUSIVE MODE")
        yield


def test_more_connections_than_fit_push_out_the_slowest(served_environment: dict[str, str], tmp_path: object) -> None:
    web = ChaosWeb(home=tmp_path, environment=served_environment, options=("--worker-connections=20",))  # type: ignore[arg-type]
    web.start_web()
    try:
        with sockets(web.port, b"GET /health HTTP/1.1\r\nX-Slow: ", count=200):
            assert [ask(web.port, "/health") for _ in range(4)] == [200] * 4
            assert max(map(_count_clients, web.workers())) <= 20
    finally:
        web.kill_all()


def _count_clients(worker: psutil.Process) -> int:
    return sum(each.status == psutil.CONN_ESTABLISHED for each in worker.net_connections("tcp"))


def test_answers_come_in_the_order_of_the_requests(chaos_web: ChaosWeb) -> None:
    paths = ["/health", "/nothing", "/health", "/ready"]
    sent = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths[:-1])
    last = f"GET {paths[-1]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", chaos_web.port), timeout=SOON_SECONDS) as client:
        client.sendall((sent + last).encode())
        received = b"".join(iter(lambda: client.recv(65536), b""))
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"200"]


def test_body_is_asked_for_where_the_client_waits_to_be_asked(chaos_web: ChaosWeb, token: str) -> None:
    body = b'{"task": "asked for", "reflect": false}'
    head = POST + f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n".encode()
    with socket.create_connection(("127.0.0.1", chaos_web.port), timeout=SOON_SECONDS) as client:
        client.sendall(head + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        first = client.recv(65536)
        client.sendall(body)
        rest = b"".join(iter(lambda: client.recv(65536), b""))
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert rest.startswith(b"HTTP/1.1 201 ")


def test_process_that_served_its_share_is_replaced_and_no_request_fails(
    served_environment: dict[str, str], tmp_path: object
) -> None:
    options = ("--max-requests=30", "--max-requests-jitter=10")
    web = ChaosWeb(home=tmp_path, environment=served_environment, options=options)  # type: ignore[arg-type]
    web.start_web()
    before = {worker.pid for worker in web.workers()}
    try:
        assert [ask(web.port, "/nothing") for _ in range(150)] == [404] * 150
        assert before.isdisjoint(worker.pid for worker in web.workers())
    finally:
        web.kill_all()


def test_requests_under_way_are_answered_when_the_server_stops(
    served_environment: dict[str, str], tmp_path: object, token: str
) -> None:
    web = ChaosWeb(home=tmp_path, environment=served_environment)  # type: ignore[arg-type]
    web.start_web()
    body = b'{"task": "to the end", "reflect": false}'
    request = POST + f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with runs_locked(), sockets(web.port, request, count=4) as clients:
        stopper = threading.Thread(target=web.stop, args=["web"])
        stopper.start()
        answers = [client.recv(65536) for client in clients]
    stopper.join()
    assert {answer[9:12] for answer in answers} == {b"503"}, "the lock was not free in time"
