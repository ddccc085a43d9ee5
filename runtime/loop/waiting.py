"""Runs that wait for their model without a process or a thread of their own.

A task that has asked a model waits a moment for the answer. Then it hands the question over to a thread of its process
and ends, so that the process is free for others. The thread holds the job: it extends the lease and sends the parts of
the answer that have come. When the answer is there it is kept in the ledger and the job is given back; the
next attempt finds the answer there. A process that dies loses its questions, and they are asked again.
"""

import time
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, Protocol
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from reflection.errors import LostClaim, ReflectionError
from reflection.jobs.execution import BEATS_PER_LEASE, HandedOver, give_back
from reflection.jobs.messages import sender
from reflection.jobs.models import Job
from reflection.jobs.queue import extend_lease, postpone
from reflection.llm.base import ProviderError
from reflection.llm.calls import Asked
from runtime.models.runs import Run

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 0.05
LOOK_SECONDS = 0.1
CANCEL_LOOK_SECONDS = 0.5
SHUTDOWN_SECONDS = 20.0


class Listener(Protocol):
    """Tells what happens while a question is under way."""

    def flush(self) -> None:
        """Send the parts of the answer that have come."""

    def note_failure(self, error: ProviderError) -> ReflectionError:
        """Write down that there was no answer; return the failure that the job ends or is tried again with."""
        ...


@dataclass(kw_only=True, slots=True, eq=False)
class OpenQuestion:
    """A question of a run that waits in the room."""

    job: Job
    run_id: UUID
    asked: Asked
    listener: Listener
    extend_at: float = 0.0


class WaitingRoom:
    """The questions that this process waits for, and the thread that looks after them.

    Only the processes of a worker open theirs: a command has nothing else to do, and waits for its answers.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._lock = Lock()
        self._questions: list[OpenQuestion] = []
        self._thread: Thread | None = None
        self._wake = Event()
        self._ends_at: float | None = None

    def wait(self, job: Job, run_id: UUID, asked: Asked, listener: Listener) -> None:
        """Wait for an answer; in a worker no longer than a moment.

        Raises:
            HandedOver: the answer has not come yet, and the question was taken over.
        """
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while not asked.answer.done():
            if self.is_open and time.monotonic() >= ends_at:
                self._take_over(OpenQuestion(job=job, run_id=run_id, asked=asked, listener=listener))
                raise HandedOver
            with suppress(TimeoutError, CancelledError):
                # This only waits: the answer or the failure is taken in `store`.
                asked.answer.exception(timeout=PATIENCE_SECONDS if self.is_open else LOOK_SECONDS)
            listener.flush()

    def close(self, **_: Any) -> None:
        """Wait for the answers that come soon, and give back the jobs of the others: the process ends."""
        self._ends_at = time.monotonic() + SHUTDOWN_SECONDS
        thread = self._thread
        if thread is not None:
            thread.join(SHUTDOWN_SECONDS + LOOK_SECONDS)

    def _take_over(self, question: OpenQuestion) -> None:
        with self._lock:
            self._questions.append(question)
            # The thread ends only under this lock and with an empty list, so no question is left without a thread.
            if self._thread is None:
                self._thread = Thread(target=self._run, name="waiting-room", daemon=True)
                self._thread.start()
        question.asked.answer.add_done_callback(lambda _: self._wake.set())
        self._wake.set()

    def _run(self) -> None:
        cancel_look_at = 0.0
        while True:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            with self._lock:
                questions = list(self._questions)
                if not questions:
                    self._thread = None
                    break
            now = time.monotonic()
            cancelled: set[UUID] = set()
            try:
                if now >= cancel_look_at:
                    cancelled = _find_cancelled(questions)
                    cancel_look_at = now + CANCEL_LOOK_SECONDS
                for question in questions:
                    is_given_up = question.run_id in cancelled or (self._ends_at is not None and now >= self._ends_at)
                    if _look_after(question, now, is_given_up=is_given_up):
                        with self._lock:
                            self._questions.remove(question)
            except (DatabaseError, InterfaceError) as error:  # the leases last until the next look
                log.warning("waiting_room_failed", error=type(error).__name__)
                connection.close()
        connection.close()


def _find_cancelled(questions: list[OpenQuestion]) -> set[UUID]:
    ids = [question.run_id for question in questions]
    return set(Run.objects.filter(pk__in=ids, cancel_requested_at__isnull=False).values_list("pk", flat=True))


def _look_after(question: OpenQuestion, now: float, *, is_given_up: bool) -> bool:
    """Return whether the question has left the room."""
    job = question.job
    try:
        if question.asked.answer.done() or is_given_up:
            _end(question, is_given_up=is_given_up)
            return True
        if now >= question.extend_at:
            lease_seconds = settings.ERL_REFLECTION_LEASE_SECONDS
            question.extend_at = now + lease_seconds / BEATS_PER_LEASE
            if not extend_lease(job, lease_seconds=lease_seconds):
                raise LostClaim("Another worker holds this job now.")
        question.listener.flush()
    except LostClaim:
        log.warning("claim_lost", job_id=str(job.pk), attempts=job.attempts)
        question.asked.give_up()
        return True
    return False


def _end(question: OpenQuestion, *, is_given_up: bool) -> None:
    """Keep the answer and give the job back, for a task that goes on with the run."""
    job = question.job
    try:
        if is_given_up:
            question.asked.give_up()
        else:
            question.asked.store()
    except ProviderError as error:
        give_back(job, question.listener.note_failure(error))
    except ReflectionError as error:
        give_back(job, error)
    else:
        # The job is given back first: the task that is sent has to find it free.
        postpone(job)
        sender.send_job(job.pk, job.kind)


room = WaitingRoom()


def open_room(**_: Any) -> None:
    """Let the tasks of this process hand questions over."""
    room.is_open = True
