"""Large objects of PostgreSQL: bytes that web processes and workers share, in the same transactions as their rows.

They are no rows, so they belong to the login role and not to the role of a project.
https://www.postgresql.org/docs/18/lo-funcs.html
"""

from collections.abc import Iterator
from typing import Any

from django.db import connection

from memory.projects.tenancy import unconfined

_READ = 0x40000  # INV_READ
_FROM_END = 2  # SEEK_END
CHUNK_BYTES = 1024 * 1024


def create_large_object() -> int:
    """Make an empty one, and return its number."""
    return int(_fetch("SELECT lo_create(0)"))


def write_large_object(number: int, data: bytes, *, offset: int) -> None:
    """Write bytes at a place; writing the same there again changes nothing."""
    _fetch("SELECT lo_put(%s, %s, %s)", number, offset, data)


def measure_large_object(number: int) -> int:
    """Return how many bytes it has. Needs a transaction."""
    return int(_fetch("SELECT lo_lseek64(lo_open(%s, %s), 0, %s)", number, _READ, _FROM_END))


def read_large_object(number: int) -> Iterator[bytes]:
    """Yield its bytes in chunks."""
    offset = 0
    while chunk := bytes(_fetch("SELECT lo_get(%s, %s, %s)", number, offset, CHUNK_BYTES)):
        yield chunk
        offset += len(chunk)


def delete_large_object(number: int) -> None:
    """Delete it, if it is there."""
    _fetch("SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata WHERE oid = %s", number)


def _fetch(statement: str, *parameters: Any) -> Any:
    with unconfined(), connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0]
