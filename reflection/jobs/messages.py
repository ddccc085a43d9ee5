"""Messages to the workers, by Celery. The row is the job: what the broker loses, the scheduler sends again (B1)."""

import time
from queue import Full, Queue
from threading import Thread
from uuid import UUID

import structlog
from celery import Celery, current_app
from kombu.exceptions import KombuError

from reflection.jobs.kinds import get_kind

log = structlog.get_logger(__name__)

RUN_JOB = "reflection.tasks.run_job"
PAUSE_SECONDS = 5.0
MOST_WAITING = 1000


class Sender:
    """Sends messages, and never raises because of the broker.

    After a failure it does not try for some seconds: what calls it must not become slow because the broker is.
    """

    def __init__(self, *, app: Celery | None = None, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._app = app or current_app
        self._pause_seconds = pause_seconds
        self._silent_until = 0.0
        self._waiting: Queue[tuple[UUID, str]] | None = None
        self.failures = 0

    def send_job(self, job_id: UUID, kind: str) -> bool:
        """Tell the workers about a job; return whether the broker, or the thread that sends, took the message."""
        if self._waiting is None:
            return self._send(job_id, kind)
        try:
            # Dropping a message loses nothing: the row is the job, and the scheduler sends it again.
            self._waiting.put_nowait((job_id, kind))
        except Full:
            return False
        return True

    def count_waiting(self, queue: str) -> int | None:
        """Return how many messages wait in a queue of the broker, or None if it does not answer."""
        if time.monotonic() < self._silent_until:
            return None
        try:
            with self._app.connection_or_acquire() as connection:
                try:
                    return int(connection.default_channel.queue_declare(queue=queue, passive=True).message_count)
                except connection.channel_errors:
                    # There is no such queue, which for Redis is a queue without messages.
                    return 0
                except connection.connection_errors as error:
                    # A broken connection must not go back to the pool.
                    connection.collapse()
                    self._fall_silent(error)
                    return None
        except (KombuError, OSError) as error:
            self._fall_silent(error)
            return None

    def send_in_background(self) -> None:
        """Let a thread send from now on, so that no request waits for a broker that is slow or silent."""
        self._waiting = Queue(maxsize=MOST_WAITING)
        Thread(target=self._send_waiting, args=[self._waiting], name="messages", daemon=True).start()

    def reset(self) -> None:
        """Try the broker again at the next message, whatever it did before."""
        self._silent_until = 0.0

    def _send_waiting(self, waiting: Queue[tuple[UUID, str]]) -> None:
        while True:
            job_id, kind = waiting.get()
            try:
                self._send(job_id, kind)
            except Exception as error:
                # Whatever it is, the next message may do better.
                log.error("message_not_sent", error=type(error).__name__)

    def _send(self, job_id: UUID, kind: str) -> bool:
        # The broker failed a moment ago. Trying again would make this request as slow as the last.
        if time.monotonic() < self._silent_until:
            return False
        try:
            self._app.send_task(RUN_JOB, args=(str(job_id),), ignore_result=True, **get_kind(kind).message_options)
        except (KombuError, OSError) as error:
            self._fall_silent(error)
            return False
        return True

    def _fall_silent(self, error: Exception) -> None:
        self.failures += 1
        self._silent_until = time.monotonic() + self._pause_seconds
        log.warning("message_not_sent", error=type(error).__name__, failures=self.failures)


sender = Sender()
