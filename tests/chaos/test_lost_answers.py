"""An answer that is lost after the commit (reliability A7, F4)."""

import hashlib

import pytest

from memory.runs.models import Trajectory
from tests.chaos.profile import History, pick, report
from tests.chaos.proxy import Fault, FaultProxy
from tests.chaos.web import RIGHT, ChaosWeb, post
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LOST = pick(20, 500, full=200)
REPLAYS = 2


def test_lost_answer_is_given_again_byte_for_byte(chaos_web: ChaosWeb) -> None:
    token = make_api_key().token
    history = History(name="F4")
    lost: list[bytes] = []
    differing = []
    with FaultProxy(upstream=("127.0.0.1", chaos_web.port)) as proxy:
        proxy.on_lost_answer = lost.append
        proxy.break_with(Fault.LOSE_ANSWERS)
        for number in range(LOST):
            key = f"lost-{number}"
            history.attempt(key)
            with pytest.raises(ConnectionError):
                post(proxy.port, RIGHT, token=token, key=key)
            _, _, sent = lost[-1].partition(b"\r\n\r\n")
            again = [post(chaos_web.port, RIGHT, token=token, key=key).body for _ in range(REPLAYS)]
            history.acknowledge(key)
            if {hashlib.sha256(body).digest() for body in again} != {hashlib.sha256(sent).digest()}:
                differing.append(key)

    verdict = history.judge(Trajectory.objects.values_list("task", flat=True))
    report("F4", answers_lost=len(lost), **verdict.counts(), differing=len(differing))
    assert len(lost) == LOST
    assert all(answer.startswith(b"HTTP/1.1 201") for answer in lost)
    assert verdict.is_sound
    assert differing == []
