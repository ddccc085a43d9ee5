"""The transaction in which a worker writes what it did: with the run locked, and only while it holds the job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from reflection.errors import LostClaim
from reflection.jobs.execution import Heartbeat
from reflection.jobs.models import Job
from reflection.jobs.queue import hold
from runtime.models.runs import Run


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that this worker goes on with, and its claim."""

    run_id: UUID
    job: Job
    heartbeat: Heartbeat

    @property
    def fence(self) -> int:
        return self.job.attempts

    @contextmanager
    def writing(self, *, also_ended: bool = False) -> Iterator[Run]:
        """Lock the run and let the block write, unless another worker holds the job or the run has ended meanwhile.

        The run is locked before the job: a request that decides or cancels locks it first too.

        Raises:
            LostClaim: another worker holds it, or the run is gone; nothing was written.
        """
        with transaction.atomic():
            run = lock_run(self.run_id)
            if run is None:
                raise LostClaim("The run is gone.")
            # A new message may replace an open run without waiting for its worker.
            if not (run.is_live or also_ended):
                raise LostClaim("The run has ended: a new message took its place.")
            hold(self.job)
            yield run


def lock_run(run_id: UUID) -> Run | None:
    """Lock a run until the transaction ends, and return it as it is then."""
    # Only the run's own row is locked: its agent, project and conversation stay free for others.
    rows = Run.objects.select_for_update(of=("self",)).select_related("revision", "agent", "project", "conversation")
    return rows.filter(pk=run_id).first()
