"""A thread in every worker's main process that finds runs whose worker died, and rings for another worker."""

import time
from threading import Event, Thread
from typing import Any

import structlog
from celery import bootsteps
from celery.signals import worker_process_init, worker_process_shutdown
from celery.worker import WorkController
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from reflection.jobs.doorbell import Doorbell
from runtime.loop.liveness import release_abandoned
from runtime.loop.readiness import load_parts, prepare_process
from runtime.loop.waiting import open_room, room
from runtime.models.runs import KIND

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.03  # while runs go on
IDLE_SECONDS = 0.5
IDLE_AFTER_SECONDS = 5.0


def add_standby(sender: WorkController, **_: Any) -> None:
    """Give a worker that is being made its standby."""
    sender.app.steps["worker"].add(StandbyStep)


class StandbyStep(bootsteps.StartStopStep):
    """Starts and stops the standby with the worker, unless the worker only takes messages of other queues."""

    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        takes_ours = parent.app.conf.task_default_queue in parent.app.amqp.queues.consume_from
        return takes_ours and not settings.ERL_DATABASE_POOLER

    def create(self, parent: Any) -> Any:
        load_parts()  # before the pool starts its processes, which then have them
        worker_process_init.connect(prepare_process, dispatch_uid="agents.prepare_process")
        worker_process_init.connect(open_room, dispatch_uid="agents.open_room")
        worker_process_shutdown.connect(room.close, dispatch_uid="agents.close_room")
        return Standby()


class Standby:
    """The thread. It looks often while runs go on, and seldom while none does."""

    def __init__(self) -> None:
        self._bell = Doorbell()
        self._stop = Event()
        self._thread = Thread(target=self._run, name="standby", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    terminate = stop

    def look(self) -> bool:
        """Take back what dead workers held and ring for it; return whether any run goes on."""
        seen = release_abandoned()
        for job_id in seen.released:
            log.warning("agent_run_abandoned", job_id=str(job_id))
            self._bell.ring(job_id, KIND)
        return seen.goes_on

    def _run(self) -> None:
        busy_until = 0.0
        while not self._stop.wait(LOOK_SECONDS if time.monotonic() < busy_until else IDLE_SECONDS):
            try:
                if self.look():
                    busy_until = time.monotonic() + IDLE_AFTER_SECONDS
            except (DatabaseError, InterfaceError) as error:
                log.warning("standby_failed", error=type(error).__name__)
                connection.close()
        connection.close()
