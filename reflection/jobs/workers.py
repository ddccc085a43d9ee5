"""The name that a worker writes on the jobs it holds, and what becomes of these when it dies.

The name is `name@host/process of the worker`; a claim adds `/process that works`. Celery hands the task of a killed
process to another, and the caretaker in each worker's main process lets the row be claimed again: that of a process of
its own at once, those of another worker when its heartbeat has been missing for some seconds.
"""

import os
import signal
import socket
import time
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import structlog
from celery import bootsteps
from celery.worker import WorkController
from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from reflection.jobs.kinds import is_registered
from reflection.jobs.messages import sender
from reflection.jobs.models import Job, WorkerHeartbeat
from reflection.jobs.queue import release_claims

log = structlog.get_logger(__name__)

BEAT_SECONDS = 0.5
MISSING_SECONDS = 2.0
WATCHED_SECONDS = 1.0  # so that no worker looks dead when the database was away for a moment
HEARTBEAT_KEPT = timedelta(days=1)
_worker = ""


def name_worker(nodename: str) -> str:
    """Name this process as a worker; the processes it starts from now on inherit the name. Return it."""
    global _worker
    _worker = f"{nodename}/{os.getpid()}"
    return _worker


def owner_name() -> str:
    """Return the name under which this process claims jobs."""
    return f"{_worker or f'{socket.gethostname()}/{os.getpid()}'}/{os.getpid()}"


def add_caretaker(sender: WorkController, **_: Any) -> None:
    """Give a worker that is being made its caretaker."""
    sender.app.steps["worker"].add(CaretakerStep)


class CaretakerStep(bootsteps.StartStopStep):
    """Starts the caretaker with the worker, unless the worker only takes messages of other queues."""

    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        return parent.app.conf.task_default_queue in parent.app.amqp.queues.consume_from

    def create(self, parent: Any) -> Any:
        return Caretaker(name_worker(parent.hostname))


class Caretaker:
    """A thread that beats for its worker and gives back the jobs of those that died.

    A worker that is asked to end still works on what it holds, so the thread goes on until the process ends.
    """

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._missing_since: dict[str, float] = {}
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # takes no lock, as a signal handler needs it
        self._ends = Event()
        self._thread = Thread(target=self._run, name="caretaker", daemon=True)

    def start(self) -> None:
        # Wakes the thread when a child process dies, so its job is given back at once.
        signal.signal(signal.SIGCHLD, lambda *_: self._wakes.put(True))
        self._thread.start()

    def stop(self) -> None:
        """Go on: see the class."""

    def terminate(self) -> None:
        """End at once: give back what this worker's processes hold, which fences them out of it."""
        self._ends.set()
        self._wakes.put(True)
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        with suppress(DatabaseError, InterfaceError):
            self._give_back({owner for owner in _find_owners() if _worker_of(owner) == self.worker})

    def tick(self) -> None:
        """Beat, and look for jobs whose process or worker is gone."""
        now = time.monotonic()
        heartbeat = WorkerHeartbeat(name=self.worker, seen_at=Now())
        WorkerHeartbeat.objects.bulk_create(
            [heartbeat], update_conflicts=True, unique_fields=["name"], update_fields=["seen_at"]
        )
        owners = _find_owners()
        others = {_worker_of(owner) for owner in owners} - {self.worker}
        late = WorkerHeartbeat.objects.filter(pk__in=others, seen_at__lt=Now() - timedelta(seconds=MISSING_SECONDS))
        missing = set(late.values_list("pk", flat=True)) if others else set()
        # By the clock of this process: after an outage of the database, every heartbeat is old at first.
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        dead = {name for name, since in self._missing_since.items() if now - since >= WATCHED_SECONDS}
        self._give_back(
            {
                owner
                for owner in owners
                if _worker_of(owner) in dead or (_worker_of(owner) == self.worker and not _is_alive(owner))
            }
        )

    def _give_back(self, owners: set[str]) -> None:
        if not owners:
            return
        jobs = release_claims(owners)
        log.warning("jobs_given_back", owners=sorted(owners), count=len(jobs))
        for job_id, kind in jobs:
            # Jobs of a later version are sent again by its scheduler.
            if is_registered(kind):
                sender.send_job(job_id, kind)

    def _run(self) -> None:
        failing = ""
        while not self._ends.is_set():
            try:
                self.tick()
                failing = ""
            except Exception as error:
                # Nothing may end this thread but its worker.
                kind = type(error).__name__
                # A database that is away fails twice a second; one line in the log is enough.
                if kind != failing:
                    log.warning("caretaker_failed", error=kind)
                failing = kind
                # What was seen before the failure counts no longer: others could not beat either.
                self._missing_since.clear()
                connection.close()
            with suppress(Empty):
                self._wakes.get(timeout=BEAT_SECONDS)
        connection.close()


def forget_old_workers() -> None:
    """Delete the heartbeats of workers that have been gone for a day."""
    WorkerHeartbeat.objects.filter(seen_at__lt=Now() - HEARTBEAT_KEPT).delete()


def _find_owners() -> set[str]:
    return set(Job.objects.filter(status=Job.Status.RUNNING).order_by().values_list("lease_owner", flat=True))


def _worker_of(owner: str) -> str:
    return owner.rpartition("/")[0]


def _is_alive(owner: str) -> bool:
    """Return whether a process of this worker still runs; one that was killed stays for a moment, as a zombie."""
    process_id = int(owner.rpartition("/")[2])
    if process_id == os.getpid():
        return True
    try:
        if hasattr(os, "waitid"):
            # WNOWAIT leaves the dead child to Celery, whose pool has to collect it.
            return os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        os.kill(process_id, 0)
    except (ChildProcessError, ProcessLookupError):
        return False
    return True
