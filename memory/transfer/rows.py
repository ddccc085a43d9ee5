"""The rows of an import: read line by line, written through the triggers of the database, and their faults by line."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection, transaction
from django.db.models.fields import NOT_PROVIDED

from memory.projects.models import Project
from memory.redaction import redact
from memory.transfer.checks import check_rows
from memory.transfer.export import Progress, find_tables
from memory.transfer.manifest import File, TransferError, read_lines
from memory.transfer.tables import STEPS, TABLES, Column, Table, Update, find_columns, find_key, find_kinds, find_model

MAX_FAULT_CHARS = 500
SHOWN_FAULTS = 20  # in each file
BATCH_ROWS = 500
BATCH_BYTES = 8 * 1024 * 1024
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFault:
    """Why a line cannot be taken in. `line` is 0 where the fault is not of one line."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class RowsRefused(TransferError):
    """An export does not fit into this installation. `faults` are the first in each file of `count`."""

    def __init__(self, faults: Sequence[RowFault], *, count: int) -> None:
        self.faults = tuple(faults)
        self.count = count
        more = [f"… and {count - len(faults):,} more."] if count > len(faults) else []
        super().__init__("\n".join([*map(str, faults), *more]))


@dataclass(kw_only=True, slots=True)
class _ExportedRow:
    number: int
    text: str
    row: dict[str, Any]


