"""Keep the claim on a job while it is worked on."""

from threading import Event, Thread
from types import TracebackType
from typing import Self

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from reflection.errors import LostClaim
from reflection.jobs.kinds import get_kind
from reflection.jobs.models import Job
from reflection.jobs.queue import extend_lease

log = structlog.get_logger(__name__)

BEATS_PER_LEASE = 3


class Heartbeat:
    """Extends a lease from a thread with a connection of its own, three times in its length.

    It ends with the block, when the claim is lost, or when the work has taken longer than a task may: then the work
    hangs, and another worker takes it when the lease is over (reliability B2).
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lease_seconds = settings.ERL_REFLECTION_LEASE_SECONDS
        limit_seconds = get_kind(job.kind).time_limit_seconds or settings.CELERY_TASK_TIME_LIMIT
        self._beats_left = int(limit_seconds / self._lease_seconds * BEATS_PER_LEASE)
        self._stop = Event()
        self._lost = Event()
        self._thread = Thread(target=self._beat, name=f"heartbeat-{job.pk}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=self._lease_seconds)

    def ensure_held(self) -> None:
        """Raise `LostClaim` where the last beat found that another worker holds the job."""
        if self._lost.is_set():
            raise LostClaim("Another worker holds this job now.")

    def _beat(self) -> None:
        used = False
        try:
            while self._beats_left > 0 and not self._stop.wait(self._lease_seconds / BEATS_PER_LEASE):
                self._beats_left -= 1
                used = True
                if not self._extend():
                    return
        finally:
            if used:
                connection.close()

    def _extend(self) -> bool:
        """Return whether to continue. A database that does not answer now may answer at the next beat."""
        try:
            held = extend_lease(self._job, lease_seconds=self._lease_seconds)
        except (DatabaseError, InterfaceError) as error:
            log.warning("lease_not_extended", job_id=str(self._job.pk), error=type(error).__name__)
            connection.close()
            return True
        if not held:
            log.warning("claim_lost", job_id=str(self._job.pk), attempts=self._job.attempts)
            self._lost.set()
        return held
