"""Tell the workers that a job waits. Only a hint: the row is the job, and the sweeper finds it anyway (B1)."""

import os
import time
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from amqp.exceptions import ChannelError
from celery import Celery, current_app
from kombu import Producer
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerError

from reflection.jobs.kinds import get_kind

log = structlog.get_logger(__name__)

RUN_JOB = "reflection.tasks.run_job"
SWEEP = "reflection.tasks.sweep"
SOCKET_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
MOST_WAITING = 1000


class Message(NamedTuple):
    """A task to call with some arguments; `options` are Celery's, such as the queue or when the message expires."""

    task: str
    arguments: tuple[str, ...] = ()
    options: dict[str, Any] = {}


class Doorbell:
    """Publishes messages over one connection of its own, quickly or not at all.

    After a failure it does not try the broker again before a pause is over: 5 seconds, doubling to a minute. Recording
    a run must not become slow because the broker is.
    """

    def __init__(
        self,
        *,
        app: Celery | None = None,
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        self._app = app
        self._first_pause_seconds = self._pause_seconds = first_pause_seconds
        self._longest_pause_seconds = longest_pause_seconds
        self._lock = Lock()
        self._producer: Producer | None = None
        self._process_id = os.getpid()
        self._silent_until = 0.0
        self._waiting: Queue[Message] | None = None
        self.failures = 0

    def ring(self, job_id: UUID, kind: str, *, expires_seconds: float | None = None) -> bool:
        """Tell the workers about a job; return whether the broker took the message."""
        return self.send(RUN_JOB, str(job_id), expires_seconds=expires_seconds, **get_kind(kind).message_options)

    def send(self, task: str, *arguments: str, expires_seconds: float | None = None, **options: Any) -> bool:
        """Publish one message and return whether the broker took it. Raises nothing that a broker can cause.

        In the background it is True where the message waits to be published.
        """
        if self._process_id != os.getpid():
            self._forget_parent()
        message = Message(task, arguments, options | {"expires": expires_seconds})
        if self._waiting is None:
            return self._send_now(message)
        try:
            self._waiting.put_nowait(message)
        except Full:
            return False
        return True

    def count_waiting(self, queue: str) -> int | None:
        """Return how many messages wait in a queue of the broker, or None if it does not answer."""
        if self._process_id != os.getpid():
            self._forget_parent()
        if time.monotonic() < self._silent_until or not self._lock.acquire(timeout=SOCKET_SECONDS):
            return None
        try:
            channel: Any = self._connect().channel
            counted: int = channel.queue_declare(queue=queue, passive=True).message_count
        except ChannelError:  # no queue, for Redis one without messages
            return 0
        except (BrokerError, KombuError, OSError) as error:
            self._fall_silent(error)
            return None
        else:
            return counted
        finally:
            self._lock.release()

    def ring_in_background(self) -> None:
        """Let a thread publish from now on, so that no request waits for a broker that is slow or silent.

        What waits when the process ends is not sent; the sweeper finds it, like everything that a broker forgot.
        """
        if self._process_id != os.getpid():
            self._forget_parent()
        self._waiting = Queue(maxsize=MOST_WAITING)
        Thread(target=self._send_waiting, args=[self._waiting], name="doorbell", daemon=True).start()

    def _send_waiting(self, waiting: Queue[Message]) -> None:
        while True:
            message = waiting.get()
            try:
                self._send_now(message)
            except Exception as error:  # whatever it is, the next message may do better
                log.error("doorbell_broken", error=type(error).__name__)

    def _send_now(self, message: Message) -> bool:
        if time.monotonic() < self._silent_until or not self._lock.acquire(timeout=SOCKET_SECONDS):
            return False
        try:
            self._publish(message)
        except (BrokerError, KombuError, OSError) as error:
            self._fall_silent(error)
            return False
        else:
            self._pause_seconds = self._first_pause_seconds
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give the connection back; the next ring opens another and does not wait for any pause."""
        with self._lock:
            self._disconnect()
            self._silent_until = 0.0
            self._pause_seconds = self._first_pause_seconds

    def _forget_parent(self) -> None:
        """After a fork: the lock may be held by a thread that is not here, and the connection is the parent's."""
        self._process_id = os.getpid()
        self._lock = Lock()
        self._waiting = None
        self._producer = None
        self._silent_until = 0.0
        self._pause_seconds = self._first_pause_seconds

    def _publish(self, message: Message) -> None:
        options = {"producer": self._connect(), "retry": False, "ignore_result": True, **message.options}
        (self._app or current_app).send_task(message.task, args=message.arguments, **options)

    def _connect(self) -> Producer:
        if self._producer is None:
            app = self._app or current_app
            connection = app.connection_for_write(
                connect_timeout=SOCKET_SECONDS,
                transport_options={
                    "socket_timeout": SOCKET_SECONDS,
                    "socket_connect_timeout": SOCKET_SECONDS,
                    "max_retries": 0,  # one failure is enough to leave it to the sweeper
                },
            )
            self._producer = app.amqp.Producer(connection, auto_declare=False)
        return self._producer

    def _fall_silent(self, error: Exception) -> None:
        self.failures += 1
        self._disconnect()
        self._silent_until = time.monotonic() + self._pause_seconds
        log.warning(
            "doorbell_failed", error=type(error).__name__, failures=self.failures, pause_seconds=self._pause_seconds
        )
        self._pause_seconds = min(2 * self._pause_seconds, self._longest_pause_seconds)

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None or producer.connection is None:
            return
        try:
            producer.connection.release()
        except (BrokerError, KombuError, OSError) as error:
            log.debug("doorbell_not_closed", error=type(error).__name__)


doorbell = Doorbell()
