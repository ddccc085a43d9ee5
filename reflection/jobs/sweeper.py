"""A thread in every worker's main process that finds what the broker forgot (reliability B7, B12).

Once a second one of the workers rings again for what is overdue. A worker that is idle while work waits runs the work
in a process of its own, and ends when even that goes on for long: its supervisor starts it anew.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import structlog
from celery import bootsteps
from celery.worker import WorkController, state
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from memory.failpoints import failpoint
from reflection.jobs.doorbell import FIRST_PAUSE_SECONDS, SWEEP, Doorbell
from reflection.jobs.housekeeping import Overdue, elect_sweeper, find_overdue_reflections, nudge, record_heartbeat
from reflection.jobs.queue import release_claims
from reflection.jobs.worker_identity import name_worker
from reflection.models import Reflection, WorkerHeartbeat

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
HOUSEKEEPING_SECONDS = 60.0
NUDGE_AGAIN_SECONDS = 10.0
DRAIN_LIMIT = 20
TAKE_OVER_SECONDS = 1.2


def add_sweeper(sender: WorkController, **_: Any) -> None:
    """Give a worker that is being made its sweeper."""
    sender.app.steps["worker"].add(SweeperStep)


class SweeperStep(bootsteps.StartStopStep):
    """Starts and stops the sweeper with the worker, where it takes reflections at all."""

    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        return parent.app.conf.task_default_queue in parent.app.amqp.queues.consume_from

    def create(self, parent: Any) -> Any:
        return Sweeper(worker=name_worker(parent.hostname), concurrency=parent.concurrency)


class Sweeper:
    """The thread and what it remembers."""

    def __init__(self, *, worker: str, concurrency: int, started_at: float | None = None) -> None:
        self.worker = worker
        self._concurrency = concurrency
        self._bell = Doorbell(longest_pause_seconds=FIRST_PAUSE_SECONDS)
        self._stop = Event()
        self._thread = Thread(target=self._run, name="sweeper", daemon=True)
        self._next_heartbeat = 0.0
        self._next_housekeeping = time.monotonic() + HOUSEKEEPING_SECONDS
        self._nudged_at: dict[Overdue, float] = {}
        self._broker_answered_at = 0.0
        self._started_at = time.monotonic() if started_at is None else started_at
        self._stalled_since: float | None = None
        self._drain: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and what it started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._drain is not None and self._drain.poll() is None:
            self._drain.terminate()
            try:
                self._drain.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._drain.kill()
                self._drain.wait()

    def terminate(self) -> None:
        """End at once: what this worker's processes hold goes back, and they are fenced out of it."""
        self.stop()
        try:
            released = release_claims(f"{self.worker}/")
        except (DatabaseError, InterfaceError) as error:
            log.warning("claims_not_released", error=type(error).__name__)
        else:
            log.info("claims_released", count=released)

    def tick(self) -> None:
        """Do what is due this second."""
        now = time.monotonic()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_SECONDS
            record_heartbeat(self.worker)
        if elect_sweeper(self.worker, unless_swept_within_seconds=TAKE_OVER_SECONDS):
            failpoint("sweep.elected")
            self._nudge(find_overdue_reflections(), now=now)
        if now >= self._next_housekeeping:
            self._next_housekeeping = now + HOUSEKEEPING_SECONDS
            # In a child: housekeeping may load the embedder, which this process must not carry into its forks.
            self._bell.send(SWEEP, expires_seconds=HOUSEKEEPING_SECONDS)
        self._help_if_stalled(now)

    def _run(self) -> None:
        failing = ""
        while True:
            try:
                self.tick()
            except Exception as error:  # nothing may end this thread but its worker
                kind = type(error).__name__
                if kind != failing:
                    log.warning("sweep_failed", error=kind)
                failing = kind
                connection.close()
            else:
                failing = ""
            if self._stop.wait(PERIOD_SECONDS):
                break
        connection.close()

    def _nudge(self, overdue: list[Overdue], *, now: float) -> None:
        again = now - NUDGE_AGAIN_SECONDS
        self._nudged_at = {each: at for each, at in self._nudged_at.items() if at > again}
        rung = nudge([each for each in overdue if each not in self._nudged_at], bell=self._bell)
        if rung:
            self._broker_answered_at = now
            self._nudged_at |= dict.fromkeys(rung, now)

    def _help_if_stalled(self, now: float) -> None:
        stall_seconds = settings.ERL_REFLECTION_LEASE_SECONDS
        # A worker that has just started finds what waited for it, and has to be given its messages first.
        if now - self._started_at < stall_seconds or len(state.active_requests) >= self._concurrency:
            return
        if Reflection.objects.oldest_due_age_seconds() <= stall_seconds:
            return
        since = Now() - timedelta(seconds=stall_seconds)
        if WorkerHeartbeat.objects.filter(pk=self.worker, last_claim_at__gte=since).exists():
            self._stalled_since = None
            return
        self._help(now)
        if self._stalled_since is None:
            self._stalled_since = now
        broker_works = now - self._broker_answered_at < 2 * NUDGE_AGAIN_SECONDS
        if broker_works and now - self._stalled_since > 3 * stall_seconds:
            # The broker takes messages and none has arrived here since: only a new connection helps.
            log.error("worker_stalled", worker=self.worker, action="ends, to be started anew")
            self._stalled_since = now
            os.kill(os.getpid(), signal.SIGTERM)

    def _help(self, now: float) -> None:
        """Find out whether the broker takes messages, and do meanwhile what nobody else does."""
        self._nudge(find_overdue_reflections(limit=1), now=now)
        if self._drain is None or self._drain.poll() is not None:
            log.warning("worker_stalled", worker=self.worker, action="runs overdue reflections in its own process")
            self._drain = self.start_drain()

    def start_drain(self) -> subprocess.Popen[bytes]:
        """Work on some reflections in a process of their own, apart from whatever is wrong in this one."""
        program = [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_reflections", "--limit", str(DRAIN_LIMIT)]
        return subprocess.Popen(
            program, cwd=settings.BASE_DIR, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
