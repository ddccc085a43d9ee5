"""Who asks too much is told when to come back (reliability A9, A13, B11, D13)."""

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine

from memory.api import idempotency
from memory.api.throttling import Counters, Limit, counters, read_limits
from memory.runs.models import Trajectory
from reflection.reflectors import requests
from reflection.reflectors.models import Reflection
from tests.api.conftest import make_client
from tests.api.problems import error_of
from tests.erl_site.env_example import reads
from tests.factories import make_api_key, make_reflection, make_trajectory

pytestmark = pytest.mark.django_db

_RATE = re.compile(r'"(?P<scope>[a-z:]+)";r=(?P<left>\d+);t=(?P<seconds>\d+)')


@pytest.fixture(autouse=True)
def _count_from_zero(broker: str) -> Iterator[None]:
    """Begin at the start of a minute, as windows do."""
    counters.forget()
    with time_machine.travel(time.time() // 60 * 60 + 1):
        yield
    counters.forget()


def left(response: Any) -> int:
    match = _RATE.fullmatch(response["RateLimit"])
    assert match is not None
    return int(match["left"])


def test_key_over_its_limit_is_turned_away_with_the_time_to_wait(settings: Any, api_client: Any) -> None:
    settings.ERL_RATE_LIMITS = ["heuristics:read=2/30"]

    first, second, third = (api_client.get("/api/v1/heuristics") for _ in range(3))

    assert (first.status_code, second.status_code, left(first), left(second)) == (200, 200, 1, 0)
    assert first["RateLimit-Policy"] == '"heuristics:read";q=2;w=30'
    assert error_of(third) == (429, "rate_limited")
    match = _RATE.fullmatch(third["RateLimit"])
    assert match is not None
    assert int(third["Retry-After"]) >= int(match["seconds"]) > 0


def test_other_keys_and_other_scopes_are_not_counted(settings: Any, api_client: Any, project: Any) -> None:
    settings.ERL_RATE_LIMITS = ["heuristics:read=1/30"]
    api_client.get("/api/v1/heuristics")

    other = make_client(make_api_key(project=project).token).get("/api/v1/heuristics")
    elsewhere = api_client.get("/api/v1/trajectories")

    assert (other.status_code, elsewhere.status_code) == (200, 200)
    assert "RateLimit" not in elsewhere


@pytest.mark.parametrize("broker_url", ["", "redis://127.0.0.1:1/0"], ids=["counted together", "broker away"])
def test_fifty_threads_get_exactly_the_quota(settings: Any, broker_url: str) -> None:
    settings.CELERY_BROKER_URL = broker_url or settings.CELERY_BROKER_URL
    limit = Limit(scope="test", requests=100, seconds=60)
    patient = Counters(socket_seconds=30)  # a loaded machine answers late, and then each process counts for itself
    allowed: list[bool] = []

    def ask() -> None:
        for _ in range(4):
            allowed.append(patient.count(f"threads:{broker_url}:{id(allowed)}", limit).allowed)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(allowed), sum(allowed)) == (200, 100)


def test_connection_that_is_closed_under_a_request_turns_nobody_away() -> None:
    limit = Limit(scope="test", requests=100, seconds=60)
    patient = Counters(socket_seconds=30)
    patient.count("closed", limit)
    (server,) = patient._servers.values()
    kept = server.connection_pool.get_connection()
    server.connection_pool.release(kept)
    kept._parser._buffer.close()

    assert patient.count("closed", limit).used == 1  # by this process alone


def test_address_that_tries_many_keys_has_to_wait(settings: Any) -> None:
    settings.ERL_RATE_LIMITS = ["failed=2/60"]
    guesser = make_client("erl_live_nonsense")

    answers = [error_of(guesser.get("/api/v1/heuristics", REMOTE_ADDR="203.0.113.9")) for _ in range(3)]

    assert answers == [(401, "invalid_api_key"), (401, "invalid_api_key"), (429, "rate_limited")]


@pytest.mark.parametrize("line", ["reflect", "reflect=x/60", "reflect=0/60", "=1/1", "reflect=5"])
def test_limit_that_limits_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_limits((line,))


def test_full_queue_turns_a_client_away_and_stores_nothing(
    api_client: Any, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_WAITING", 2)
    for _ in range(2):
        make_reflection(trajectory=make_trajectory(project=project))

    refused = api_client.post("/api/v1/trajectories", {"task": "One more"})
    unreflected = api_client.post("/api/v1/trajectories", {"task": "One more", "reflect": False})

    assert error_of(refused) == (429, "queue_full")
    assert int(refused["Retry-After"]) > 0
    assert unreflected.status_code == 201
    assert (Trajectory.objects.count(), Reflection.objects.count()) == (3, 2)


@pytest.mark.parametrize(("seconds", "second"), [(0.0, 429), (600.0, 201)])
def test_queue_that_had_room_is_counted_again_after_a_while(
    api_client: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, second: int
) -> None:
    monkeypatch.setattr(requests, "MAX_WAITING", 1)
    monkeypatch.setattr(requests, "COUNTED_FOR_SECONDS", seconds)

    answers = [api_client.post("/api/v1/trajectories", {"task": task}).status_code for task in ("one", "two")]

    assert answers == [201, second]


def test_client_with_too_many_stored_keys_is_turned_away(api_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEYS", 1)
    monkeypatch.setattr(idempotency, "KEYS_BETWEEN_COUNTS", 1)

    answers = [
        api_client.post("/api/v1/trajectories", {"task": "t", "reflect": False}, headers={"Idempotency-Key": key})
        for key in ("one", "two", "three")
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert answers[2].json()["error"]["code"] == "too_many_keys"


@pytest.mark.parametrize(
    ("path", "body", "scope"),
    [
        ("/api/v1/retrieve", {"task": "Cancel"}, "retrieve"),
        ("/api/v1/trajectories", {"task": "Cancel", "steps": [], "outcome": "failure"}, "trajectories:write"),
    ],
)
def test_asking_and_recording_are_limited_by_default(
    settings: Any, api_client: Any, api_key: Any, path: str, body: dict[str, Any], scope: str
) -> None:
    (settings.ERL_RATE_LIMITS,) = (read.default for read in reads() if read.name == "ERL_RATE_LIMITS")
    limit = read_limits(tuple(settings.ERL_RATE_LIMITS))[scope]
    first = api_client.post(path, body)
    for _ in range(limit.requests):
        counters.count(f"{api_key.api_key.pk}:{scope}", limit)

    last = api_client.post(path, body)

    assert first.status_code in (200, 201)
    assert first["RateLimit-Policy"] == f'"{scope}";q={limit.requests};w={limit.seconds}'
    assert limit.requests / limit.seconds >= 50, "generous"
    assert error_of(last) == (429, "rate_limited")
    assert int(last["Retry-After"]) > 0
