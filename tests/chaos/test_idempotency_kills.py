"""A web process that dies in the middle of a request (reliability A1, F1)."""

import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from statistics import median
from typing import Any
from uuid import UUID

import psutil
import pytest

from memory.projects.api_keys import NewApiKey
from tests.chaos.jobs import kill
from tests.chaos.profile import make_random, pick, report
from tests.chaos.web import BROKEN, RIGHT, ChaosWeb, find_violations, post_until_done
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

POINTS = pick(30, 1000, full=300)
ALL_EVERY = 4  # at every fourth point all workers are killed, elsewhere one of them
MOST_SECONDS = pick(25, 420, full=120)  # then the points that were tried are the result
WARMING = 6


def measure_request_seconds(web: ChaosWeb, path: str, token: str) -> float:
    times = []
    for number in range(24):
        started = time.perf_counter()
        post_until_done(web.port, path, token=token, key=f"warm-{number}")
        times.append(time.perf_counter() - started)
    return median(times[12:])  # the first ones are slower


def kill_while_posting(
    web: ChaosWeb, path: str, token: str, key: str, *, doomed: Sequence[psutil.Process], after_seconds: float
) -> dict[str, Any]:
    """Post, kill workers a moment later, and repeat the post until it is answered."""
    killed_at: list[float] = []

    def kill_them() -> None:
        time.sleep(after_seconds)
        killed_at.append(time.perf_counter())
        for worker in doomed:
            kill(worker.pid)

    killer = threading.Thread(target=kill_them)
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
        "all_killed": len(doomed) > 1,
        "retry_ms": answer.seconds * 1000,
        "recovery_ms": (answered_at - killed_at[0]) * 1000,
    }


def kill_often(
    web: ChaosWeb, path: str, new: NewApiKey, *, points: int, all_every: int = ALL_EVERY
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the result of one point after the other, at random moments of a request and a bit beyond."""
    moments = make_random("F1")
    usual = measure_request_seconds(web, path, new.token)
    end = time.monotonic() + MOST_SECONDS
    for number in range(points):
        if time.monotonic() > end:
            return
        key = f"kill-{number}"
        web.wait_for_workers()
        workers = sorted(web.workers(), key=attrgetter("pid"))
        doomed = workers if number % all_every == 0 else [moments.choice(workers)]
        if number % all_every:
            web.wait_for_connections()
            warm_up(web, path, new.token, number)
        after_seconds = moments.uniform(0, 1.6 * usual)
        yield key, kill_while_posting(web, path, new.token, key, doomed=doomed, after_seconds=after_seconds)


def warm_up(web: ChaosWeb, path: str, token: str, number: int) -> None:
    """Let the worker that took the place of a killed one work too: workers seldom die as soon as they start."""
    with ThreadPoolExecutor(max_workers=WARMING) as pool:
        keys = [f"warm-{number}-{each}" for each in range(WARMING)]
        list(pool.map(lambda key: post_until_done(web.port, path, token=token, key=key), keys))


def percentiles(results: Iterable[dict[str, Any]], *, all_killed: bool) -> dict[str, int]:
    """Return how long the repetition of a killed request took, and how long it was from the kill to its answer."""
    hit = [each for each in results if each["in_flight"] and each["all_killed"] == all_killed]
    name = "all" if all_killed else "one"
    if not hit:
        return {}
    found = {f"{name}_killed_in_flight": len(hit)}
    for what in ("retry", "recovery"):
        times = sorted(each[f"{what}_ms"] for each in hit)
        found[f"{name}_{what}_ms_p50"] = round(median(times))
        found[f"{name}_{what}_ms_p99"] = round(times[int(len(times) * 0.99)])
    return found


def find_first_violation(web: ChaosWeb, path: str, new: NewApiKey, *, points: int) -> list[str]:
    """Kill until something is wrong, and say what."""
    for key, result in kill_often(web, path, new, points=points, all_every=1):
        if wrong := find_violations(new.api_key.project, {key: result["id"]}):
            return wrong
    return []


def test_request_whose_worker_is_killed_is_neither_lost_nor_doubled(chaos_web: ChaosWeb) -> None:
    new = make_api_key()

    results = dict(kill_often(chaos_web, RIGHT, new, points=POINTS))

    violations = find_violations(new.api_key.project, {key: result["id"] for key, result in results.items()})
    report(
        "F1",
        points=len(results),
        violations=len(violations),
        changed_replays=sum(not result["same_bytes"] for result in results.values()),
        **percentiles(results.values(), all_killed=False),
        **percentiles(results.values(), all_killed=True),
    )
    assert violations == []
    assert all(result["same_bytes"] for result in results.values())
    hit = sum(result["in_flight"] for result in results.values())
    assert hit >= len(results) / 10, "the kills came too late to prove anything"


def test_check_notices_duplicates_of_a_key_recorded_in_a_second_transaction(chaos_web: ChaosWeb) -> None:
    assert find_first_violation(chaos_web, BROKEN, make_api_key(), points=POINTS)
