"""Write a backup of the database, check it, and restore one (reliability C8)."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from psycopg import sql

from erl_site.embedded.accounts import find_binaries
from erl_site.embedded.home import EmbeddedServerError

CHECKS = (("verify_audit",),)
# The extensions are there, and belong to an administrator
_RESTORE = ("--no-owner", "--no-comments", "--exit-on-error")
# In one statement each, so that the order does not matter
_OBJECTS = """
SELECT 'SET client_min_messages = warning;' UNION ALL SELECT 'DROP SCHEMA IF EXISTS erl_tenant CASCADE;'
UNION ALL SELECT format('DROP VIEW IF EXISTS %s CASCADE;', oid::regclass) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'v'
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_class.oid AND d.deptype = 'e')
UNION ALL SELECT format('DROP TABLE IF EXISTS %s CASCADE;', oid::regclass) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
UNION ALL SELECT format('DROP FUNCTION IF EXISTS %s CASCADE;', p.oid::regprocedure) FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
Digest = dict[str, tuple[int, str]]  # of each table: its rows, and the sum of their hashes
_TABLES = """
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1
"""


class BackupError(Exception):
    """A backup cannot be written or restored; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """What a backup holds."""

    tables: int
    rows: int
    bytes: int


def write_backup(file: Path, *, check: Callable[[Path, Digest], list[str]] | None = None) -> Backup:
    """Write the database into a file, read it back, and check it further with `check`; return what it holds.

    The file is there only where everything was fine.

    Raises:
        BackupError: PostgreSQL's programs are missing or fail, or the file does not hold what the database does.
    """
    partial = file.with_name(f".{file.name}.{uuid4().hex[:8]}")
    try:
        partial.touch(mode=0o600)  # only its owner may read it
        digest = _dump(partial)
        _read_back(partial, digest)
        faults = check(partial, digest) if check is not None else []
        if faults:
            raise BackupError(f"The restored copy differs, so there is no backup: {'; '.join(faults)}")
        size = partial.stat().st_size
        partial.replace(file)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return Backup(tables=len(digest), rows=_count(digest), bytes=size)


def run_drill(dump: Path, digest: Digest) -> list[str]:
    """Restore a dump into a second database, compare all rows, and drop it; return what differs.

    Replays the erasures on the copy, and checks the invariants and audit trail of both databases.

    Raises:
        BackupError: PostgreSQL's programs fail.
    """
    scratch = f"erl_drill_{uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="erl-drill-") as folder, _database(scratch) as url:
        ledger = Path(folder) / "erasures.txt"
        run_program(find_program("pg_restore"), *_RESTORE, f"--dbname={write_url(scratch)}", str(dump))
        faults = _compare(digest, _digest_of(scratch))
        call_command("erase", "--export", str(ledger), stdout=StringIO())
        for command in (("erase", "--replay", str(ledger)), *CHECKS):
            output = manage(url, *command)
            faults += [f"{command[0]} on the restored copy: {output}"] if output else []
        for command in CHECKS:
            output = _manage_here(*command)
            faults += [f"{command[0]} on the database: {output}"] if output else []
    return faults


def restore_backup(file: Path) -> Backup:
    """Replace everything in the database by a backup, in one transaction.

    Raises:
        BackupError: the file is no whole backup, or PostgreSQL refuses it; nothing was changed.
    """
    with tempfile.TemporaryDirectory(prefix="erl-restore-") as folder:
        entries, script, clear = Path(folder) / "entries", Path(folder) / "restore.sql", Path(folder) / "clear.sql"
        listed = run_program(find_program("pg_restore"), "--list", str(file)).splitlines()
        # Extensions are there and belong to an administrator, as the schema public does.
        kept = [line for line in listed if not re.search(r" (?:EXTENSION - |SCHEMA - public )", line)]
        entries.write_text("\n".join(kept))
        run_program(
            find_program("pg_restore"),
            "--no-owner",
            "--no-comments",
            f"--use-list={entries}",
            f"--file={script}",
            str(file),
        )
        clear.write_text("\n".join(_drop_statements()))
        url = write_url(str(connection.settings_dict["NAME"]))
        connection.close()
        run_program(
            find_program("psql"),
            "--no-psqlrc",
            "--quiet",
            "--single-transaction",
            "--set=ON_ERROR_STOP=1",
            f"--file={clear}",
            f"--file={script}",
            f"--dbname={url}",
        )
    with connection.cursor() as cursor:
        digest = _digest(cursor)
    return Backup(tables=len(digest), rows=_count(digest), bytes=file.stat().st_size)


def holds_projects() -> bool:
    """Tell whether the database holds anything that a restore would replace."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('public.memory_project') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return False
        cursor.execute("SELECT EXISTS (SELECT FROM memory_project)")
        return bool(cursor.fetchone()[0])


def _drop_statements() -> list[str]:
    """Return statements that drop what ERL has in the database: tables, views, functions and its schema."""
    with connection.cursor() as cursor:
        cursor.execute(_OBJECTS)
        return [statement for (statement,) in cursor.fetchall()]


