"""The folder of the embedded stack: its place, the secret key kept in it, the places of its sockets and locks."""

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class EmbeddedServerError(Exception):
    """An embedded server cannot run here; the text says why and what to do."""


# A socket's path holds 107 bytes (macOS: 103); the server's file name and its lock's take up to 20.
LONGEST_SOCKET_FOLDER_BYTES = 80


def erl_home(value: str, base_dir: Path) -> Path:
    """Return the absolute home folder: `value`, or `.erl` next to manage.py."""
    return Path(value).expanduser().resolve() if value else base_dir / ".erl"


def secret_key(home: Path) -> str:
    """Return the key kept in `home`, making it the first time. Any number of processes may ask at once."""
    path = home / "secret_key"
    try:
        return path.read_text()
    except FileNotFoundError:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f".secret_key.{os.getpid()}.{secrets.token_hex(4)}"
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(50))
    try:
        os.link(draft, path)  # fails where another process was first: then its key counts
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()


def socket_folder(home: Path) -> Path:
    """Return where a server under `home` has its socket: in it, or under /tmp where its path is too long."""
    folder = home / "run"
    if len(os.fsencode(folder)) <= LONGEST_SOCKET_FOLDER_BYTES:
        return folder
    return Path("/tmp", f"erl-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}")  # noqa: S108 - see below


def make_socket_folder(home: Path, *, owner: int) -> Path:
    """Make the socket folder for the user `owner` alone and return where it really is.

    Its mode keeps others out of servers that ask for no password, so a folder that another user created there first
    (/tmp is open to all) is refused.
    """
    folder = socket_folder(home)
    if folder.parent == home:
        folder = folder.resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    if owner != os.geteuid() == folder.lstat().st_uid:
        os.chown(folder, owner, -1)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077 or found.st_uid != owner:
        raise EmbeddedServerError(
            f"{folder} belongs to another user or is open to others. Remove it, or set ERL_HOME to a shorter path."
        )
    return folder


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Make `home` for its owner alone and hold its lock: of several processes, one acts and the others wait."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (home / "lock").open("a")
    except PermissionError as error:
        raise EmbeddedServerError(
            f"{home} cannot be written ({error.strerror}); it may have been made by another user. "
            "Run this as that user, or set ERL_HOME to a folder of your own."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