@dataclass(kw_only=True)
class RowLoader:
    """One import: reads the files in the order of STEPS, and collects the faults."""

    folder: Path
    files: dict[str, File]
    project: Project
    families: set[str]
    same_people: bool
    redacted_only: bool
    progress: Progress
    rows: dict[str, int] = field(default_factory=dict)
    faults: list[RowFault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # of faults in each file

    def __post_init__(self) -> None:
        self.tables = {table.name for table in find_tables(self.families)}

    def run(self) -> None:
        """Write all rows. Raises RowsRefused."""
        for step in STEPS:
            if step.name not in self.files or step.name not in self.tables:
                continue
            if isinstance(step, Table):
                self._insert_all(step)
            # A line that could not be inserted cannot be read as a row either.
            elif step.family in ("", *self.families) and not self.counts[TABLES[step.name].file]:
                self._update_all(step)
        self._refuse()

    def finish(self) -> None:
        """Check what is true of all rows together, and let the database check what it checks at the end."""
        for name, id, message in check_rows(self.project, self.tables):
            self._add(TABLES[name].file, self._find_line(name, id), message)
        self._refuse()
        try:
            with transaction.atomic():
                execute("SET CONSTRAINTS ALL IMMEDIATE")
        except DatabaseError as error:
            message = describe_error(error)
            named = _UUID.search(message)
            tables = self._order_tables(error)
            places = ((name, self._find_line(name, named[0])) for name in tables) if named else iter(())
            name, line = next(((name, line) for name, line in places if line), (tables[0], 0))
            self._add(TABLES[name].file, line, message)
        self._refuse()

    def _insert_all(self, table: Table) -> None:
        columns = [column for column in find_columns(table.name) if column.name in self.files[table.name].columns]
        statement, parameters = self._insert_statement(table, columns)
        self.rows[table.name] = 0
        for batch in self._batches(table.name):
            kept = [
                line for line in batch if not table.kinds or line.row.get("kind") in find_kinds(table, self.families)
            ]
            if kept:
                self.rows[table.name] += self._insert(table.name, statement, parameters, kept)
            self.progress(table.name, batch[-1].number)

    def _insert(self, name: str, statement: str, parameters: list[Any], lines: list[_ExportedRow]) -> int:
        """Write a batch, or its rows one by one to find those that the database does not take."""
        try:
            with transaction.atomic():
                rows = execute(statement, [_as_array(lines), *parameters])
        except DatabaseError as error:
            if len(lines) == 1:
                self._add(TABLES[name].file, lines[0].number, describe_error(error))
                return 0
            return sum(self._insert(name, statement, parameters, [line]) for line in lines)
        written = {_as_key(row[:-1]): row[-1] for row in rows}
        for line in lines:
            key = _as_key(line.row.get(column.name) for column in find_key(name))
            if key not in written:
                # Where most rows are there already, one statement more for each of them would take long.
                is_shown = self.counts[TABLES[name].file] < SHOWN_FAULTS
                message = self._why_not(statement, parameters, line) if is_shown else "it is there already"
                self._add(TABLES[name].file, line.number, message)
            elif (sha256 := written[key]) and sha256 != line.row["content_sha256"] and not line.row.get("erased_at"):
                self._add(
                    TABLES[name].file,
                    line.number,
                    f"the text has the hash {sha256}, but the export says {line.row['content_sha256']}: it was changed",
                )
        return len(written)

    def _why_not(self, statement: str, parameters: list[Any], line: _ExportedRow) -> str:
        """Return why the database has not written a row: what of it is there already."""
        plain = statement.replace(" ON CONFLICT DO NOTHING", "")
        try:
            with transaction.atomic():
                execute(plain, [_as_array([line]), *parameters])
                transaction.set_rollback(True)
        except DatabaseError as error:
            return describe_error(error)
        return "it is there already"

    def _update_all(self, update: Update) -> None:
        given = set(update.columns) & set(self.files[update.name].columns)
        columns = [column for column in find_columns(update.name) if column.name in given and self._is_kept(column)]
        if not columns:
            return
        sets = ", ".join(f"{column.name} = {self._value(column)}" for column in columns)
        differs = " OR ".join(f"t.{column.name} IS DISTINCT FROM {self._value(column)}" for column in columns)
        rows = (
            "jsonb_array_elements(%s::jsonb) AS l (line), "
            f"LATERAL jsonb_populate_record(NULL::{update.name}, l.line) r "
            f"WHERE t.id = r.id AND t.project_id = %s AND ({update.where})"
        )
        for batch in self._batches(update.name):
            self._update(update, f"UPDATE {update.name} t SET {sets} FROM {rows} AND ({differs})", batch)  # noqa: S608
            # A trigger may have left a column as it was.
            left = execute(
                f"SELECT t.id FROM {update.name} t, {rows} AND ({differs})",  # noqa: S608
                [_as_array(batch), self.project.pk],
            )
            for (id,) in left:
                line = next(line for line in batch if line.row["id"] == str(id))
                message = f"{' and '.join(update.columns)} cannot be as in the export"
                self._add(TABLES[update.name].file, line.number, message)

    def _update(self, update: Update, statement: str, lines: list[_ExportedRow]) -> None:
        try:
            with transaction.atomic():
                if update.erases:
                    execute("SELECT set_config('erl.erasing', 'on', true)")
                execute(statement, [_as_array(lines), self.project.pk])
                if update.erases:
                    execute("SELECT set_config('erl.erasing', 'off', true)")
        except DatabaseError as error:
            if len(lines) == 1:
                self._add(TABLES[update.name].file, lines[0].number, describe_error(error))
                return
            for line in lines:
                self._update(update, statement, [line])

    def _insert_statement(self, table: Table, columns: list[Column]) -> tuple[str, list[Any]]:
        """Return the statement that writes lines of a file, and its parameters after the lines."""
        defaults = _find_defaults(table.name, {column.name for column in columns})
        named = [column.name for column in columns if column.names]
        values = {column.name: self._value(column, table.until) for column in columns}
        values |= {name: f"r.{name}" for name in defaults}
        key = ", ".join(f"t.{column.name}" for column in find_key(table.name))
        has_hash = "content_sha256" in values and table.name != "memory_review"
        row = f"jsonb_populate_record(NULL::{table.name}, %s::jsonb || (l.line - %s::text[])) r"
        statement = (
            f"INSERT INTO {table.name} AS t (project_id, {', '.join(values)}) "  # noqa: S608 - names of columns
            f"SELECT '{self.project.pk}'::uuid, {', '.join(values.values())} "
            f"FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS l (line, number), LATERAL {row} "
            f"ORDER BY l.number ON CONFLICT DO NOTHING RETURNING {key}, {'t.content_sha256' if has_hash else 'NULL'}"
        )
        return statement, [json.dumps(defaults, cls=DjangoJSONEncoder), named]

    def _value(self, column: Column, until: Any = None) -> str:
        """Return what a column gets, as SQL over the row `r` and its line `l`."""
        if until and column.name in until:
            return str(until[column.name])
        if not self._is_kept(column):
            return "NULL"
        if column.names:
            agree = " AND ".join(
                f"n.{part.name} = (l.line -> '{column.name}' ->> {place})::{part.type.split()[0]}"
                for place, part in enumerate(column.names)
            )
            return f"(SELECT n.id FROM {column.refers_to} n WHERE {agree})"  # noqa: S608 - names of columns
        if column.is_label and not self.same_people:
            return (
                f"CASE WHEN r.{column.name} LIKE 'user:%%' THEN 'import:' || r.{column.name} ELSE r.{column.name} END"
            )
        return f"r.{column.name}"

    def _is_kept(self, column: Column) -> bool:
        """Tell whether a column may refer to what it does: its family is taken in, too."""
        return not column.refers_to or column.refers_to in self.tables

    def _batches(self, name: str) -> Iterator[list[_ExportedRow]]:
        batch: list[_ExportedRow] = []
        size = 0
        for number, data in enumerate(read_lines(self.folder / TABLES[name].file), start=1):
            line = self._read_line(name, number, data)
            if line is None:
                continue
            if batch and (len(batch) == BATCH_ROWS or size + len(data) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(data)
        if batch:
            yield batch

    def _read_line(self, name: str, number: int, data: bytes) -> _ExportedRow | None:
        """Return a line that is a row with exactly the columns of the manifest, or note what is wrong with it."""
        file, columns = TABLES[name].file, set(self.files[name].columns)
        try:
            text = data.decode()
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._add(file, number, f"this is no JSON: {error}")
            return None
        if not isinstance(row, dict) or row.keys() != columns:
            unexpected = sorted(row.keys() ^ columns) if isinstance(row, dict) else ["no object"]
            self._add(file, number, f"this row does not have the columns of the manifest: {', '.join(unexpected[:5])}")
            return None
        if self.redacted_only:
            counts = redact({column: row.get(column) for column in TABLES[name].redacted}).counts
            if counts:
                kinds = ", ".join(sorted(counts))
                self._add(file, number, f"this row holds what looks like a secret ({kinds}): erase it first")
                return None
        return _ExportedRow(number=number, text=text, row=row)

    def _find_line(self, name: str, id: str) -> int:
        """Return the line of a file that is about an id: the row itself, else the first one that names it."""
        named = 0
        if name not in self.files:
            return 0
        for number, data in enumerate(read_lines(self.folder / TABLES[name].file), start=1):
            if id.encode() in data:
                row = json.loads(data)
                if row.get("id") == id:
                    return number
                named = named or number
        return named

    def _order_tables(self, error: Exception) -> list[str]:
        """Return the tables, first the one that an error names."""
        diagnosis = getattr(error.__cause__, "diag", None)
        named = getattr(diagnosis, "table_name", None)
        tables = [table for table in TABLES if table in self.tables]
        return sorted(tables, key=lambda name: name != named)

    def _add(self, file: str, line: int, message: str) -> None:
        self.counts[file] += 1
        if self.counts[file] <= SHOWN_FAULTS:
            self.faults.append(RowFault(file=file, line=line, message=message))

    def _refuse(self) -> None:
        if self.faults:
            raise RowsRefused(self.faults, count=self.counts.total())


def _find_defaults(name: str, given: set[str]) -> dict[str, Any]:
    """Return what columns get that an export of an earlier version does not have, but those the database fills."""
    defaults = {}
    for column in find_columns(name):
        model_field = next(f for f in find_model(name)._meta.local_concrete_fields if f.column == column.name)
        if column.name not in given and model_field.db_default is NOT_PROVIDED:
            defaults[column.name] = model_field.get_default() if model_field.has_default() else None
    return defaults


def _as_array(lines: Sequence[_ExportedRow]) -> str:
    """Return lines as one parameter: psycopg takes seconds to escape a list of long texts."""
    return f"[{','.join(line.text for line in lines)}]"


def _as_key(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values))


def execute(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []


def describe_error(error: Exception) -> str:
    """Return what the database said in one line. Its details may quote a row, except those about a key."""
    diagnosis = getattr(error.__cause__, "diag", None)
    if (getattr(diagnosis, "constraint_name", None) or "").endswith("_is_approved"):
        return "the text does not have the hash that was approved"
    primary, detail = (getattr(diagnosis, name, None) or "" for name in ("message_primary", "message_detail"))
    parts = [primary or str(error).splitlines()[0], *([detail] if detail.startswith("Key ") else [])]
    return ". ".join(part.rstrip(".") for part in parts)[:MAX_FAULT_CHARS]