def _read_back(dump: Path, digest: Digest) -> None:
    """Read a dump from its first byte to its last, and see that it has the rows of every table."""
    listed = run_program(find_program("pg_restore"), "--list", str(dump))
    dumped = {line.split(" TABLE DATA ")[1].split(" ")[1] for line in listed.splitlines() if " TABLE DATA " in line}
    with connection.cursor() as cursor:
        cursor.execute("SELECT format('%I.%I', 'public', relname) FROM pg_class WHERE relkind = 'p'")
        partitioned = {table for (table,) in cursor.fetchall()}  # their rows are in their partitions
    own = digest.keys() - partitioned
    missing = sorted(table for table in own if table.removeprefix("public.").strip('"') not in dumped)
    if missing:
        raise BackupError(f"The dump has no rows of {', '.join(missing)}.")
    run_program(find_program("pg_restore"), "--file=/dev/null", str(dump))


def _manage_here(command: str, *arguments: str) -> str:
    """Run a management command on the current database; return its output if it failed."""
    output = StringIO()
    try:
        call_command(command, *arguments, stdout=output)
    except CommandError as error:
        return f"{output.getvalue()}{error}"
    return ""


def _dump(target: Path) -> Digest:
    """Write a dump and return the digest of every table in the same snapshot."""
    program = find_program("pg_dump")
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # The dump and the digest read one snapshot, which lasts as long as this transaction.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # With a large database, both take longer than any limit for requests.
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        name = str(connection.settings_dict["NAME"])
        run_program(
            program, "--format=custom", f"--snapshot={snapshot}", f"--file={target}", f"--dbname={write_url(name)}"
        )
        return _digest(cursor)


def _count(digest: Digest) -> int:
    return sum(rows for rows, _ in digest.values())


def _digest(cursor: Any) -> Digest:
    """Return the row count and the sum of the row hashes of every table."""
    # Rows are hashed as text, and times are written in the time zone of the session.
    cursor.execute("SET LOCAL timezone = 'UTC'")
    cursor.execute(_TABLES)
    digests = {}
    for (table,) in cursor.fetchall():
        cursor.execute(f"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0)::text FROM {table} t")  # noqa: S608
        digests[table] = cursor.fetchone()
    return digests


def _digest_of(name: str) -> Digest:
    with psycopg.connect(write_url(name)) as other, other.cursor() as cursor:
        return _digest(cursor)


def _compare(before: Digest, after: Digest) -> list[str]:
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
    """Return the path of a PostgreSQL program: the embedded ones, which know no TLS, unless the server demands it.

    Raises:
        BackupError: it is not installed.
    """
    if _tls_options().get("sslmode") not in ("require", "verify-ca", "verify-full"):
        with suppress(EmbeddedServerError):
            return str(find_binaries() / name)
    path = shutil.which(name)
    if path is None:
        raise BackupError(f"{name} is missing. Install PostgreSQL's client programs in the same version as the server.")
    return path


def run_program(*command: str) -> str:
    """Run a PostgreSQL program and return its output.

    Raises:
        BackupError: it failed; the message has its output.
    """
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}, check=False)
    if ended.returncode:
        raise BackupError(f"{Path(command[0]).name} failed: {ended.stderr.strip()[-2000:]}")
    return ended.stdout


def manage(url: str, command: str, *arguments: str) -> str:
    """Run a management command on another database; return its output if it failed."""
    program = [sys.executable, str(settings.BASE_DIR / "manage.py"), command, *arguments]
    # The URL is already the owner's.
    environment = os.environ | {"DATABASE_URL": url, "DATABASE_OWNER_URL": "", "ERL_LOG_LEVEL": "ERROR"}
    ended = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    return (ended.stdout + ended.stderr).strip()[-2000:] if ended.returncode else ""


def write_url(name: str) -> str:
    """Return the URL of another database on the current server."""
    # This starts the embedded server, if it is used, and fills in its address.
    connection.ensure_connection()
    parameters = connection.settings_dict
    user, password = quote(parameters["USER"], safe=""), quote(parameters["PASSWORD"] or "", safe="")
    credentials = f"{user}:{password}" if password else user
    query = _tls_options()
    host = str(parameters["HOST"] or parameters["OPTIONS"].get("host") or "localhost")
    port = str(parameters["PORT"] or parameters["OPTIONS"].get("port") or 5432)
    # The folder of a socket cannot stand where a host does.
    server = f"{host}:{port}"
    if host.startswith("/"):
        server, query = "", query | {"host": host, "port": port}
    return f"postgresql://{credentials}@{server}/{name}?{urlencode(query, quote_via=quote, safe='')}".rstrip("?")


def _tls_options() -> dict[str, str]:
    """Return how DATABASE_URL wants connections to be encrypted, if it says so: sslmode, sslrootcert and the like."""
    options = connection.settings_dict["OPTIONS"]
    return {name: str(value) for name, value in options.items() if name.startswith("ssl")}
