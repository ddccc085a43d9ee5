"""Test a backup: dump the database, restore the dump and compare (reliability C8)."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from psycopg import sql

from erl_site.embedded.accounts import find_binaries
from erl_site.embedded.home import EmbeddedServerError

CHECKS = (("check_invariants",), ("verify_audit",))
# The extensions are there, and belong to an administrator
_RESTORE = ("--no-owner", "--no-comments", "--exit-on-error")
_TABLES = """
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1
"""


class DrillError(Exception):
    """The drill cannot run; the message says why."""


@dataclass(kw_only=True)
class Drill:
    """The result of a drill. It passed if `faults` is empty."""

    tables: int = 0
    rows: int = 0
    dump_bytes: int = 0
    dump_seconds: float = 0.0
    restore_seconds: float = 0.0
    erasures_replayed: int = 0
    faults: list[str] = field(default_factory=list)


def run_drill(*, keep: Path | None = None) -> Drill:
    """Dump the database, restore it under another name, compare all rows, and drop the copy.

    Replays the erasures on the copy, and checks the invariants and audit trail of both databases.

    Args:
        keep: where to keep the dump; None deletes it.

    Raises:
        DrillError: PostgreSQL's programs are missing or fail.
    """
    drill = Drill()
    scratch = f"erl_drill_{uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="erl-drill-") as folder:
        dump = Path(folder) / "erl.dump"
        ledger = Path(folder) / "erasures.txt"
        before = _dump(dump, drill)
        with _database(scratch) as url:
            started = time.perf_counter()
            run_program(
                find_program("pg_restore"),
                *_RESTORE,
                f"--dbname={write_url(scratch)}",
                str(dump),
            )
            drill.restore_seconds = time.perf_counter() - started
            drill.faults += _compare(before, _digest_of(scratch))
            call_command("erase", "--export", str(ledger), stdout=StringIO())
            drill.erasures_replayed = len(ledger.read_text().splitlines())
            for command in (("erase", "--replay", str(ledger)), *CHECKS):
                output = manage(url, *command)
                drill.faults += [f"{command[0]} on the restored copy: {output}"] if output else []
            for command in CHECKS:
                output = _manage_here(*command)
                drill.faults += [f"{command[0]} on the database: {output}"] if output else []
        if keep is not None:
            shutil.copyfile(dump, keep)
    drill.tables, drill.rows = len(before), sum(rows for rows, _ in before.values())
    return drill


def _manage_here(command: str, *arguments: str) -> str:
    """Run a management command on the current database; return its output if it failed."""
    output = StringIO()
    try:
        call_command(command, *arguments, stdout=output)
    except CommandError as error:
        return f"{output.getvalue()}{error}"
    return ""


def _dump(target: Path, drill: Drill) -> dict[str, tuple[int, str]]:
    """Write a dump and return the digest of every table in the same snapshot."""
    program = find_program("pg_dump")
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        started = time.perf_counter()
        name = str(connection.settings_dict["NAME"])
        run_program(
            program, "--format=custom", f"--snapshot={snapshot}", f"--file={target}", f"--dbname={write_url(name)}"
        )
        drill.dump_seconds = time.perf_counter() - started
        drill.dump_bytes = target.stat().st_size
        return _digest(cursor)


def _digest(cursor: Any) -> dict[str, tuple[int, str]]:
    """Return the row count and the sum of the row hashes of every table."""
    cursor.execute("SET LOCAL timezone = 'UTC'")
    cursor.execute(_TABLES)
    found = {}
    for (table,) in cursor.fetchall():
        cursor.execute(f"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0)::text FROM {table} t")  # noqa: S608
        found[table] = cursor.fetchone()
    return found


def _digest_of(name: str) -> dict[str, tuple[int, str]]:
    with psycopg.connect(write_url(name)) as other, other.cursor() as cursor:
        return _digest(cursor)


def _compare(before: dict[str, tuple[int, str]], after: dict[str, tuple[int, str]]) -> list[str]:
    missing = [f"{table} is not in the copy" for table in before.keys() - after.keys()]
    differing = [
        f"{table}: {before[table][0]} rows became {after[table][0]}, or their content changed"
        for table in sorted(before.keys() & after.keys())
        if before[table] != after[table]
    ]
    return missing + differing


@contextmanager
def _database(name: str) -> Iterator[str]:
    """Create an empty database on the same server, yield its URL, and drop it."""
    with psycopg.connect(write_url("postgres"), autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield write_url(name)
    finally:
        with psycopg.connect(write_url("postgres"), autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def find_program(name: str) -> str:
    """Return the path of a PostgreSQL program, preferring the embedded ones.

    Raises:
        DrillError: it is not installed.
    """
    try:
        return str(find_binaries() / name)
    except EmbeddedServerError:
        found = shutil.which(name)
        if found is None:
            raise DrillError(
                f"{name} is missing. Install PostgreSQL's client programs in the same version as the server."
            ) from None
        return found


def run_program(*command: str) -> str:
    """Run a PostgreSQL program and return its output.

    Raises:
        DrillError: it failed; the message has its output.
    """
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}, check=False)
    if ended.returncode:
        raise DrillError(f"{Path(command[0]).name} failed: {ended.stderr.strip()[-2000:]}")
    return ended.stdout


def manage(url: str, command: str, *arguments: str) -> str:
    """Run a management command on another database; return its output if it failed."""
    program = [sys.executable, str(settings.BASE_DIR / "manage.py"), command, *arguments]
    environment = os.environ | {"DATABASE_URL": url, "ERL_LOG_LEVEL": "ERROR"}
    ended = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    return (ended.stdout + ended.stderr).strip()[-2000:] if ended.returncode else ""


def write_url(name: str) -> str:
    """Return the URL of another database on the current server."""
    connection.ensure_connection()  # starts the embedded server and fills in its address
    parameters = connection.settings_dict
    user, password = quote(parameters["USER"], safe=""), quote(parameters["PASSWORD"] or "", safe="")
    credentials = f"{user}:{password}" if password else user
    host, port = str(parameters["HOST"] or "localhost"), str(parameters["PORT"] or 5432)
    if host.startswith("/"):
        return f"postgresql://{credentials}@/{name}?host={quote(host, safe='')}&port={port}"
    return f"postgresql://{credentials}@{host}:{port}/{name}"
