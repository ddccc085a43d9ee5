"""Read from a streaming replica what an answer needs, as long as the replica is fresh enough.

A replica counts as fresh as the moment at which the primary was asked for the end of its log, once the replica has
replayed up to there. No clocks of two hosts are compared, and a replica that is cut off from its primary, without
knowing it, ages all the same. Beyond ERL_REPLICA_MAX_LAG_SECONDS, and wherever the replica fails, the primary answers.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, OperationalError, connections

log = structlog.get_logger(__name__)

REPLICA = "replica"
CHECKS_WITHIN_LAG = 5  # so that a check or two may fail before the bound is reached

_PRIMARY_END = "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint"
_REPLAYED = "SELECT pg_is_in_recovery(), (coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0'::pg_lsn)::bigint"
_FRESH_AT, _CHECKED_AT = "_erl_fresh_at", "_erl_checked_at"  # of a connection: the replicas of one address may differ

_alias: ContextVar[str] = ContextVar("alias", default=DEFAULT_DB_ALIAS)
Result = TypeVar("Result")
Ask = Callable[[str, str], list[tuple[Any, ...]]]


class ReplicaFailed(OperationalError):
    """A statement failed on the replica; the primary may know better."""


class ReplicaRouter:
    """Sends to the replica what Django is told to be `serving`, where `read_near` allows it, and nothing else."""

    def db_for_read(self, model: Any, *, serving: bool = False, **hints: Any) -> str | None:
        return _alias.get() if serving else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == REPLICA else None


class PrimaryLog:
    """The ends of the primary's log, each with the time before which it was asked for; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._ends: deque[tuple[float, int]] = deque(maxlen=2 * CHECKS_WITHIN_LAG)

    def ask(self, ask: Ask) -> None:
        """Ask the primary, unless a thread does or has done so a moment ago. Without a primary the ends grow old."""
        now = time.monotonic()
        if now - self._asked_at < _get_check_seconds() or not self._lock.acquire(blocking=False):
            return
        try:
            self._asked_at = now
            ((end,),) = ask(DEFAULT_DB_ALIAS, _PRIMARY_END)
            self._ends.append((now, end))
        except Error as error:
            log.warning("primary_not_asked", reason=type(error).__name__)
        finally:
            self._lock.release()

    def find_time(self, replayed: int) -> float:
        """Return the last time before which the primary had written no more than this."""
        return max((asked_at for asked_at, end in tuple(self._ends) if end <= replayed), default=-math.inf)


class Replica:
    """Whether the replica may be read now."""

    def __init__(self) -> None:
        self._primary = PrimaryLog()
        self._rest_until = -math.inf

    def read(self, read: Callable[[], Result], *, ask: Ask) -> Result:
        """Return what `read` does, whose statements go to the replica if it is fresh, else to the primary.

        All of them go to one server, so that nothing old is remembered under the name of a newer state. If the replica
        fails, `read` is called again. Within a transaction, and for requests confined by ERL_TENANT_ROLE, the primary
        is read.

        Args:
            ask: runs a statement, given the alias of a connection.
        """
        if not self._may_be_read() or not self._is_fresh(ask):
            return read()
        token = _alias.set(REPLICA)
        try:
            return read()
        except ReplicaFailed as error:
            self._rest(type(error.__cause__).__name__)
        finally:
            _alias.reset(token)
        return read()

    def _may_be_read(self) -> bool:
        return (
            bool(settings.ERL_REPLICA_URL)
            and not settings.ERL_TENANT_ROLE
            and not connections[DEFAULT_DB_ALIAS].in_atomic_block
            and time.monotonic() >= self._rest_until
        )

    def _is_fresh(self, ask: Ask) -> bool:
        """Tell whether this thread's connection to the replica leads to one that is fresh."""
        self._primary.ask(ask)
        here = connections[REPLICA]
        now = time.monotonic()
        if now - getattr(here.connection, _CHECKED_AT, -math.inf) >= _get_check_seconds():
            try:
                ((is_replica, replayed),) = ask(REPLICA, _REPLAYED)
            except Error as error:
                self._rest(type(error).__name__)
                return False
            if not is_replica:
                self._rest("promoted")
                return False
            fresh_at = max(self._primary.find_time(replayed), getattr(here.connection, _FRESH_AT, -math.inf))
            setattr(here.connection, _FRESH_AT, fresh_at)
            setattr(here.connection, _CHECKED_AT, now)
        setattr(here, "health_check_done", True)  # noqa: B010  # a dead connection fails, rather than that another replica answers in its place
        return bool(now - getattr(here.connection, _FRESH_AT) <= settings.ERL_REPLICA_MAX_LAG_SECONDS)

    def _rest(self, reason: str) -> None:
        log.warning("replica_not_used", reason=reason)
        self._rest_until = time.monotonic() + settings.ERL_REPLICA_MAX_LAG_SECONDS
        connections[REPLICA].close()


replica = Replica()


def _get_check_seconds() -> float:
    return float(settings.ERL_REPLICA_MAX_LAG_SECONDS) / CHECKS_WITHIN_LAG
