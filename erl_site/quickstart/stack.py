"""The product's processes on one machine, and their port."""

import errno
import os
import socket
import time
from collections.abc import Callable
from importlib import import_module

import httpx
from celery import Celery
from django.conf import settings

from erl_site.celery import app
from erl_site.embedded import postgres, valkey
from erl_site.embedded.forks import freeze
from erl_site.embedded.home import read_log_tail
from erl_site.embedded.supervisor import Server, Service, Supervisor
from erl_site.quickstart.agent_demo import SCRIPT
from memory.embeddings.registry import load_embedder

ATTEMPTS_BEFORE_GIVING_UP = 3
MOST_PING_SECONDS = 5.0
SHOWN_LINES = 12
WEB_PROCESSES, WEB_THREADS = 2, 4
# Workers, their queues and their processes
LANES = (
    ("worker", f"{settings.CELERY_TASK_DEFAULT_QUEUE},{settings.ERL_PERIODIC_QUEUE}", 2),
    ("evaluator", settings.ERL_EVALUATION_QUEUE, 1),
)
# What the processes run. A module that each of them imported would be there as many times, and half of what it touches
PROGRAMS = (
    *("erl_site.quickstart.web", "erl_site.web.gunicorn_config", "erl_site.web.worker"),
    *("erl_site.monitoring.database_watch", "celery.bin.celery", "celery.apps.worker", "celery.apps.beat"),
    *("celery.concurrency.prefork", "celery.worker.consumer", "celery.worker.control", "celery.contrib.django.task"),
    *("celery.worker.components", "celery.worker.strategy", "celery.worker.autoscale", "celery.events.receiver"),
    *("celery.worker.consumer.delayed_delivery", "celery.app.amqp", "celery.app.control", "celery.app.log"),
    *("celery.backends.base", "kombu.transport.redis", "billiard.popen_fork", "billiard.sharedctypes", "cffi.cparser"),
    *("gunicorn.instrument.statsd", "django.contrib.messages.storage.fallback"),
)


class StackError(Exception):
    """The stack cannot start; the message says why and what to do."""


def site_url(port: int) -> str:
    """Return the URL for browsers on this machine."""
    host = settings.ERL_API_HOST
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - only compared
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def check_port(port: int) -> None:
    """Check that no other program listens on a port; the error suggests a free one."""
    try:
        with _listener(port):
            return
    except PermissionError as error:
        raise StackError(
            f"Port {port} cannot be used ({error.strerror}). Choose one above 1023 with --port."
        ) from error
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise StackError(
                f"Cannot listen on {settings.ERL_API_HOST} ({error.strerror}). Correct ERL_LISTEN."
            ) from error
    with _listener(0) as free:
        suggestion = _first_free(port) or free.getsockname()[1]
    raise StackError(
        f"Port {port} on {settings.ERL_API_HOST} is in use by another program. "
        f"Stop that program, or choose another port: manage.py quickstart --port {suggestion}"
    )


def embedded_servers() -> list[Server]:
    """Return the embedded servers, except those that settings replace with external ones."""
    servers, durable = [], settings.ERL_EMBEDDED_DURABLE
    if settings.ERL_EMBEDDED_BROKER:
        home = settings.ERL_HOME / "valkey"
        servers.append(
            Server(
                name="Valkey",
                is_running=lambda: valkey.is_running(home),
                ensure=lambda: valkey.ensure(home, durable=durable),
                stop=lambda: valkey.stop(home, wait_seconds=1.5),
            )
        )
    if not settings.DATABASE_URL:
        data = settings.ERL_HOME / "postgres"
        servers.append(
            Server(
                name="PostgreSQL",
                is_running=lambda: postgres.is_running(data),
                ensure=lambda: postgres.ensure(data, durable=durable),
                stop=lambda: postgres.stop(data, wait_seconds=1.5),
            )
        )
    return servers


