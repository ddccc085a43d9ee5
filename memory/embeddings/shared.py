"""Vectors of tasks that another process embedded lately, kept in the broker's server.

Asking for one costs 0.1 ms and saves the 5 ms or more of embedding. Nothing depends on it: a server that is dead or
slow is left alone for a few seconds, and what comes back is checked before it is used.

The server holds no text: a vector lies under a keyed hash of the model and the task, for ERL_QUERY_CACHE_SECONDS. There
is a fixed number of places, so that it takes at most 20 MB of what the queue needs, whatever is asked.
"""

import hashlib
import hmac
import os
import threading
import time
from typing import Any

import numpy as np
import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from memory.broker_server import find_server_url
from memory.embeddings.base import Vectors
from memory.retrieval.breaker import Breaker

log = structlog.get_logger(__name__)

PLACES = 20_000  # of 0.9 kB each; two tasks that meet in one take turns
SOCKET_SECONDS = 0.02
SLOW_SECONDS = 0.01  # an answer that takes so long may as well not come
REST_SECONDS = 5.0
_NAME_BYTES = 16


class SharedVectors:
    """Vectors by (model id, task); any number of threads may ask, each over a connection of its own."""

    def __init__(self) -> None:
        self._breaker = Breaker(failures=3, rest_seconds=REST_SECONDS)
        self._lock = threading.Lock()
        self.forget()

    def find(self, model_id: str, task: str) -> Vectors | None:
        """Return the vector of a task if some process left it there."""
        if not self._may_ask():
            return None
        key, name = _get_place(model_id, task)
        started = time.monotonic()
        try:
            sent = self._ask("GET", key)
        except (redis.RedisError, OSError) as error:
            self._note_failure(error)
            return None
        self._breaker.note(answered=time.monotonic() - started < SLOW_SECONDS)
        return _read(sent, name)

    def keep(self, model_id: str, task: str, vector: Vectors) -> None:
        """Leave a vector for the other processes. The server's answer is not waited for: the next question reads it."""
        if not self._may_ask():
            return
        key, name = _get_place(model_id, task)
        try:
            connection = self._connect()
            value = name + vector.astype("<f2").tobytes()
            connection.send_command("SET", key, value, "EX", settings.ERL_QUERY_CACHE_SECONDS)
            self._local.unread += 1
        except (redis.RedisError, OSError) as error:
            self._note_failure(error)

    def forget(self) -> None:
        """Close nothing, know nothing: every thread connects anew, and a server that failed is asked again."""
        self._local = threading.local()
        self._breaker.reset()

    def _may_ask(self) -> bool:
        return bool(settings.ERL_QUERY_CACHE_SECONDS and not self._breaker.is_resting and find_server_url())

    def _ask(self, *command: Any) -> Any:
        reused = getattr(self._local, "connection", None) is not None
        try:
            return self._exchange(command)
        except (redis.ConnectionError, OSError) as error:
            self._disconnect()
            if not reused or isinstance(error, redis.TimeoutError | TimeoutError):
                raise
        return self._exchange(command)  # the server closed the connection since, as it does after a restart

    def _exchange(self, command: tuple[Any, ...]) -> Any:
        connection = self._connect()
        connection.send_command(*command)
        while self._local.unread:
            self._local.unread -= 1
            _ignore_refusal(connection)
        return connection.read_response()

    def _connect(self) -> Any:
        url = find_server_url()
        if url is None:
            raise redis.ConnectionError("The broker is no server that keeps vectors.")
        if getattr(self._local, "connection", None) is None or self._local.url != url:
            pool = redis.ConnectionPool.from_url(
                url,
                socket_timeout=SOCKET_SECONDS,
                socket_connect_timeout=SOCKET_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
            self._local.connection = pool.get_connection()
            self._local.url, self._local.unread = url, 0
        return self._local.connection

    def _disconnect(self) -> None:
        connection, self._local.connection = getattr(self._local, "connection", None), None
        if connection is not None:
            connection.disconnect()

    def _note_failure(self, error: Exception) -> None:
        self._disconnect()
        self._breaker.note(answered=False)
        if self._breaker.is_resting:
            log.warning("shared_vectors_not_asked", error=type(error).__name__)


def _ignore_refusal(connection: Any) -> None:
    try:
        connection.read_response()
    except redis.ResponseError as error:  # it has no memory left, or may not be written to
        log.debug("vector_not_shared", error=str(error)[:100])


def _get_place(model_id: str, task: str) -> tuple[str, bytes]:
    """Return the place of a vector and the name it must have there, from which nobody can tell or test the task."""
    key = hmac.digest(settings.SECRET_KEY.encode(), b"erl shared vectors 1", hashlib.sha256)
    digest = hmac.digest(key, f"{model_id}\0{task}".encode("utf-8", "replace"), hashlib.sha256)
    return f"erl:vector:{int.from_bytes(digest[:8], 'big') % PLACES}", digest[8 : 8 + _NAME_BYTES]


def _read(sent: Any, name: bytes) -> Vectors | None:
    if not isinstance(sent, bytes) or not hmac.compare_digest(sent[:_NAME_BYTES], name) or len(sent) % 2:
        return None
    vector = np.frombuffer(sent, "<f2", offset=_NAME_BYTES).astype(np.float32)
    return vector if vector.size and bool(np.isfinite(vector).all()) else None


shared_vectors = SharedVectors()
os.register_at_fork(after_in_child=shared_vectors.forget)
