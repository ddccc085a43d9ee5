"""`erl export --all` and `erl import`: a whole project as a folder of JSON Lines, in the form of `export_memory`."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from erl_client.api import ERLError
from erl_client.client import ERL

MANIFEST = "manifest.json"
RUNS = "memory_trajectory.jsonl"
FORMAT = "erl-project"
PART_CHARS = 50_000
READ_BYTES = 1_000_000
MOST_PARTS = 100  # in one request
POLL_SECONDS = 1.0
BREAK_SECONDS = 2.0  # after a part that ERL did not answer
ENDED = ("imported", "checked", "refused", "dropped", "failed")


def export_all(erl: ERL, folder: Path) -> str:
    """Write the project of the key into a folder, which is there only once it is whole; return what was written."""
    if folder.exists():
        raise ERLError(f"{folder} exists. Name a folder that does not.")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    partial.mkdir(mode=0o700, parents=True)  # runs are nobody else's business
    try:
        before = erl.api.get("/export")
        files = [_write_file(erl, partial, table) for table in before["tables"] if table["rows"]]
        _check_rows(files, erl.api.get("/export"))
        manifest = {name: before[name] for name in ("format", "version", "families", "project")} | {"files": files}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    size = sum(file["bytes"] for file in files)
    return f"{folder}: {sum(file['rows'] for file in files):,} rows of {len(files)} tables, {size / 1e6:.1f} MB."


def is_whole_project(path: Path) -> bool:
    """Tell whether a folder is such an export."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def import_all(
    erl: ERL, folder: Path, *, only: Sequence[str] = (), dry_run: bool, progress: Callable[[str], None]
) -> str:
    """Bring an export into the project of the key, all of it or nothing; return what was taken in.

    `only` names families of rows, such as `lessons`. What they cannot do without comes along.
    """
    manifest = json.loads((folder / MANIFEST).read_bytes())
    with suppress(KeyError, TypeError):  # a manifest of another form is for ERL to refuse
        _check_files(folder, manifest)
    body = {"manifest": manifest, "families": list(only), "dry_run": dry_run}
    state = erl.api.post("/imports", body, idempotency_key=str(uuid4()), timeout_seconds=60)
    path = f"/imports/{state['id']}"
    offset = 0
    for parts in _pack(_read_parts(folder, manifest), most_bytes=state["part_bytes"]):
        end = offset + sum(len(part.encode()) for part in parts)
        if end > state["received_bytes"]:  # else an earlier try sent it
            state = erl.api.send_patiently("PUT", path, {"offset": offset, "parts": parts}, unasked=BREAK_SECONDS)
        offset = end
        progress(f"{offset / 1e6:.1f} of {state['bytes'] / 1e6:.1f} MB sent")
    if offset != state["bytes"]:
        raise ERLError(f"The files in {folder} end before the manifest says so. Export the project again.")
    while state["status"] not in ENDED:
        waiting = "all sent; waits for a worker" if state["status"] == "queued" else state["status"]
        progress(f"{state['table']}, line {state['line']:,}" if state["table"] else waiting)
        time.sleep(POLL_SECONDS)
        state = erl.api.get(path)
    if state["status"] not in ("imported", "checked"):
        faults = [f"{fault['file']}, line {fault['line']}: {fault['message']}" for fault in state["faults"]]
        raise ERLError("\n".join(["Nothing was imported.", state["refusal"], *faults]))
    rows = f"{sum(state['rows'].values()):,} rows of {len(state['rows'])} tables"
    if dry_run:
        return f"{rows} would be imported. Nothing was changed."
    return f"{rows} are imported. Searches find its lessons and passages once the workers have embedded them."


def _check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Refuse files that are not as the manifest says, before anything is sent."""
    for file in manifest.get("files", ()):
        path, digest = folder / f"{file['table']}.jsonl", hashlib.sha256()
        try:
            with path.open("rb") as content:
                while part := content.read(READ_BYTES):
                    digest.update(part)
            size = path.stat().st_size
        except OSError as error:
            raise ERLError(f"{path} cannot be read: {error.strerror}. Copy the folder again.") from None
        if size != file["bytes"]:
            raise ERLError(
                f"{path} has {size:,} bytes, and {MANIFEST} says {file['bytes']:,}. Nothing was sent: copy the folder "
                "again."
            )
        if digest.hexdigest() != file["sha256"]:
            raise ERLError(f"{path} is not the file that {MANIFEST} names. Nothing was sent: copy the folder again.")


def _read_parts(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the files that a manifest names, in its order, as pieces of text."""
    try:
        for file in manifest["files"]:
            # `newline=""`, so that each character is the bytes that it was.
            with (folder / f"{file['table']}.jsonl").open(encoding="utf-8", newline="") as lines:
                while part := lines.read(PART_CHARS):
                    yield part
    except (OSError, UnicodeDecodeError) as error:
        raise ERLError(f"The files in {folder} cannot be read: {error}") from None


def _pack(parts: Iterator[str], *, most_bytes: int) -> Iterator[list[str]]:
    """Yield as many pieces together as fit into a request."""
    packed: list[str] = []
    size = 100  # of what is around them
    for part in parts:
        length = len(json.dumps(part)) + 2
        if packed and (size + length > most_bytes or len(packed) == MOST_PARTS):
            yield packed
            packed, size = [], 100
        packed.append(part)
        size += length
    if packed:
        yield packed


def _write_file(erl: ERL, folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    digest, size, rows = hashlib.sha256(), 0, 0
    after: dict[str, str] = {}
    with open(folder / f"{table['table']}.jsonl", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        while True:
            page = erl.api.get(f"/export/{table['table']}", **after)
            for line in page["lines"]:
                data = f"{line}\n".encode()
                digest.update(data)
                size += file.write(data)
                rows += 1
            if page["next"] is None:
                break
            after = {"after": page["next"]}
    return {
        "table": table["table"],
        "columns": table["columns"],
        "rows": rows,
        "bytes": size,
        "sha256": digest.hexdigest(),
    }


def _check_rows(files: list[dict[str, Any]], now: dict[str, Any]) -> None:
    """Refuse an export of rows that came or went meanwhile: they might refer to others that it does not have."""
    written = {file["table"]: file["rows"] for file in files}
    changed = [table["table"] for table in now["tables"] if table["rows"] != written.get(table["table"], 0)]
    if changed:
        raise ERLError(
            f"The project changed while it was read ({', '.join(changed)}). Try again while no agent works, or let an "
            "operator run `manage.py export_memory --format project`, which reads one moment."
        )
