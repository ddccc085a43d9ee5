"""Clients that post without a pause and repeat what got no answer, while something is broken."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.chaos.profile import History
from tests.chaos.web import RIGHT, post
from tests.waiting import wait_until

HANG_SECONDS = 5.0
GIVE_UP_SECONDS = 60.0  # no answer at all for so long: the client reports a failure
PAUSE_SECONDS = 0.02


@dataclass(kw_only=True)
class Load:
    """What clients sent and what they met. One request is one key, however often it is repeated."""

    port: int
    token: str
    history: History
    prefix: str = "run"
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    recorded: Counter[int] = field(default_factory=Counter)  # by client
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def hangs(self) -> int:
        """How many attempts took longer than anybody should wait."""
        return sum(seconds > HANG_SECONDS for seconds in self.seconds)

    @property
    def not_recorded(self) -> int:
        """How many attempts were answered otherwise than with success, or not at all."""
        with self._lock:
            return sum(count for status, count in self.statuses.items() if status != "201")

    @property
    def slowest_seconds(self) -> float:
        return round(max(self.seconds, default=0.0), 2)

    def run(self, client: int) -> None:
        """Post one run after the other until told to stop; the last one is repeated to its end."""
        number = 0
        while not self.stop.is_set():
            number += 1
            self._post_until_done(f"{self.prefix}-{client}-{number}")
            self.recorded[client] += 1
            time.sleep(PAUSE_SECONDS)

    def wait_for_each_client(self) -> None:
        """Wait until nobody's request is one that was under way when this was called, nor the one after it."""
        before = dict(self.recorded)
        wait_until(lambda: all(self.recorded[client] >= count + 2 for client, count in before.items()), seconds=60)

    def _post_until_done(self, key: str) -> None:
        self.history.attempt(key)
        end = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < end:
            started = time.monotonic()
            try:
                answer = post(self.port, RIGHT, token=self.token, key=key, timeout_seconds=30)
                status, said = answer.status, answer.body
            except OSError as error:
                status, said = 0, type(error).__name__.encode()
            with self._lock:
                self.seconds.append(time.monotonic() - started)
                self.statuses[str(status or "no answer")] += 1
            if status == 201:
                assert json.loads(said)["id"]
                self.history.acknowledge(key)
                return
            if status not in (0, 409, 503):
                break
            time.sleep(PAUSE_SECONDS)
        with self._lock:
            self.failed.append(key)


@contextmanager
def posting(load: Load, *, clients: int = 3) -> Iterator[Load]:
    """Let so many clients post while the block runs; afterwards each has its last answer."""
    load.recorded.update(dict.fromkeys(range(clients), 0))
    threads = [threading.Thread(target=load.run, args=[number], daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        for thread in threads:
            thread.join(timeout=GIVE_UP_SECONDS + 40)
