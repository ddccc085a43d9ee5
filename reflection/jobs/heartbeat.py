"""Keep the claim on a reflection while it is worked on."""

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from reflection.errors import LostClaim
from reflection.jobs.queue import extend_lease
from reflection.models import ConsolidationRun, Reflection

log = structlog.get_logger(__name__)

BEATS_PER_LEASE = 3


class Heartbeat:
    """Extends a lease from a thread with a connection of its own, three times in its length.

    It ends with the block, when the claim is lost, or when the work has taken longer than a task may: then it hangs,
    and somebody else takes it when the lease is over (reliability B2).
    """

    def __init__(
        self,
        reflection: Reflection | ConsolidationRun,
        *,
        lease_seconds: float | None = None,
        extend: Callable[..., bool] = extend_lease,
    ) -> None:
        """`extend` holds the row for so many seconds more and says whether it is still ours."""
        self._reflection = reflection
        self._extend_lease = extend
        self._lease_seconds = lease_seconds or settings.ERL_REFLECTION_LEASE_SECONDS
        self._beats_left = int(settings.CELERY_TASK_TIME_LIMIT / self._lease_seconds * BEATS_PER_LEASE)
        self._stop = Event()
        self._lost = Event()
        self._thread = Thread(target=self._beat, name=f"heartbeat-{reflection.pk}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=self._lease_seconds)

    def ensure_held(self) -> None:
        """Raise `LostClaim` where the last beat found that somebody else holds the reflection."""
        if self._lost.is_set():
            raise LostClaim("Somebody else holds this reflection now.")

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
        """Return whether to go on. A database that does not answer now may at the next beat."""
        try:
            held = self._extend_lease(self._reflection, lease_seconds=self._lease_seconds)
        except (DatabaseError, InterfaceError) as error:
            log.warning("lease_not_extended", reflection_id=str(self._reflection.pk), error=type(error).__name__)
            connection.close()
            return True
        if not held:
            log.warning("claim_lost", reflection_id=str(self._reflection.pk), attempts=self._reflection.attempts)
            self._lost.set()
        return held