def build_supervisor(port: int, report: Callable[[str, str], None]) -> Supervisor:
    """Describe the stack: web server, workers, scheduler and the embedded servers."""
    home, bind = settings.ERL_HOME, _address(port)
    web = ("--bind", bind, "--workers", str(WEB_PROCESSES), "--threads", str(WEB_THREADS))
    options = ("--config=python:erl_site.web.gunicorn_config", "--no-control-socket", "--graceful-timeout=4")
    # The command has run Django's checks, and what they touch would be copied in each process.
    celery = ("celery", "-A", "erl_site", "--skip-checks")
    return Supervisor(
        home=home,
        services=[
            Service(name="web", command=("erl_site.quickstart.web", "erl_site.asgi", *options, *web)),
            *(
                Service(name=name, command=(*celery, "worker", *_write_lane(name, queues=queues, processes=processes)))
                for name, queues, processes in LANES
            ),
            # Without a pid file: one that a killed scheduler left would keep the next from starting.
            Service(
                name="scheduler",
                command=(*celery, "beat", "--schedule", str(home / "celerybeat-schedule"), "--pidfile="),
            ),
        ],
        servers=embedded_servers(),
        report=report,
    )


def load_all() -> str:
    """Load what the processes need before they are forked, so that it is there once.

    Return what is wrong with the embedding model, or "".
    """
    settings.ERL_LLM_SCRIPT = settings.ERL_LLM_SCRIPT or str(SCRIPT)  # what the sample's agent plays
    for program in PROGRAMS:
        import_module(program)
    app.autodiscover_tasks(force=True)
    app.loader.import_default_modules()
    app.finalize()
    fault = load_embedder()
    freeze()
    return fault


def wait_until_ready(supervisor: Supervisor, url: str) -> None:
    """Wait until the web server and the worker for reflections answer, for as long as they are doing something.

    Raises:
        StackError: a process keeps crashing, or does nothing; the message says which, and has the end of its log.
    """
    _wait_for(supervisor, "web", lambda seconds: is_ready(url, seconds=seconds))
    _wait_for(supervisor, "worker", _worker_answers)


def _wait_for(supervisor: Supervisor, name: str, answers: Callable[[float], bool]) -> None:
    patience = supervisor.patience_with(name)
    ping_seconds = 0.3
    while not answers(ping_seconds):
        ping_seconds = min(ping_seconds * 1.5, MOST_PING_SECONDS)  # on a busy machine even an answer takes seconds
        supervisor.poll()
        for child in supervisor.children:
            if child.backoff.failures >= ATTEMPTS_BEFORE_GIVING_UP:
                raise StackError(_describe_failure(supervisor, child.service.name, "keeps crashing"))
        if patience.is_over():
            what = f"does not answer, and has done nothing for {patience.seconds:.0f} s: {patience.describe()}"
            raise StackError(_describe_failure(supervisor, name, what))
        if patience.is_word_due():
            sentence = f"is still starting: {patience.describe()}. Ctrl-C stops, and the next run goes on from here."
            supervisor.report(name, sentence)
        time.sleep(0.05)


def is_ready(url: str, *, seconds: float = 3.0) -> bool:
    """Return whether the web server at a URL is ready."""
    try:
        return httpx.get(f"{url}/ready", timeout=seconds, trust_env=False).status_code == 200
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def _write_lane(name: str, *, queues: str, processes: int) -> list[str]:
    options = ["-P", "prefork", "-c", str(processes), "-Q", queues, "--without-mingle", "--without-gossip"]
    return [*options, "-n", f"quickstart-{name}-{os.getpid()}@%h"]


def _worker_answers(seconds: float) -> bool:
    # Not the application that is forked, since a fork would share its connections
    asking = Celery(broker=settings.CELERY_BROKER_URL, set_as_current=False)
    try:
        answers = asking.control.ping(timeout=seconds, limit=len(LANES)) or []
    except Exception:  # any error means that no worker answers
        return False
    finally:
        asking.close()
    return any(name.startswith("quickstart-worker-") for answer in answers for name in answer)


def _describe_failure(supervisor: Supervisor, name: str, what: str) -> str:
    tail = read_log_tail(supervisor.log_of(name), since=supervisor.log_start_of(name), lines=SHOWN_LINES)
    told = f"The end of its log, {supervisor.log_of(name)}:\n{tail}" if tail else "It has written no log."
    return (
        f"The {name} process {what}. {told}\nEverything was stopped, and what was done is kept: run the same command "
        "again to go on from here."
    )


def _address(port: int) -> str:
    host = settings.ERL_API_HOST.strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listener(port: int) -> socket.socket:
    host = settings.ERL_API_HOST.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the web server does
    try:
        listener.bind((host, port))
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def _first_free(port: int) -> int | None:
    for candidate in range(port + 1, min(port + 20, 65535)):
        try:
            _listener(candidate).close()
        except OSError:
            continue
        return candidate
    return None
