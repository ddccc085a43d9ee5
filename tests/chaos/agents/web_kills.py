"""Kill the web server while readers follow runs, and compare what each read with the rows."""

import http.client
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Thread
from typing import Any
from uuid import UUID

import psutil

from memory.projects.api_keys import create_api_key
from runtime.streaming.reading import Seen, read_events
from tests.chaos.agents.policy import every_kind
from tests.chaos.agents.scene import Scene, load_average, scene
from tests.chaos.agents.worker_kills import a_person
from tests.chaos.web import ChaosWeb
from tests.waiting import wait_until

READERS_OF_ONE_RUN = 4
RUNS_AT_ONCE = 6
WHOLE_SERVER_EVERY = 5  # kills; otherwise a process that serves, which its master replaces
BETWEEN_KILLS_SECONDS = 1.0
LONGEST_SECONDS = 240.0
Read = tuple[int, str, Any]


@dataclass(kw_only=True)
class Reader(Thread):
    """Follows a run as a browser does: after each loss it goes on after the last event that it has."""

    port: int
    token: str
    run_id: UUID
    read: list[Read] = field(default_factory=list)
    cuts: int = 0  # of streams that had begun
    failures: int = 0  # also while no server was there

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = Thread.__hash__

    def run(self) -> None:
        end = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < end:
            try:
                if self._follow():
                    return
            except (OSError, http.client.HTTPException):
                self.failures += 1
            time.sleep(0.05)

    @property
    def _has_all(self) -> bool:
        return bool(self.read) and self.read[-1][1] == "run" and "stop_reason" in self.read[-1][2]

    def _follow(self) -> bool:
        """Read until the stream breaks; True where the run has ended."""
        there = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            last = {"Last-Event-ID": str(self.read[-1][0])} if self.read else {}
            headers = {"Authorization": f"Bearer {self.token}", "Accept": "text/event-stream", **last}
            there.request("GET", f"/api/v1/runs/{self.run_id}/events", headers=headers)
            answer = there.getresponse()
            if answer.status != 200:
                answer.read()
                return answer.status == 204
            try:
                for event in _events(answer):
                    self.read.append(event)
            finally:
                self.cuts += not self._has_all
            return False
        finally:
            there.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[Read]:
    """Read whole events, each ended by an empty line; what is cut off is none."""
    lines: dict[str, str] = {}
    while raw := answer.readline():
        line = raw.decode().rstrip("\n")
        if not line:
            if "id" in lines:
                yield int(lines["id"]), lines["event"], json.loads(lines["data"])
            lines = {}
        else:
            name, _, value = line.partition(": ")
            lines[name] = value


def kill_web_during_streams(*, streams: int, seed: int = 0) -> dict[str, Any]:
    """Let readers follow runs, kill the web server again and again, and return what came of it."""
    load = load_average()
    with scene("s", plan=every_kind, seed=seed) as on, a_person(on):
        web = ChaosWeb(home=on.jobs.stack.home, environment=on.jobs.stack.environment)
        try:
            web.start_web()
            token = create_api_key(on.project, client="reader", scopes=["run"]).token
            readers: list[Reader] = []
            kills = whole = 0
            next_kill = time.monotonic() + BETWEEN_KILLS_SECONDS
            while len(readers) < streams or on.live():
                while len(readers) < streams and on.live() < RUNS_AT_ONCE:
                    readers += _follow(on, web.port, token, min(READERS_OF_ONE_RUN, streams - len(readers)))
                if time.monotonic() > next_kill:
                    kills += 1
                    is_whole = kills % WHOLE_SERVER_EVERY == 0
                    whole += is_whole
                    _kill(web, on.dice, is_whole=is_whole)
                    next_kill = time.monotonic() + on.dice.uniform(0.5, 1.5) * BETWEEN_KILLS_SECONDS
                time.sleep(0.02)
            wait_until(lambda: not any(each.is_alive() for each in readers), seconds=60, every_seconds=0.1)
        finally:
            web.kill_all()
        missing, doubled, wrong = _compare(readers)
    return {
        "part": "web",
        "passed": not (missing or doubled or wrong) and bool(kills) and any(each.cuts for each in readers),
        "streams": len(readers),
        "runs": len(on.runs),
        "events": sum(len(each.read) for each in readers),
        "kills": kills,
        "of_whole_servers": whole,
        "streams_cut": sum(each.cuts for each in readers),
        "missing": missing,
        "doubled": doubled,
        "different": wrong,
        "load": [load, load_average()],
    }


def _follow(on: Scene, port: int, token: str, count: int) -> list[Reader]:
    run = on.start_run()
    readers = [Reader(port=port, token=token, run_id=run.pk) for _ in range(count)]
    for each in readers:
        each.start()
    return readers


def _kill(web: ChaosWeb, dice: random.Random, *, is_whole: bool) -> None:
    if is_whole:
        web.kill("web")
        web.start_web()
        return
    workers = web.workers()
    if workers:
        victim: psutil.Process = dice.choice(workers)
        victim.kill()


def _compare(readers: list[Reader]) -> tuple[int, int, int]:
    """Return how many events were missing, read twice or out of order, and other than their rows."""
    missing = doubled = wrong = 0
    rows: dict[UUID, dict[int, tuple[str, Any]]] = {}
    for reader in readers:
        if reader.run_id not in rows:
            rows[reader.run_id] = {seq: (kind, payload) for seq, kind, payload in _read_all(reader.run_id)}
        there = rows[reader.run_id]
        numbers = [seq for seq, _, _ in reader.read]
        missing += len(set(there) - set(numbers))
        doubled += sum(after <= before for before, after in pairwise(numbers))
        wrong += sum(there.get(seq) != (kind, payload) for seq, kind, payload in reader.read)
    return missing, doubled, wrong


def _read_all(run_id: UUID) -> list[Seen]:
    events: list[Seen] = []
    while page := read_events(run_id, after=len(events)):
        events += page
    return events
