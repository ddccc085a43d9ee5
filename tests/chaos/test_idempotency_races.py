"""Identical requests at the same moment (reliability A2, F3)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memory.runs.models import Trajectory
from tests.chaos import same_request
from tests.chaos.profile import pick, report
from tests.chaos.web import BROKEN, RIGHT, ChaosWeb, find_violations, post
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CLIENTS, ROUNDS, BROKEN_ROUNDS = 8, pick(20, 500, full=200), 10


class Clients:
    """Client processes that wait for a word and then send the same request."""

    def __init__(self, port: int, token: str) -> None:
        command = [sys.executable, str(Path(same_request.__file__)), str(port), token]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)
        ]

    def post(self, path: str, key: str) -> list[tuple[int, bytes]]:
        """Let all of them send it at once and return status and body of each answer."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{path} {key}\n")
            process.stdin.flush()
        answers = []
        for process in self.processes:
            assert process.stdout is not None
            status, _, body = process.stdout.readline().rstrip("\n").partition(" ")
            answers.append((int(status), body.encode()))
        return answers

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def key_and_clients(chaos_web: ChaosWeb) -> Iterator[Any]:
    new = make_api_key()
    clients = Clients(chaos_web.port, new.token)
    yield new, clients
    clients.end()


def test_identical_requests_at_once_have_one_effect(chaos_web: ChaosWeb, key_and_clients: Any) -> None:
    new, clients = key_and_clients
    rounds = {f"round-{number}": clients.post(RIGHT, f"round-{number}") for number in range(ROUNDS)}

    made = {key: {body for status, body in answers if status == 201} for key, answers in rounds.items()}
    again = {key: post(chaos_web.port, RIGHT, token=new.token, key=key) for key in rounds}
    acknowledged: dict[str, UUID | None] = {key: _id(next(iter(bodies))) for key, bodies in made.items()}
    refused = [body for answers in rounds.values() for status, body in answers if status == 409]
    report(
        "F3",
        clients=CLIENTS,
        rounds=ROUNDS,
        rows=Trajectory.objects.count(),
        answers=sum(map(len, rounds.values())),
        refused=len(refused),
    )
    assert Trajectory.objects.count() == ROUNDS
    assert {status for answers in rounds.values() for status, _ in answers} == {201, 409}
    assert {len(bodies) for bodies in made.values()} == {1}
    assert {key: {answer.body} for key, answer in again.items()} == made  # every loser's retry gets the winner's bytes
    assert {json.loads(body)["error"]["code"] for body in refused} == {"idempotency_in_progress"}
    assert find_violations(new.api_key.project, acknowledged) == []


def test_check_notices_a_key_recorded_in_a_second_transaction(chaos_web: ChaosWeb, key_and_clients: Any) -> None:
    new, clients = key_and_clients
    keys = [f"round-{number}" for number in range(BROKEN_ROUNDS)]
    for key in keys:
        clients.post(BROKEN, key)

    assert Trajectory.objects.count() > BROKEN_ROUNDS
    assert find_violations(new.api_key.project, dict.fromkeys(keys))


def _id(body: bytes) -> UUID:
    return UUID(json.loads(body)["id"])
