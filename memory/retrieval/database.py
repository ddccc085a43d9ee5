"""Statements of the hot path: prepared on the server, parameters in binary, no ORM (docs/retrieval.md has the cost)."""

from typing import Any

import numpy as np
import psycopg
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from memory.embeddings.base import Vectors

_MARK = "_erl_halfvec_registered"
_CHECKED = "health_check_done"  # Django's own mark, until the end of the request


class QueryVector:
    """A vector on its way into a statement."""

    __slots__ = ("bytes",)

    def __init__(self, vector: Vectors) -> None:
        half = vector.astype(">f2")
        self.bytes = len(half).to_bytes(2, "big") + b"\0\0" + half.tobytes()

    def as_numbers(self) -> Vectors:
        """Return the vector as the database sees it, rounded to half precision."""
        return read_vector(self.bytes)


class _QueryVectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: QueryVector) -> bytes:
        return obj.bytes


def read_prepared(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement that changes nothing, on a new connection if the one at hand turns out to be dead.

    That takes the place of Django's question whether the connection still works, which costs a round trip.

    Where ERL_SERVING_ROLE names a role, the statement has the rights of that role alone (reliability C3).

    Raises:
        django.db.Error: as Django's own cursors would.
    """
    if settings.ERL_SERVING_ROLE:
        return _read_as(settings.ERL_SERVING_ROLE, statement, parameters)
    if connection.in_atomic_block or connection.connection is None or getattr(connection, _CHECKED):
        return execute_prepared(statement, parameters)
    setattr(connection, _CHECKED, True)
    try:
        return execute_prepared(statement, parameters)
    except (InterfaceError, OperationalError):
        if not connection.connection.broken:
            raise
        connection.close()
        return execute_prepared(statement, parameters)


def _read_as(role: str, statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement as another role, in a transaction whose end gives our own rights back whatever happens."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL ROLE {connection.ops.quote_name(role)}")
        rows = execute_prepared(statement, parameters)
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")  # the transaction may be a larger one that goes on
        return rows


def execute_prepared(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run one statement on Django's connection and return its rows, if it has any.

    Raises:
        django.db.Error: as Django's own cursors would.
    """
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    raw: psycopg.Connection[Any] = connection.connection
    with connection.wrap_database_errors:
        _register(raw)
        with psycopg.Cursor(raw) as cursor:
            cursor.execute(statement, parameters, prepare=True, binary=True)
            return [] if cursor.rownumber is None else cursor.fetchall()  # `description` describes every column


def _register(raw: psycopg.Connection[Any]) -> None:
    if getattr(raw, _MARK, False):
        return
    info = TypeInfo.fetch(raw, "halfvec")
    if info is None:
        raise psycopg.errors.UndefinedObject("The extension pgvector is missing. Run `manage.py migrate`.")
    info.register(raw)
    dumper = type("HalfvecDumper", (_QueryVectorDumper,), {"oid": info.oid})
    raw.adapters.register_dumper(QueryVector, dumper)
    if raw.prepare_threshold is None:  # Django switches preparing off; its own cursors still do without
        raw.prepare_threshold = 1_000_000
    setattr(raw, _MARK, True)


def read_vector(sent: bytes) -> Vectors:
    """Return a halfvec as PostgreSQL sends it in binary: two bytes of length, two spare, half floats."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float32)
