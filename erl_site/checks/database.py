"""A database that lacks what ERL needs. Asked by `migrate` and by `check --database default`."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

MIN_POSTGRES = 16
MIN_PGVECTOR = (0, 8, 4)  # older ones may corrupt an HNSW index or fail inserts during vacuum
EXTENSIONS = ("vector", "pg_trgm", "btree_gin")


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find a server that is too old, or without an extension."""
    return [message for alias in databases or () for message in _check(alias)]


def _check(alias: str) -> list[CheckMessage]:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int")
        ((version,),) = cursor.fetchall()
        cursor.execute(
            "SELECT name, coalesce(installed_version, default_version) FROM pg_available_extensions"
            " WHERE name = ANY(%s)",
            [list(EXTENSIONS)],
        )
        available: dict[str, str] = dict(cursor.fetchall())
    found: list[CheckMessage] = []
    if version // 10_000 < MIN_POSTGRES:
        found.append(
            Error(
                f"The database is PostgreSQL {version // 10_000}.",
                hint=f"ERL needs {MIN_POSTGRES} or newer; it is tested on 18.",
                id="erl.database.E001",
            )
        )
    found.extend(
        Error(
            f"The database server has no extension {name}.",
            hint="Use an image with pgvector, such as pgvector/pgvector, or install the server's contrib packages.",
            id="erl.database.E002",
        )
        for name in EXTENSIONS
        if name not in available
    )
    if "vector" in available and _numbers(available["vector"]) < MIN_PGVECTOR:
        wanted = ".".join(map(str, MIN_PGVECTOR))
        found.append(
            Error(
                f"The database has pgvector {available['vector']}.",
                hint=f"Install pgvector {wanted} or newer on the server, then run ALTER EXTENSION vector UPDATE.",
                id="erl.database.E003",
            )
        )
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
