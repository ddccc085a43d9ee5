"""Ask web servers through the balancer, and note when each answer came."""

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """When an answer came and what it was: status 0 stands for none, `lessons` are how many it told."""

    at: float
    status: int
    lessons: int = 0
    task: str = ""


@dataclass(kw_only=True)
class Load:
    """Clients that ask as soon as they have their answer, until stopped."""

    address: str
    token: str
    answers: list[Answer] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self, path: str, *, clients: int, make_body: Callable[[int, int], dict[str, Any]]) -> None:
        """Let clients post bodies to a path; runs are sent again, with their key, until they are accepted."""
        for client in range(clients):
            thread = threading.Thread(target=self._ask, args=(path, client, make_body), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> list[Answer]:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        return sorted(self.answers, key=lambda answer: answer.at)

    def _ask(self, path: str, client: int, make_body: Callable[[int, int], dict[str, Any]]) -> None:
        number = 0
        while not self._stopped.is_set():
            body = make_body(client, number)
            key = f"{path}-{client}-{number}" if path.endswith("trajectories") else ""
            status, told = self._post(path, json.dumps(body), key)
            lessons = len(told.get("items", [])) if status == 200 else 0
            self.answers.append(Answer(at=time.monotonic(), status=status, lessons=lessons, task=body["task"]))
            if status in (200, 201):
                number += 1
            else:
                time.sleep(0.05)

    def _post(self, path: str, body: str, key: str) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Connection": "close"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            told = answer.read()
            return answer.status, json.loads(told) if answer.status < 300 else {}
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()


def find_longest_gap(times: list[float], *, begun: float, ended: float) -> float:
    """Return the longest time without an answer, in seconds."""
    moments = [begun, *sorted(times), ended]
    return max(later - earlier for earlier, later in pairwise(moments))
