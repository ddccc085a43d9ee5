"""An answer that is lost after the commit (reliability A7, F4)."""

import hashlib
import json
import socket

import pytest

from memory.models import IdempotencyRecord, Trajectory
from tests.chaos.profile import History, pick, report
from tests.chaos.web import RIGHT, ChaosWeb, post
from tests.factories import make_api_key
from tests.reflection.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LOST = pick(25, 500)


def post_and_hang_up(port: int, *, token: str, key: str) -> None:
    """Send a request and go away before its answer comes."""
    body = json.dumps({"task": key, "reflect": False}).encode()
    head = (
        f"POST {RIGHT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # reset, not close
        client.sendall(head.encode() + body)
        wait_until(lambda: IdempotencyRecord.objects.filter(key=key).exists(), seconds=10)


def test_lost_answer_is_given_again_byte_for_byte(chaos_web: ChaosWeb) -> None:
    new = make_api_key()
    history = History(name="F4")
    differing = []
    for number in range(LOST):
        key = f"lost-{number}"
        history.attempt(key)
        post_and_hang_up(chaos_web.port, token=new.token, key=key)
        stored = bytes(IdempotencyRecord.objects.get(key=key).body)
        again = [post(chaos_web.port, RIGHT, token=new.token, key=key).body for _ in range(2)]
        history.acknowledge(key)
        if {hashlib.sha256(body).digest() for body in again} != {hashlib.sha256(stored).digest()}:
            differing.append(key)

    verdict = history.judge(Trajectory.objects.values_list("task", flat=True))
    report("F4", **verdict.counts(), differing=len(differing))
    assert verdict.is_sound
    assert differing == []
