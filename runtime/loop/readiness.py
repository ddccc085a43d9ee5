"""Make the processes of a worker ready before they have a run: one that takes a run over loses no time with it."""

from threading import Timer
from typing import Any

import structlog
from celery.signals import worker_process_init, worker_process_shutdown
from celery.worker import WorkController
from django.db import DatabaseError, InterfaceError, close_old_connections

from memory.connections import default_ssl_context
from reflection.llm.registry import load_providers
from runtime.loop.waiting import open_room, room
from runtime.models.tools import Tool, ToolRuntime
from runtime.sandbox import SandboxError
from runtime.sandbox.workers import start_worker
from runtime.tools.catalogue import core_tools

log = structlog.get_logger(__name__)

# A process that replaces one that was killed leaves the processor to whatever takes over from that one.
SANDBOX_AFTER_SECONDS = 1.0


def prepare_worker(sender: WorkController, **_: Any) -> None:
    """Load what the first run of a process would load, in the process that it is forked from, and let it prepare."""
    if sender.app.conf.task_default_queue not in sender.app.amqp.queues.consume_from:
        return  # it takes no runs
    core_tools()
    default_ssl_context()
    load_providers()
    worker_process_init.connect(prepare_process, dispatch_uid="agents.prepare_process")
    worker_process_init.connect(open_room, dispatch_uid="agents.open_room")
    worker_process_shutdown.connect(room.close, dispatch_uid="agents.close_room")


def prepare_process(**_: Any) -> None:
    """Connect a new process of a worker to the database and, where the sandbox is in use, start its interpreter."""
    try:
        uses_sandbox = Tool.objects.filter(current__runtime=ToolRuntime.MONTY).exists()
        close_old_connections()
    except (DatabaseError, InterfaceError):  # the first task finds out
        return
    if uses_sandbox:
        timer = Timer(SANDBOX_AFTER_SECONDS, _start_sandbox)
        timer.daemon = True
        timer.start()


def _start_sandbox() -> None:
    try:
        start_worker()
    except SandboxError as error:
        log.warning("sandbox_not_started", error=str(error))
