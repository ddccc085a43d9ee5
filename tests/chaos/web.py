"""A web server to be killed, and what must hold of the database afterwards."""

import http.client
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

import psutil

from memory.api.models import IdempotencyRecord
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.stack import Stack

WORKERS = 2
RIGHT, BROKEN = "/api/v1/trajectories", "/broken/trajectories"


@dataclass(kw_only=True)
class ChaosWeb(Stack):
    """Gunicorn with two workers, forked from a warm master so that a killed one is back at once."""

    options: tuple[str, ...] = ()

    def start_web(self) -> None:
        place = ["--bind", f"127.0.0.1:{self.port}", "--workers", str(WORKERS), "--threads", "4"]
        options = ["--config=python:erl_site.web.gunicorn_config", "--preload", "--no-control-socket"]
        self._start("web", "gunicorn", "tests.chaos.asgi", *options, *place, *self.options)
        self._wait("web", self._web_answers)

    def workers(self) -> list[psutil.Process]:
        """Return the workers there are. The master lives and replaces those that were killed."""
        return [child for child in psutil.Process(self.processes["web"].pid).children() if _is_alive(child)]

    def wait_for_workers(self) -> None:
        """Wait until all of them are back."""
        while len(self.workers()) < WORKERS:
            time.sleep(0.005)

    def wait_for_connections(self, *, seconds: float = 2.0) -> None:
        """Wait until each worker has connected to the database, which one does by itself that nobody asks."""
        end = time.monotonic() + seconds
        while not all(map(_is_connected, self.workers())) and time.monotonic() < end:
            time.sleep(0.01)


def _is_connected(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(each.status != psutil.CONN_LISTEN for each in process.net_connections("all"))
    return True


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    body: bytes
    seconds: float  # from the beginning of the attempt that got it


def post(port: int, path: str, *, token: str, key: str, timeout_seconds: float = 10) -> Answer:
    """Record the run named after its key, over a connection of its own. Raises OSError where there is no answer."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
    try:
        headers = {
            "Authorization": f"Bearer {token}",
            "Idempotency-Key": key,
            "Content-Type": "application/json",
        }
        connection.request("POST", path, json.dumps({"task": key, "reflect": False}), headers)
        response = connection.getresponse()
        body = response.read()
        return Answer(status=response.status, body=body, seconds=time.perf_counter() - started)
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def post_until_done(port: int, path: str, *, token: str, key: str, seconds: float = 20) -> tuple[Answer, int]:
    """Repeat a request until it is answered for good; also return how many attempts got no answer."""
    unanswered, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            answer = post(port, path, token=token, key=key)
        except OSError:
            unanswered += 1
            time.sleep(0.01)
            continue
        if answer.status != 409:
            return answer, unanswered
        time.sleep(0.01)
    raise AssertionError(f"no answer to {key} within {seconds} seconds")


def find_violations(project: Project, acknowledged: dict[str, UUID | None]) -> list[str]:
    """Say what is wrong with the rows that requests left behind.

    `acknowledged` maps each key that was used to the id its client was given, or to None where none was.
    """
    rows: dict[str, list[UUID]] = {}
    for task, pk in Trajectory.objects.filter(project=project, task__in=acknowledged).values_list("task", "pk"):
        rows.setdefault(task, []).append(pk)
    records = {
        record.key: record.resource_id
        for record in IdempotencyRecord.objects.filter(project=project, key__in=acknowledged)
    }
    wrong = []
    for key, given in acknowledged.items():
        found = rows.get(key, [])
        if len(found) > 1:
            wrong.append(f"{key}: {len(found)} effects")
        if given is not None and given not in found:
            wrong.append(f"{key}: acknowledged and lost")
        if [records[key]] != found if key in records else bool(found):
            wrong.append(f"{key}: the record says {records.get(key)}, the rows are {found}")
    return wrong
