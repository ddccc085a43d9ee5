"""A thread in every worker's main process that finds what the broker forgot (reliability B7, B12).

Once a second one of the workers rings again for what is overdue. A worker that is idle while work waits runs the work
in a process of its own. If that lasts too long, the worker ends, and its supervisor starts it again.
"""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Container, Iterable
from datetime import timedelta
from itertools import takewhile
from threading import Event, Thread
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from celery import bootsteps
from celery.worker import WorkController, state
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from memory.failpoints import failpoint
from reflection.jobs.doorbell import FIRST_PAUSE_SECONDS, SWEEP, Doorbell, doorbell
from reflection.jobs.kinds import JobKind, all_kinds, get_kind
from reflection.jobs.models import Job, WorkerHeartbeat
from reflection.jobs.queue import release_claims
from reflection.jobs.workers import elect_sweeper, name_worker, record_heartbeat

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
HOUSEKEEPING_SECONDS = 60.0
NUDGE_AGAIN_SECONDS = 10.0
DRAIN_LIMIT = 20
TAKE_OVER_SECONDS = 1.2
LEASES_UNTIL_END, LEAST_SECONDS_UNTIL_END = 3, 15.0  # a loaded machine needs seconds for a new process
NUDGES_AT_ONCE = 100
OVERDUE_SECONDS = 1.0


class Overdue(NamedTuple):
    """A job that waits, and how often it was tried: another attempt is another reason to ring."""

    id: UUID
    kind: str
    attempts: int


def find_overdue_jobs(*, limit: int = NUDGES_AT_ONCE) -> list[Overdue]:
    """Return what was due a second ago and no worker has taken, oldest first."""
    ours = Job.objects.filter(kind__in=[kind.name for kind in all_kinds()])
    abandoned = ours.abandoned().order_by("lease_until")
    since = Now() - timedelta(seconds=OVERDUE_SECONDS)
    waiting = ours.waiting().filter(available_at__lte=since).order_by("available_at")
    rows = [row for due in (abandoned, waiting) for row in due.values_list("pk", "kind", "attempts")[:limit]]
    return [Overdue(*row) for row in rows]


def nudge(overdue: Iterable[Overdue], *, bell: Doorbell = doorbell, lately: Container[Overdue] = ()) -> list[Overdue]:
    """Ring for jobs until the broker does not take a message; return those it took.

    Where as many messages wait in a queue as jobs, they wait because the workers are busy. More messages would keep
    them busy for longer, so only those that are missing are sent.

    Args:
        lately: what was rung for a moment ago; a worker may have its message already.
    """
    queues: dict[str, list[Overdue]] = {}
    for each in overdue:
        queues.setdefault(get_kind(each.kind).queue or settings.CELERY_TASK_DEFAULT_QUEUE, []).append(each)
    rung: list[Overdue] = []
    for queue, jobs in queues.items():
        waiting = bell.count_waiting(queue)
        if waiting is None:
            break
        missing = max(len(jobs) - waiting, 0)
        unheard = [job for job in jobs if job not in lately][:missing]
        rung += takewhile(lambda job: bell.ring(job.id, job.kind), unheard)
    if rung:
        log.info("jobs_nudged", count=len(rung))
    return rung


def add_sweeper(sender: WorkController, **_: Any) -> None:
    """Give a worker that is being made its sweeper."""
    sender.app.steps["worker"].add(SweeperStep)


class SweeperStep(bootsteps.StartStopStep):
    """Starts and stops the sweeper with the worker, unless the worker only takes messages of other queues."""

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
        """End at once: give back what this worker's processes hold, which fences them out of it."""
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
            self._nudge(find_overdue_jobs(), now=now)
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
        rung = nudge(overdue, bell=self._bell, lately=self._nudged_at)
        if rung:
            self._broker_answered_at = now
            self._nudged_at |= dict.fromkeys(rung, now)

    def _help_if_stalled(self, now: float) -> None:
        stall_seconds = settings.ERL_REFLECTION_LEASE_SECONDS
        # A worker that has just started finds what waited for it, and has to be given its messages first.
        if now - self._started_at < stall_seconds or len(state.active_requests) >= self._concurrency:
            return
        stalled = [kind for kind in all_kinds() if kind.command and _oldest_due_age(kind) > stall_seconds]
        if not stalled:
            return
        since = Now() - timedelta(seconds=stall_seconds)
        if WorkerHeartbeat.objects.filter(pk=self.worker, last_claim_at__gte=since).exists():
            self._stalled_since = None
            return
        self._help(stalled[0], now)
        if self._stalled_since is None:
            self._stalled_since = now
        broker_works = now - self._broker_answered_at < 2 * NUDGE_AGAIN_SECONDS
        if broker_works and now - self._stalled_since > max(LEASES_UNTIL_END * stall_seconds, LEAST_SECONDS_UNTIL_END):
            # The broker takes messages and none has arrived here since: only a new connection helps.
            log.error("worker_stalled", worker=self.worker, action="ends, to be started again")
            self._stalled_since = now
            os.kill(os.getpid(), signal.SIGTERM)

    def _help(self, kind: JobKind, now: float) -> None:
        """Find out whether the broker takes messages, and do the work that no other worker does."""
        for each in find_overdue_jobs(limit=1):
            if now - self._nudged_at.get(each, -math.inf) > NUDGE_AGAIN_SECONDS and self._bell.ring(each.id, each.kind):
                self._nudged_at[each], self._broker_answered_at = now, now
        if self._drain is None or self._drain.poll() is not None:
            log.warning("worker_stalled", worker=self.worker, action=f"runs overdue {kind.name}s in its own process")
            self._drain = self.start_drain(kind.command)

    def start_drain(self, command: str) -> subprocess.Popen[bytes]:
        """Work on some jobs in a process of its own, apart from whatever is wrong in this one.

        It stays in the worker's process group, so that what ends the group ends it too.
        """
        program = [sys.executable, str(settings.BASE_DIR / "manage.py"), command, "--limit", str(DRAIN_LIMIT)]
        return subprocess.Popen(program, cwd=settings.BASE_DIR, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _oldest_due_age(kind: JobKind) -> float:
    return Job.objects.filter(kind=kind.name).oldest_due_age_seconds()
