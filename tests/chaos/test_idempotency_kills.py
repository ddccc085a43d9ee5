"""A web process that dies in the middle of a request (reliability A1, F1)."""

import json
import threading
import time
from collections.abc import Iterator
from statistics import median
from typing import Any
from uuid import UUID

import pytest

from memory.services.create_api_key import NewApiKey
from tests.chaos.profile import make_random, pick, report
from tests.chaos.web import BROKEN, RIGHT, ChaosWeb, find_violations, post_until_done
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

POINTS = pick(60, 1000)
MOST_SECONDS = 180  # then the points that were tried are the result


def measure_request_seconds(web: ChaosWeb, path: str, token: str) -> float:
    times = []
    for number in range(12):
        started = time.perf_counter()
        post_until_done(web.port, path, token=token, key=f"warm-{number}")
        times.append(time.perf_counter() - started)
    return median(times)


def kill_while_posting(web: ChaosWeb, path: str, token: str, key: str, *, after_seconds: float) -> dict[str, Any]:
    """Post, kill the workers a moment later, and repeat the post until it is answered."""
    killed_at: list[float] = []

    def kill() -> None:
        time.sleep(after_seconds)
        killed_at.append(time.perf_counter())
        web.kill_workers()

    killer = threading.Thread(target=kill)
    killer.start()
    answer, unanswered = post_until_done(web.port, path, token=token, key=key)
    answered_at = time.perf_counter()
    killer.join()
    # The answer may have come before the kill; the workers must be back for the next point either way.
    after, _ = post_until_done(web.port, path, token=token, key=key)
    return {
        "id": UUID(json.loads(answer.body)["id"]),
        "same_bytes": after.body == answer.body,
        "in_flight": unanswered > 0,
        "recovery_seconds": answered_at - killed_at[0],
    }


def kill_often(web: ChaosWeb, path: str, new: NewApiKey, *, points: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the result of one point after the other, at random moments of a request and a bit beyond."""
    moments = make_random("F1")
    usual = measure_request_seconds(web, path, new.token)
    end = time.monotonic() + MOST_SECONDS
    for number in range(points):
        if time.monotonic() > end:
            return
        key = f"kill-{number}"
        yield key, kill_while_posting(web, path, new.token, key, after_seconds=moments.uniform(0, 1.6 * usual))


def find_first_violation(web: ChaosWeb, path: str, new: NewApiKey, *, points: int) -> list[str]:
    """Kill until something is wrong, and say what."""
    for key, result in kill_often(web, path, new, points=points):
        if wrong := find_violations(new.api_key.project, {key: result["id"]}):
            return wrong
    return []


def test_request_whose_worker_is_killed_is_neither_lost_nor_doubled(chaos_web: ChaosWeb) -> None:
    new = make_api_key()

    results = dict(kill_often(chaos_web, RIGHT, new, points=POINTS))

    hit = [result["recovery_seconds"] * 1000 for result in results.values() if result["in_flight"]]
    violations = find_violations(new.api_key.project, {key: result["id"] for key, result in results.items()})
    report(
        "F1",
        points=len(results),
        killed_in_flight=len(hit),
        violations=len(violations),
        changed_replays=sum(not result["same_bytes"] for result in results.values()),
        recovery_ms_p50=round(median(hit)) if hit else None,
        recovery_ms_p99=round(sorted(hit)[int(len(hit) * 0.99)]) if hit else None,
    )
    assert violations == []
    assert all(result["same_bytes"] for result in results.values())
    assert len(hit) >= len(results) / 6, "the kills came too late to prove anything"


def test_check_notices_duplicates_of_a_key_recorded_in_a_second_transaction(chaos_web: ChaosWeb) -> None:
    assert find_first_violation(chaos_web, BROKEN, make_api_key(), points=POINTS)
