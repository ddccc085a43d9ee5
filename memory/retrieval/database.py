"""Statements of the hot path: prepared on the server, parameters in binary, no ORM (docs/retrieval.md has the cost)."""

from typing import Any

import numpy as np
import psycopg
from django.db import connection
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from memory.embeddings.base import Vectors

_MARK = "_erl_halfvec_registered"


class QueryVector:
    """A vector on its way into a statement."""

    __slots__ = ("bytes",)

    def __init__(self, vector: Vectors) -> None:
        half = vector.astype(">f2")
        self.bytes = len(half).to_bytes(2, "big") + b"\0\0" + half.tobytes()


class _QueryVectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: QueryVector) -> bytes:
        return obj.bytes


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
