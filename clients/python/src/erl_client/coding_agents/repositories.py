"""What the files of a git repository say about it: whose it is, and what is being worked on.

Git itself is never run: the settings in a folder can make it start any program.
"""

import os
import platform
import stat
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

MAX_FILE_BYTES = 200_000
LAST_COMMITS = 5
_NOT_IN_NAMES = frozenset({"", ".", "..", "_git"})  # Azure DevOps has a part _git
_PREFIXES = frozenset({"scm", "v3"})  # of the addresses of Bitbucket and Azure DevOps


def find_family(folder: str) -> str:
    """Return the task family of a folder: owner and name of its repository, as its remote has them.

    A repository without an owner gets a hash of its location, so that it shares nothing with others of its name.
    """
    if not folder:
        return ""
    place = Path(folder)
    root, _, common = _find_repository(place)
    remote = _read_remote(common)
    if named := _owner_and_name(remote):
        return named
    home = common.parent if common.name == ".git" else common  # the same for all work trees
    home = root if ".git" in home.parts else home  # of a submodule
    where = remote or home.absolute()
    name = remote.rstrip("/").removesuffix(".git").rpartition("/")[2] or home.name
    return f"{name}-{sha256(f'{platform.node()}:{where}'.encode()).hexdigest()[:8]}".lower()


def short_name(family: str) -> str:
    """Return the name of a repository without its owner, which was the family in versions before 1.0."""
    return family.rpartition("/")[2]


def work_in_progress(folder: str) -> str:
    """Return what a repository is being worked on, as its branch and the last commits made here say, or ""."""
    _, own, _ = _find_repository(Path(folder))
    branch = _read(own / "HEAD").strip().removeprefix("ref: refs/heads/")
    moves = (line.partition("\t")[2] for line in reversed(_read(own / "logs" / "HEAD", end=True).splitlines()))
    commits = [subject for what, _, subject in (move.partition(": ") for move in moves) if what.startswith("commit")]
    if not commits:
        return ""
    return "\n".join([f"Work on {branch}, after these commits:", *commits[:LAST_COMMITS]])


def find_root(file: Path) -> Path:
    """Return the folder of the repository that a file stands in, or else the nearest folder that a person named."""
    parents = file.absolute().parents
    here = Path.cwd()
    outside = here if here in parents else parents[0]
    return next((parent for parent in parents if (parent / ".git").exists()), outside)


def _find_repository(place: Path) -> tuple[Path, Path, Path]:
    """Return the folder that is checked out, where git keeps what is its own, and what all work trees share."""
    root = next((parent for parent in (place, *place.parents) if (parent / ".git").exists()), place)
    own = root / ".git"
    said = _read(own).strip()  # of a work tree or a submodule, where .git is a file
    if said.startswith("gitdir: "):
        own = Path(os.path.normpath(root / said.removeprefix("gitdir: ")))
    common = _read(own / "commondir").strip()
    return root, own, Path(os.path.normpath(own / common)) if common else own


def _read_remote(settings: Path) -> str:
    """Return the address of the remote `origin`, or else of the first one."""
    remotes: dict[str, str] = {}
    section = ""
    for line in map(str.strip, _read(settings / "config").splitlines()):
        if line.startswith("["):
            section, _, line = line[1:].partition("]")
        name, _, value = line.partition("=")
        kind, _, remote = section.partition(" ")
        if kind.lower() == "remote" and name.strip().lower() == "url":
            remotes.setdefault(
                remote.strip().strip('"'), value.partition(" #")[0].partition(" ;")[0].strip().strip('"')
            )
    return remotes.get("origin") or next(iter(remotes.values()), "")


def _owner_and_name(remote: str) -> str:
    """Return the path of a remote on its host; "" for a folder, whose path says nothing of an owner."""
    remote = remote.replace("\\", "/")
    scheme, is_url, rest = remote.partition("://")
    host, separator, path = rest.partition("/") if is_url else remote.partition(":")
    is_folder = scheme.lower() == "file" if is_url else not separator or "/" in host or len(host) == 1
    if is_folder:
        return ""
    parts = [part for part in unquote(path.partition("?")[0]).lower().split("/") if part not in _NOT_IN_NAMES]
    if len(parts) > 2 and parts[0] in _PREFIXES:
        parts = parts[1:]
    if len(parts) == 1:
        parts = [host.rpartition("@")[2].partition(":")[0].lower(), *parts]
    return "/".join(parts).removesuffix(".git")


def _read(path: Path, *, end: bool = False) -> str:
    """Return the beginning of a file, or its end, "" where it cannot be read. Waits for no pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        return ""
    with os.fdopen(handle, "rb") as file:
        file.seek(max(0, about.st_size - MAX_FILE_BYTES) if end else 0)
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
