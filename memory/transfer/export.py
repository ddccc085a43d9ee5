"""Write a project as a folder of JSON Lines, from one snapshot of the database."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction

from memory.projects.models import Project
from memory.transfer.manifest import NAME, File, Manifest, TransferError
from memory.transfer.tables import TABLES, Column, Table, close_families, find_columns, find_key, find_kinds

Progress = Callable[[str, int], None]
FETCHED_ROWS = 200


def export_project(
    project: Project, folder: Path, *, families: Iterable[str], progress: Progress = lambda table, rows: None
) -> Manifest:
    """Write families of a project into a folder, which is there only once it is whole. Return its manifest.

    Raises:
        TransferError: the folder exists, or cannot be written.
    """
    if folder.exists():
        raise TransferError(f"{folder} exists. Name a folder that does not.")
    partial = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}")
    try:
        partial.mkdir(mode=0o700, parents=True)  # runs are nobody else's business
        with snapshot():
            manifest = _write_files(project, partial, families=close_families(families), progress=progress)
        with open(partial / NAME, "w", encoding="utf-8", opener=open_private) as file:
            file.write(manifest.model_dump_json(indent=1) + "\n")
        partial.replace(folder)
    except OSError as error:
        raise TransferError(f"{folder} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


@contextmanager
def snapshot() -> Iterator[None]:
    """Read everything in this block as it was at one moment."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # A large project takes longer to read than any limit for requests.
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SET LOCAL timezone = 'UTC'")
        yield


def find_tables(families: Iterable[str]) -> list[Table]:
    """Return the tables of which families have rows."""
    return [table for table in TABLES.values() if set(table.families) & set(families)]


def select_rows(
    project_id: UUID, name: str, *, families: Iterable[str], what: str = "", after: Sequence[Any] | None = None
) -> tuple[str, list[Any]]:
    """Return the statement for the lines of a table, in the order of its key, and its parameters.

    Args:
        what: asked for in place of the lines, such as their number.
        after: the key of a row; only those after it.
    """
    families = set(families)
    table = TABLES[name]
    tables = {table.name for table in find_tables(families)}
    columns = find_columns(name)
    row = f"to_jsonb(t) - %s::text[]{''.join(_replace(name, column, tables) for column in columns)}"
    kept = {column.name for column in columns}
    others = [field for field in _all_columns(name) if field not in kept]
    conditions = ["t.project_id = %s", *_conditions(table, "t")]
    parameters: list[Any] = [*([] if what else [others]), project_id]
    if table.kinds:
        conditions.append("t.kind = ANY (%s)")
        parameters.append(find_kinds(table, families))
    key = find_key(name)
    order = ", ".join(f"t.{column.name}" for column in key)
    if after is not None:
        places = ", ".join(f"%s::{column.type.split()[0]}" for column in key)
        conditions.append(f"({order}) > ({places})")
        parameters.extend(after)
    where = f"FROM {name} t WHERE {' AND '.join(conditions)}"
    if what:
        return f"SELECT {what} {where}", parameters
    return f"SELECT ({row})::text {where} ORDER BY {order}", parameters


def read_project(project_id: UUID) -> dict[str, Any]:
    """Return the row of a project as an export has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(p)::text FROM memory_project p WHERE id = %s", [project_id])
        row: dict[str, Any] = json.loads(cursor.fetchone()[0])
        return row


def _write_files(project: Project, folder: Path, *, families: set[str], progress: Progress) -> Manifest:
    manifest = Manifest(families=sorted(families), project=read_project(project.pk), files=[])
    for table in find_tables(families):
        digest, size, rows = hashlib.sha256(), 0, 0
        with open(folder / table.file, "wb", opener=open_private) as file:
            for line in _read_rows(project.pk, table.name, families=families):
                digest.update(line)
                size += file.write(line)
                rows += 1
                if rows % 1000 == 0:
                    progress(table.name, rows)
        progress(table.name, rows)
        if not rows:
            (folder / table.file).unlink()
            continue
        columns = [column.name for column in find_columns(table.name)]
        manifest.files.append(File(table=table.name, columns=columns, rows=rows, bytes=size, sha256=digest.hexdigest()))
    return manifest


def _read_rows(project_id: UUID, name: str, *, families: set[str]) -> Iterator[bytes]:
    statement, parameters = select_rows(project_id, name, families=families)
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement, parameters)
        while rows := cursor.fetchmany(FETCHED_ROWS):
            for (text,) in rows:
                yield text.encode() + b"\n"


def _conditions(table: Table, alias: str) -> Iterator[str]:
    """Yield which rows are exported: what goes along with a row that is not stays behind with it."""
    if table.rows:
        yield table.rows.format(t=alias)
    for column in find_columns(table.name):
        inner = f"{alias}{len(alias)}"
        if column.refers_to and column.goes_along and column.refers_to != table.name:
            of_parent = list(_conditions(TABLES[column.refers_to], inner))
            if of_parent:
                yield (
                    f"({alias}.{column.name} IS NULL OR EXISTS (SELECT FROM {column.refers_to} {inner} "
                    f"WHERE {inner}.id = {alias}.{column.name} AND {' AND '.join(of_parent)}))"
                )


def _replace(name: str, column: Column, tables: set[str]) -> str:
    """Return what a reference is written as where its row is not exported, or has a counted key."""
    if not column.refers_to:
        return ""
    if column.refers_to not in tables:
        return f" || '{{\"{column.name}\": null}}'"
    referred = TABLES[column.refers_to]
    if column.names:
        names = ", ".join(f"n.{part.name}" for part in column.names)
        return (
            f" || jsonb_build_object('{column.name}', (SELECT jsonb_build_array({names}) "  # noqa: S608
            f"FROM {column.refers_to} n WHERE n.id = t.{column.name}))"
        )
    conditions = list(_conditions(referred, "n"))
    # A row goes along with one of another table; of its own, it stays without it.
    if not conditions or (column.goes_along and column.refers_to != name):
        return ""
    return (
        f" || CASE WHEN EXISTS (SELECT FROM {column.refers_to} n WHERE n.id = t.{column.name} "
        f"AND NOT ({' AND '.join(conditions)})) THEN '{{\"{column.name}\": null}}'::jsonb ELSE '{{}}' END"
    )


def _all_columns(name: str) -> list[str]:
    with connection.cursor() as cursor:
        return [column.name for column in connection.introspection.get_table_description(cursor, name)]


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as `opener` of `open`."""
    return os.open(path, flags, 0o600)
