"""Tables of an export in pages, for clients that cannot read one snapshot."""

import json
from typing import Any
from uuid import UUID

from django.db import connection

from memory.transfer.export import find_tables, select_rows
from memory.transfer.serializers import ExportedTable
from memory.transfer.tables import FAMILIES, find_columns, find_key

PAGE_ROWS = 500
PAGE_CHARS = 2_000_000


def count_tables(project_id: UUID) -> list[ExportedTable]:
    """Return the tables of a whole export, with their rows now."""
    tables = []
    for table in find_tables(FAMILIES):
        statement, parameters = select_rows(project_id, table.name, families=FAMILIES, what="count(*)")
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            (rows,) = cursor.fetchone()
        columns = [column.name for column in find_columns(table.name)]
        tables.append(ExportedTable(table=table.name, columns=columns, rows=rows))
    return tables


def read_page(project_id: UUID, name: str, *, after: str) -> tuple[list[str], str | None]:
    """Return the lines after a place, at least one where there is one, and the place of the last; None at the end.

    Raises:
        ValueError: `after` is no place in this table.
    """
    place = _read_place(name, after) if after else None
    statement, parameters = select_rows(project_id, name, families=FAMILIES, after=place)
    lines: list[str] = []
    size = 0
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL timezone = 'UTC'")
        cursor.execute(f"{statement} LIMIT {PAGE_ROWS + 1}", parameters)
        for (line,) in cursor:
            if lines and (len(lines) == PAGE_ROWS or size + len(line) > PAGE_CHARS):
                return lines, _write_place(name, lines[-1])
            lines.append(line)
            size += len(line)
    return lines, None


def _write_place(name: str, line: str) -> str:
    row = json.loads(line)
    return json.dumps([row[column.name] for column in find_key(name)])


def _read_place(name: str, text: str) -> list[Any]:
    values = json.loads(text)
    key = find_key(name)
    if not isinstance(values, list) or len(values) != len(key):
        raise ValueError
    for column, value in zip(key, values, strict=True):
        if column.type == "uuid":
            UUID(str(value))
        elif not isinstance(value, int):
            raise ValueError
    return values
