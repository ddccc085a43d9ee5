"""Tell a run whose worker died from one whose worker is busy, long before the lease ends.

A worker that goes on with a run holds a shared advisory lock in its session; PostgreSQL frees it with the connection,
and so within moments of a kill. The lock is only a sign of life: what protects the rows is the fence. Behind a pooler
that gives a connection to others between transactions there is no such sign, and the lease decides.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from reflection.jobs.models import Job
from runtime.models.runs import KIND

SPACE = 0x41475254  # of our advisory locks with two numbers
_KEY = "hashtext(%s || ':' || %s)"
_LOCK = f"SELECT pg_try_advisory_lock_shared({SPACE}, {_KEY})"
_UNLOCK = f"SELECT pg_advisory_unlock_shared({SPACE}, {_KEY})"
_RUNNING = f"""
SELECT j.id, j.attempts, EXISTS (
    SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = {SPACE} AND l.objsubid = 2
        AND l.objid::bigint = hashtext(j.id::text || ':' || j.attempts::text)::bigint & 4294967295
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS shows_life
FROM reflection_job j WHERE j.kind = %s AND j.status = 'running'
"""  # noqa: S608 - constants of this module


class Life:
    """The sign of life for one claim of one job."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self._job_id = job_id
        self._attempt = attempt

    def begin(self) -> None:
        """Show life from the database session of this thread, until it ends."""
        self._run(_LOCK)

    def show(self, job: Job) -> None:
        """Show life for the attempt that was claimed, where it is another than was expected."""
        if job.attempts != self._attempt:
            self.end()
            self._attempt = job.attempts
            self._run(_LOCK)

    def end(self) -> None:
        self._run(_UNLOCK)

    def _run(self, statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, [str(self._job_id), str(self._attempt)])


@contextmanager
def showing_life(job_id: UUID) -> Iterator[Life]:
    """Show life for the claim of a job that the block makes. It begins before the claim, so that none is without."""
    attempts = Job.objects.values_list("attempts", flat=True).filter(pk=job_id).first() or 0
    life = Life(job_id, attempts + 1)
    life.begin()
    try:
        yield life
    finally:
        try:
            life.end()
        except (DatabaseError, InterfaceError):  # with the connection the lock is gone too
            connection.close()


class Look(NamedTuple):
    """What was seen: the jobs of runs that were given back, and whether any run goes on."""

    released: list[UUID]
    goes_on: bool


def release_abandoned() -> Look:
    """Give back the runs whose workers died; the lease need not run out."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING, [KIND])
        running = cursor.fetchall()
    dead = [(job_id, attempts) for job_id, attempts, shows_life in running if not shows_life]
    return Look([job_id for job_id, attempts in dead if _release(job_id, attempts)], bool(running))


def _release(job_id: UUID, attempts: int) -> bool:
    held = Job.objects.filter(pk=job_id, attempts=attempts, status=Job.Status.RUNNING)
    return bool(held.update(status=Job.Status.RETRY, available_at=Now(), lease_until=None))
