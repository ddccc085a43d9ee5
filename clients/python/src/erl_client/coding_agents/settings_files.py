"""Change other programs' settings files: shown first, written whole or not at all, and taken back exactly.

What a file was before is kept as a receipt, so that the very same bytes can be put back as long as nothing else changed
it. Otherwise only our own entries are taken out.
"""

import difflib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from erl_client.api import ERLError
from erl_client.spool import state_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """What a file is without us: None where there is none, and `folders` were made with it."""

    content: bytes | None
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A file as it is, None where there is none, and as it will be."""

    path: Path
    before: bytes | None
    after: bytes | None
    original: Original

    def diff(self) -> str:
        old, new = (_lines(content) for content in (self.before, self.after))
        names = [show_path(self.path) if content is not None else "/dev/null" for content in (self.before, self.after)]
        lines = difflib.unified_diff(old, new, names[0], names[1])
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def find_target(path: Path, folder: Path | None) -> Path:
    """Return the file that a path leads to.

    Raises ERLError where a link leads out of the folder: what lies in a project does not decide what is written
    elsewhere.
    """
    target = path.resolve()
    if folder and not target.is_relative_to(folder.resolve()):
        raise ERLError(
            f"{path} is a link to {target}, outside {folder}. Nothing was written. Name the file itself, or put a file "
            "in place of the link."
        )
    return target


def show_path(path: Path) -> str:
    """Return a path, and where it leads if a link stands in the way."""
    target = path.resolve()
    return str(path) if path.absolute() == target else f"{path} (in fact {target})"


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a file, None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def find_original(path: Path, content: bytes | None) -> Original | None:
    """Return what a file was before we wrote it, None where we did not or anything else has changed it since."""
    try:
        receipt = json.loads(_receipt(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if content is None or receipt["after"] != _digest(content):
        return None
    if receipt["before"] is None:
        return Original(content=None, folders=tuple(map(Path, receipt["folders"])))
    start, end = receipt["place"]
    before = content[:start] + receipt["old"].encode("utf-8", "surrogateescape") + content[end:]
    return Original(content=before) if _digest(before) == receipt["before"] else None


def write_changes(changes: Sequence[Change]) -> None:
    """Write files in place of the old ones, with their mode. Raises ERLError where one has changed meanwhile."""
    for change in changes:
        if read_file(change.path) != change.before:
            raise ERLError(f"{change.path} was changed by another program just now. Nothing was written; try again.")
    missing = {parent for change in changes for parent in change.path.parents if not parent.exists()}
    for change in changes:
        if change.after is not None:
            _write(change.path, change.after)
        else:
            change.path.resolve().unlink()
            for folder in change.original.folders:
                with suppress(OSError):  # something else is in it
                    folder.rmdir()
        _receipt(change.path).unlink(missing_ok=True)
        if change.after is not None and change.after != change.original.content:
            made = [parent for parent in change.path.parents if parent in missing]
            _keep_receipt(change, change.after, change.original.folders or made)


def _write(path: Path, content: bytes) -> None:
    target = path.resolve()  # the file that a link leads to
    target.parent.mkdir(parents=True, exist_ok=True)
    umask = os.umask(0)
    os.umask(umask)
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~umask
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.chmod(mode)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _keep_receipt(change: Change, after: bytes, folders: Sequence[Path]) -> None:
    receipt: dict[str, Any] = {"path": str(change.path), "after": _digest(after), "before": None}
    old = change.original.content
    if old is None:
        receipt["folders"] = [str(folder) for folder in folders]
    else:
        start = len(os.path.commonprefix([old, after]))  # noqa: RUF071 - of bytes, not of paths
        tail = len(os.path.commonprefix([old[start:][::-1], after[start:][::-1]]))  # noqa: RUF071
        middle = old[start : len(old) - tail].decode("utf-8", "surrogateescape")
        receipt |= {"before": _digest(old), "place": [start, len(after) - tail], "old": middle}
    file = _receipt(change.path)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(file, json.dumps(receipt).encode())
    file.chmod(0o600)


def _receipt(path: Path) -> Path:
    return state_folder() / "erl" / "installed" / f"{_digest(str(path.resolve()).encode())[:32]}.json"


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
