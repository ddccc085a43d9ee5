"""Recover the database to a point in time beside the one in use, and look whether it is one (reliability C8).

A base backup and PostgreSQL's archived log (https://www.postgresql.org/docs/18/continuous-archiving.html) are brought
to life by the embedded server; then what was erased since is erased again, and everything is checked.
"""

import gzip
import re
import shlex
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import psycopg
from django.db import connection

from erl_site.embedded import postgres
from erl_site.embedded.errors import EmbeddedServerError
from erl_site.programs import DrillError, find_program, manage, run_program
from memory.management.commands.erase import read_ledger

WAIT_SECONDS = 86_400.0  # for PostgreSQL to go through the log; who waits can stop it
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_SAID = {
    "recovery ended before configured recovery target was reached": (
        "The archived log ends before that time. Wait until the archive has what was written up to then (a minute, "
        "with archive_timeout = 60), or ask for an earlier time, or for none to get all there is."
    ),
    "before consistent recovery point": "That time is before the end of the base backup. Take an older base backup.",
    "database files are incompatible": "Another version of PostgreSQL made the base backup.",
    'role "': "The backup has no such user. Name one that it has in DATABASE_URL.",
}


@dataclass(kw_only=True)
class Recovery:
    """What a recovery came to; times in seconds. It passed where `faults` is empty."""

    last_change_at: str = ""  # of the changes that were brought back; "" where the log had none
    tables: int = 0
    rows: int = 0
    recover_seconds: float = 0.0  # from the first file that was copied to a database that answers
    check_seconds: float = 0.0
    erasures_replayed: int = 0
    faults: list[str] = field(default_factory=list)


