"""The manifest of an export: what the folder holds, with the hash of each file."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.errors import MemoryAppError
from memory.limits import FILE_JSON
from memory.strict_json import InvalidJson, parse_json
from memory.transfer.tables import FAMILIES, TABLES, close_families, find_columns

NAME = "manifest.json"
FORMAT = "erl-project"
VERSION = 1
MAX_LINE_BYTES = 128 * 1024 * 1024


class TransferError(MemoryAppError):
    """An export cannot be read or taken in; the message says why."""


class BrokenExport(TransferError):
    """A folder is no whole export of a version that this installation reads."""


class File(BaseModel):
    """One file of an export: a table, its columns, and what the file must be."""

    model_config = ConfigDict(extra="forbid")

    table: str
    columns: list[str]
    rows: Annotated[int, Field(ge=0)]
    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What an export holds. `project` is the row of the project; its id, name and settings."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["erl-project"] = "erl-project"
    version: Annotated[int, Field(ge=1)] = VERSION
    families: list[str]
    project: dict[str, Any]
    files: list[File]

    @property
    def project_id(self) -> UUID:
        return UUID(self.project["id"])

    def count_rows(self) -> int:
        return sum(file.rows for file in self.files)

    def count_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder.

    Raises:
        BrokenExport: there is none, it cannot be read, or a newer version wrote it.
    """
    path = folder / NAME
    try:
        document = parse_json(path.read_bytes(), limits=FILE_JSON)
    except OSError as error:
        raise BrokenExport(
            f"{path} cannot be read: {error.strerror}. An export has a manifest once it is whole."
        ) from None
    except InvalidJson as error:
        raise BrokenExport(f"{path} cannot be read as JSON: {error}") from None
    return check_manifest(document, name=str(path))


def check_manifest(document: Any, *, name: str = "The manifest") -> Manifest:
    """Return what a manifest says. `name` is what messages call it.

    Raises:
        BrokenExport: it is none, or a newer version wrote it.
    """
    version = document.get("version") if isinstance(document, dict) else None
    # Before the form, which a newer version may have changed
    if isinstance(version, int) and version > VERSION:
        raise BrokenExport(
            f"{name} has version {version} of the format; this installation reads {VERSION}. Upgrade it first."
        )
    try:
        manifest = Manifest.model_validate(document)
        manifest.project_id  # noqa: B018 - is it one?
    except (ValidationError, KeyError, ValueError, TypeError) as error:
        raise BrokenExport(f"{name} is no manifest of an export: {_describe(error)}") from None
    _check_names(manifest, name)
    return manifest


def choose_families(manifest: Manifest, wanted: list[str]) -> set[str]:
    """Return the families to take in, all of the export where none is named.

    Raises:
        TransferError: the export does not hold one of them.
    """
    families = close_families(wanted or manifest.families)
    if missing := families - set(manifest.families):
        raise TransferError(
            f"The export does not hold {', '.join(sorted(missing))}, which you asked for or which it takes."
        )
    return families


def check_file(folder: Path, file: File) -> None:
    """Compare a file with what the manifest says of it.

    Raises:
        BrokenExport: it is missing, cut off, or was changed.
    """
    path = folder / TABLES[file.table].file
    digest, size, rows = hashlib.sha256(), 0, 0
    for line in read_lines(path):
        digest.update(line)
        size += len(line)
        rows += 1
        if not line.endswith(b"\n"):
            raise BrokenExport(f"{path}, line {rows}: the file ends in the middle of this line.")
    if rows < file.rows:
        raise BrokenExport(f"{path}, line {rows}: the file ends here, but the manifest says {file.rows:,} lines.")
    if (rows, size, digest.hexdigest()) != (file.rows, file.bytes, file.sha256):
        raise BrokenExport(f"{path} is not the file that was exported: its SHA-256 differs from that of the manifest.")


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, each with its end.

    Raises:
        BrokenExport: the file cannot be read, or a line is longer than any row.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise BrokenExport(f"{path}, line {number}: no row is longer than {MAX_LINE_BYTES:,} bytes.")
                yield line
    except OSError as error:
        raise BrokenExport(f"{path} cannot be read: {error.strerror}.") from None


def _check_names(manifest: Manifest, name: str) -> None:
    """Refuse families, tables and columns that this installation does not have."""
    if unknown := set(manifest.families) - FAMILIES.keys():
        raise BrokenExport(f"{name} names families that are not known here: {', '.join(sorted(unknown))}.")
    names = [file.table for file in manifest.files]
    if len(set(names)) < len(names):
        raise BrokenExport(f"{name} names a table twice.")
    for file in manifest.files:
        if file.table not in TABLES:
            raise BrokenExport(f"{name} names the table {file.table!r}, which an import does not take.")
        if newer := set(file.columns) - {column.name for column in find_columns(file.table)}:
            raise BrokenExport(
                f"{name}: {file.table} has columns that are not known here: {', '.join(sorted(newer))}. A newer "
                "version wrote it; upgrade this installation first."
            )


def _describe(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    return f"{type(error).__name__} in the project"
