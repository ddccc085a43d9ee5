"""Statements of the hot path: prepared on the server, parameters in binary, no ORM (docs/retrieval.md has the cost)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import psycopg
import structlog
from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    DataError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connections,
    transaction,
)
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from memory.embeddings.base import Vectors
from memory.projects.tenancy import held, is_held

log = structlog.get_logger(__name__)

_MARK = "_erl_halfvec_registered"
_SET_ROLE = "SELECT set_config('role', %s, true)"
_SET_MOMENT = "SELECT set_config('erl.as_of', %(moment)s, true)"
DEAD_SECONDS = 0.5
_CHECKED = "health_check_done"  # Django's own mark, until the end of the request


class QueryVector:
    """A vector on its way into a statement, rounded to half precision."""

    __slots__ = ("bytes",)

    def __init__(self, vector: Vectors) -> None:
        half = vector.astype(">f2")
        self.bytes = len(half).to_bytes(2, "big") + b"\0\0" + half.tobytes()


class _QueryVectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: QueryVector) -> bytes:
        return obj.bytes


def read_prepared(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement that changes nothing, on a new connection if the one at hand turns out to be dead.

    That takes the place of Django's question whether the connection still works, which costs a round trip.

    The statement has the rights of the serving role alone, where there is one (reliability C3).

    Raises:
        django.db.Error: as Django's own cursors would.
    """
    here = connections[DEFAULT_DB_ALIAS]  # looked up once: `connection` does so at every attribute
    if here.in_atomic_block or here.connection is None or getattr(here, _CHECKED):
        return _read(statement, parameters)
    # Otherwise `execute_prepared` would let Django ask first.
    setattr(here, _CHECKED, True)
    started = time.monotonic()
    try:
        return _read(statement, parameters)
    except (InterfaceError, OperationalError):
        # A connection that was dead before shows it at once; after a wait, a second one would wait as long again
        if not here.connection.broken or time.monotonic() - started > DEAD_SECONDS:
            raise
        here.close()
        return _read(statement, parameters)


@contextmanager
def reading_as_of(moment: datetime | None) -> Iterator[None]:
    """Let the views show what held at a moment, in a transaction; None changes nothing."""
    if moment is None:
        yield
        return
    with transaction.atomic():
        execute_prepared(_SET_MOMENT, {"moment": moment.isoformat()})
        yield
        # A transaction around this one goes on in the present.
        execute_prepared(_SET_MOMENT, {"moment": ""})


def _read(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    role = serving_role.find()
    try:
        return execute_prepared(statement, parameters, role=role)
    except (DataError, ProgrammingError) as error:
        if not role or not _is_role_lost(role, error.__cause__):
            raise
        log.error("serving_role_lost", role=role, reason=str(error.__cause__).partition("\n")[0])
        serving_role.forget()
        if settings.ERL_SERVING_ROLE != "auto" or connections[DEFAULT_DB_ALIAS].in_atomic_block:
            raise OperationalError(f"Searches cannot run as {role}.") from error
        return execute_prepared(statement, parameters)


def _is_role_lost(role: str, cause: BaseException | None) -> bool:
    """Tell whether a statement failed because the role is gone or may not be taken, and not for what it asked."""
    is_unknown = isinstance(cause, psycopg.errors.InvalidParameterValue)
    is_refused = isinstance(cause, psycopg.errors.InsufficientPrivilege) and "set role" in str(cause)
    return (is_unknown and f'"{role}"' in str(cause)) or is_refused


class ServingRole:
    """Remembers whether searches may run as the role that reads approved lessons alone."""

    NAME = "erl_serving"
    READS = (
        *("servable_heuristic", "servable_text", "servable_source", "servable_evidence", "servable_name"),
        *("servable_mistake_card", "servable_outcome", "memory_embeddingmodel", "memory_searchstatistics"),
        *("memory_termcount", "memory_servedchange", "memory_polarityquota"),
        *("servable_member", "servable_release", "servable_offer", "servable_end", "memory_deployment"),
    )  # and nothing else
    ASK_AGAIN_SECONDS = 60.0  # where it is not there: a migration may create it meanwhile

    def __init__(self) -> None:
        self._is_there = False
        self._asked_at = -self.ASK_AGAIN_SECONDS

    def find(self) -> str:
        """Return the role that ERL_SERVING_ROLE names, which is `auto` where the database has ours; "" for none."""
        if settings.ERL_SERVING_ROLE != "auto":
            return str(settings.ERL_SERVING_ROLE)
        # A role that is there is not asked for again; that it is lost shows in an error.
        if not self._is_there and time.monotonic() - self._asked_at >= self.ASK_AGAIN_SECONDS:
            asked = "SELECT pg_has_role(session_user, oid, 'SET') FROM pg_roles WHERE rolname = %(name)s"
            self._is_there = execute_prepared(asked, {"name": self.NAME}) == [(True,)]
            self._asked_at = time.monotonic()
        return self.NAME if self._is_there else ""

    def forget(self) -> None:
        """Ask again the next time."""
        self._is_there, self._asked_at = False, -self.ASK_AGAIN_SECONDS


serving_role = ServingRole()


def execute_prepared(statement: str, parameters: dict[str, Any], *, role: str = "") -> list[tuple[Any, ...]]:
    """Run one statement on Django's connection and return its rows, if it has any.

    As another role it takes one trip to the server, too. What is sent in one pipeline is a transaction of its own, and
    its end takes the role back whatever happens. Within a larger transaction the role is given back behind the
    statement; where that failed, the rollback does it.

    Raises:
        django.db.Error: as Django's own cursors would.
    """
    here = connections[DEFAULT_DB_ALIAS]
    here.close_if_health_check_failed()
    here.ensure_connection()
    here.validate_no_broken_transaction()
    prepare = not settings.ERL_DATABASE_POOLER
    with held(), here.wrap_database_errors:
        raw: psycopg.Connection[Any] = here.connection
        _register(raw)
        with psycopg.Cursor(raw) as cursor:
            if role:
                with raw.pipeline():
                    raw.execute(_SET_ROLE, [role], prepare=prepare)
                    cursor.execute(statement, parameters, prepare=prepare, binary=True)
                    if here.in_atomic_block:
                        own = settings.ERL_TENANT_ROLE if is_held() else "none"
                        raw.execute(_SET_ROLE, [own], prepare=prepare)
            else:
                cursor.execute(statement, parameters, prepare=prepare, binary=True)
            return [] if cursor.rownumber is None else cursor.fetchall()  # `description` describes every column


def _register(raw: psycopg.Connection[Any]) -> None:
    if getattr(raw, _MARK, False):
        return
    # The type's number differs from one database to the next, so each connection asks once.
    info = TypeInfo.fetch(raw, "halfvec")
    if info is None:
        raise psycopg.errors.UndefinedObject("The extension pgvector is missing. Run `manage.py migrate`.")
    info.register(raw)
    raw.adapters.register_dumper(QueryVector, _get_dumper(info.oid))
    if raw.prepare_threshold is None:  # Django switches preparing off; its own cursors still do without
        raw.prepare_threshold = 1_000_000
    setattr(raw, _MARK, True)


@cache
def _get_dumper(oid: int) -> type[Dumper]:
    """Return the dumper of a type: one class for all connections, because psycopg never forgets a class."""
    return type("HalfvecDumper", (_QueryVectorDumper,), {"oid": oid})


def read_vector(sent: bytes) -> Vectors:
    """Return a halfvec as PostgreSQL sends it in binary: two bytes of length, two spare, half floats."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float32)
