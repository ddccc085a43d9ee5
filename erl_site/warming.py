"""What the first request of a process would otherwise wait for, done before there is one.

Addresses, serializers, patterns and statements are made at their first use, which takes longer than a request, and the
embedding model takes half a second. None of it needs the database or the network, so that a master process may do it
once for all processes it forks. What a forked process has to do itself it does when nobody asked it for a moment: to
copy the pages it shares with its parent, which a request writes to, and to connect to the database.
"""

import threading
import time
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.models import Model
from django.db.models.sql import InsertQuery
from django.urls import reverse
from django.utils import timezone

from erl_site.wsgi import application
from memory.api.base import represent
from memory.api.models import IdempotencyRecord
from memory.embeddings.minilm import MiniLM
from memory.embeddings.registry import get_embedder
from memory.errors import EmbedderError
from memory.intake.serializers import TrajectoryInput, TrajectorySerializer
from memory.projects.models import Project
from memory.redaction import redact
from memory.retrieval.serializers import RetrieveQuery
from memory.runs.models import Trajectory
from memory.runs.step_formats import normalise_steps

log = structlog.get_logger(__name__)

IDLE_SECONDS = 0.1

_NOBODY = UUID(int=0)
_RUN = {
    "task": "Say that nothing is to be done before 10:00 on 1 May, and to nobody.",
    "task_id": "nothing",
    "steps": [{"action": "wait", "observation": "nothing happened"}],
    "tags": ["none"],
    "metadata": {"number": 1},
}


def warm_up() -> None:
    """Make what requests share, unless it is there. No request is recorded, and no statement is sent."""
    started = time.perf_counter()
    _make_shared()
    _load_embedder()  # which a child may not have from its parent
    log.info("warmed_up", seconds=round(time.perf_counter() - started, 2))


def warm_when_idle(worker: Any) -> None:
    """Get a thread of this gunicorn worker ready in a moment, unless the worker was asked for something by then.

    Who is asked at once is not kept from answering.
    """
    timer = threading.Timer(IDLE_SECONDS, warm_unless_asked, args=[worker])
    timer.daemon = True
    timer.start()


def warm_unless_asked(worker: Any) -> None:
    """Get a thread of this gunicorn worker ready, unless the worker was asked for something."""
    if not worker.nr:
        with suppress(RuntimeError):  # the process ends
            worker.tpool.submit(warm_thread)


def warm_thread() -> None:
    """Connect this thread to the database, and write to what a recording writes to."""
    _make_shared.__wrapped__()
    if connection.settings_dict["CONN_MAX_AGE"] == 0:  # none is kept for the next request
        return
    try:
        connection.ensure_connection()
    except Error as error:  # the first request says so
        log.info("not_connected_yet", error=type(error).__name__)


@cache  # what the parent did is done
def _make_shared() -> None:
    _pass_middlewares()
    _record_nothing()
    RetrieveQuery.from_body({"task": _RUN["task"]})


def _pass_middlewares() -> None:
    hosts = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host != "*"]
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/health",
        "SERVER_NAME": hosts[0] if hosts else "localhost",
        "SERVER_PORT": "80",
        "wsgi.input": BytesIO(),
        "wsgi.url_scheme": "http",
    }
    application.get_response(WSGIRequest(environ)).close()


def _record_nothing() -> None:
    reverse("api:trajectory", args=[_NOBODY])
    values = TrajectoryInput.from_body(_RUN).run()
    said = redact({name: values[name] for name in _RUN}).value
    made = {"steps": normalise_steps(said["steps"]), "created_at": timezone.now()}
    run = Trajectory(project=Project(), **said | made)
    represent(TrajectorySerializer, run)
    for row in (run, IdempotencyRecord(expires_at=timezone.now())):
        _write_insert(row)


def _write_insert(row: Model) -> None:
    query = InsertQuery(type(row))
    query.insert_values(row._meta.concrete_fields, [row])
    query.get_compiler(DEFAULT_DB_ALIAS).as_sql()


def _load_embedder() -> None:
    try:
        embedder = get_embedder()
        if isinstance(embedder, MiniLM):
            embedder.warm_up()
    except EmbedderError as error:
        log.warning("embedder_not_loaded", error=type(error).__name__)