def run_recovery(
    *,
    base: Path,
    archive: Path,
    until: datetime | None = None,
    erasures: Path | None = None,
    heads: Iterable[str] = (),
    keep: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Recovery:
    """Recover in a server of its own, which is stopped in the end, erase again, and check rows, audit and files.

    Args:
        base: folder that pg_basebackup made in the format `plain`.
        archive: folder of the archived log, its files as they are or packed with gzip.
        until: the time to recover to; None: as far as the archive goes.
        erasures: a ledger that `manage.py erase --export` wrote; None: nothing is erased again.
        heads: ends of the audit that were noted, as `manage.py verify_audit` printed them.
        keep: an empty folder for the recovered data; None throws them away.
        tell: is told what is being done.

    Raises:
        DrillError: there is no such backup, the archive does not reach, or a program is missing or fails.
    """
    if not (base / "PG_VERSION").is_file() or not (base / "backup_manifest").is_file():
        raise DrillError(f"{base} is no base backup. Give the folder that pg_basebackup --format=plain made.")
    if not archive.is_dir() or not any(archive.iterdir()):
        raise DrillError(f"{archive} holds no archived log. Give the folder that archive_command writes to.")
    if (base / "tablespace_map").exists() or any((base / "pg_tblspc").iterdir()):
        raise DrillError(f"{base} has tablespaces, which lie outside of it. The drill would touch those in use.")
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DrillError(f"{keep} is no empty folder. Give one that is empty or not there.")
    if keep is not None and set(str(keep)) & set("\"'`$\\\n"):
        raise DrillError(f"PostgreSQL cannot be started in {keep}. Give a folder without quotes, $ and backslashes.")
    tell("Comparing the base backup with its manifest …")
    run_program(find_program("pg_verifybackup"), "--no-parse-wal", "--quiet", str(base))
    tell("Reading the archived log …")
    log = _Log(base, archive)
    if fault := log.find_fault():
        raise DrillError(f"{fault}, so nothing that came after it can be brought back.")
    with tempfile.TemporaryDirectory(prefix="erl-recovery-") as folder:
        home = keep if keep is not None else Path(folder) / "postgres"
        recovery = Recovery()
        try:
            tell("Copying it, and going through the log …")
            started = time.perf_counter()
            url = _start(home, base=base, archive=archive, until=until)
            recovery.recover_seconds = time.perf_counter() - started
            tell("Checking what was recovered …")
            started = time.perf_counter()
            _look(url, base, until, recovery)
            if until is None and (stopped := log.find_shortfall(home / "data")):
                recovery.faults.append(f"PostgreSQL stopped at {stopped}, before the end of the archive.")
            _check(url, recovery, erasures=erasures, heads=heads)
            recovery.check_seconds = time.perf_counter() - started
        finally:
            if keep is None:
                postgres.discard(home)
            else:
                postgres.stop(home)
    return recovery


def _start(home: Path, *, base: Path, archive: Path, until: datetime | None) -> str:
    """Start a server on a copy of the backup, which answers once it has gone through the log; return its URL."""
    user, name = str(connection.settings_dict["USER"]), str(connection.settings_dict["NAME"])
    try:
        data = postgres.adopt(home, base)
        (data / "recovery.signal").touch()
        here = shlex.quote(str(archive.resolve())).replace("%", "%%")
        fetch = f"if [ -f {here}/%f.gz ]; then gzip -dc {here}/%f.gz > %p; else cp {here}/%f %p; fi"
        settings = [f"restore_command={fetch}", "recovery_target_action=promote", "hot_standby=off", "archive_mode=off"]
        if until is not None:
            settings.append(f"recovery_target_time={until.isoformat()}")
        url = postgres.ensure(home, user=user, dbname="postgres", settings=settings, wait_seconds=WAIT_SECONDS)
        with psycopg.connect(url) as server:
            is_there = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    except (EmbeddedServerError, psycopg.Error, OSError) as error:
        logged = postgres.log_tail(home, lines=12)
        hint = next((hint for words, hint in _SAID.items() if words in f"{error}\n{logged}"), str(error))
        raise DrillError(f"{hint}\nPostgreSQL said at last:\n{logged or 'nothing'}") from error
    if not is_there:
        raise DrillError(f"The backup has no database {name}. Name the one to recover in DATABASE_URL.")
    return url.replace("/postgres?", f"/{quote(name, safe='')}?")


def _count_bytes(path: Path) -> int:
    """Read a segment, unpacked, to its end."""
    count = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while part := file.read(1_000_000):
            count += len(part)
    return count


class _Log:
    """The segments of the log that a recovery needs, from the base backup and the archive, by their numbers.

    The first eight of the 24 digits of a segment's name are the timeline, which a recovery changes.
    """

    def __init__(self, base: Path, archive: Path) -> None:
        said = run_program(find_program("pg_controldata"), str(base))
        (size,) = re.findall(r"Bytes per WAL segment:\s+(\d+)", said)
        self.bytes_each = int(size)
        label = (base / "backup_label").read_text()
        (name,) = re.findall(r"START WAL LOCATION: .* \(file ([0-9A-F]{24})\)", label)
        self.timeline, self.first = name[:8], self.number(name)
        self.files = {
            self.number(path.name.removesuffix(".gz")): path
            for folder in (base / "pg_wal", archive)
            for path in folder.iterdir()
            if _SEGMENT.fullmatch(path.name.removesuffix(".gz"))
        }
        self.last = max(self.files, default=0)

    def number(self, name: str) -> int:
        return int(name[8:16], 16) * (2**32 // self.bytes_each) + int(name[16:], 16)

    def find_fault(self) -> str:
        """Return what is wrong with the first segment that is missing or cannot be read, or ""."""
        for number in range(self.first, max(self.last, self.first) + 1):
            path = self.files.get(number)
            if path is None:
                log, segment = divmod(number, 2**32 // self.bytes_each)
                return f"The archive lacks {self.timeline}{log:08X}{segment:08X}"
            try:
                found = _count_bytes(path)
            except (OSError, EOFError, zlib.error) as error:
                return f"{path} cannot be read ({error})"
            if found != self.bytes_each:
                return f"{path} has {found} bytes instead of {self.bytes_each}"
        return ""

    def find_shortfall(self, data: Path) -> str:
        """Return where a recovery to the archive's end stopped, if that was before it."""
        history = max(path for path in (data / "pg_wal").iterdir() if path.suffix == ".history")
        (high, low) = re.findall(r"^\d+\s+([0-9A-F]+)/([0-9A-F]+)", history.read_text(), re.MULTILINE)[-1]
        stopped = int(high, 16) * 2**32 + int(low, 16)
        return f"{high}/{low}" if stopped < self.last * self.bytes_each else ""


def _look(url: str, base: Path, until: datetime | None, recovery: Recovery) -> None:
    begun = re.findall(r"START TIME: (.+)", (base / "backup_label").read_text())[0]
    with psycopg.connect(url, autocommit=True) as server:
        with suppress(psycopg.DataError):  # it names a time zone that PostgreSQL knows in one direction alone
            ((is_older,),) = server.execute("SELECT %s::timestamptz < %s::timestamptz", [until, begun]).fetchall()
            if is_older:  # PostgreSQL recovers to the end of the backup and says nothing
                raise DrillError(f"The base backup was begun at {begun}. Take an older base backup.")
        (last,) = server.execute("SELECT pg_last_xact_replay_timestamp()").fetchone() or (None,)
        recovery.last_change_at = last.isoformat() if last else ""
        tables = server.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'").fetchall()
        recovery.tables = len(tables)
        for (table,) in tables:
            (rows,) = server.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)  # noqa: S608 - quoted
            recovery.rows += rows


def _check(url: str, recovery: Recovery, *, erasures: Path | None, heads: Iterable[str]) -> None:
    if erasures is not None:
        said = manage(url, "erase", "--replay", str(erasures))
        recovery.faults += [f"erase: {said}"] if said else []
        recovery.erasures_replayed = 0 if said else len(read_ledger(erasures))
    for command in (("check_invariants",), ("verify_audit", *(f"--head={head}" for head in heads))):
        said = manage(url, *command)
        recovery.faults += [f"{command[0]}: {said}"] if said else []
    with psycopg.connect(url) as server:
        (superuser,) = server.execute("SELECT rolname FROM pg_roles WHERE oid = 10").fetchone() or ("",)
        name = server.info.dbname
        where = ["--host", server.info.host, "--port", str(server.info.port), "--username", superuser]
    try:
        run_program(find_program("pg_amcheck"), "--install-missing", "--heapallindexed", *where, name)
    except DrillError as error:
        recovery.faults.append(str(error))
