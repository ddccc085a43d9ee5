"""The notes of hooks: which lessons a session was given, which tasks are recorded, and what each hook did last.

Each hook runs in a process of its own. The notes of a session are a file in the folder of the spool, to which each
hook adds lines.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from erl_client.spool import Spool, lock_file

WAIT_SECONDS = 1.0
HOOKS = "hooks"
LOSSES = "losses.jsonl"
MAX_LOSSES = 100


@dataclass(kw_only=True, slots=True)
class HookNote:
    """What a hook did when it last ran."""

    agent: str
    hook: str
    family: str = ""
    did: str = ""
    is_unfinished: bool = False


class SessionNotes:
    """The notes of one session."""

    def __init__(self, spool: Spool, agent: str, session_id: str) -> None:
        name = sha256(f"{agent}/{session_id}".encode()).hexdigest()[:32]
        self._file = spool.folder / "sessions" / f"{name}.jsonl"

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Keep other hooks of the session from recording, and tell whether this one may: another may have the lock."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            with lock_file(self._file.with_suffix(".lock")) as mine:
                if mine or time.monotonic() > deadline:
                    yield mine
                    return
            time.sleep(0.05)

    def note_given(self, prompt: str, retrieval_id: str) -> None:
        """Note that lessons were given with a prompt; "" is the start of the session."""
        self._add({"given": _digest(prompt), "retrieval_id": retrieval_id})

    def note_recorded(self, task_id: str, retrieval_id: str) -> None:
        self._add({"recorded": task_id, "retrieval_id": retrieval_id})

    def give_up(self) -> None:
        """Note that the session is not to be read again: it takes too long."""
        self._add({"given_up": "yes"})

    def is_given_up(self) -> bool:
        return any("given_up" in note for note in self._read())

    def recorded(self) -> set[str]:
        """Return the ids of the tasks that are recorded."""
        return {str(note["recorded"]) for note in self._read() if "recorded" in note}

    def find_retrieval(self, prompt: str) -> str:
        """Return the answer that was given with a prompt or before the first one, "" where there is none left."""
        notes = self._read()
        used = {note.get("retrieval_id") for note in notes if "recorded" in note}
        for digest in (_digest(prompt), _digest("")):
            for note in notes:
                if note.get("given") == digest and note.get("retrieval_id") not in used:
                    return str(note["retrieval_id"])
        return ""

    def _read(self) -> list[dict[str, Any]]:
        return [note for note in _read_lines(self._file) if isinstance(note, dict)]

    def _add(self, note: dict[str, str]) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def note_loss(spool: Spool, file: Path, reason: str) -> None:
    """Note for `erl status` that something of a session file was not recorded; the last losses are kept."""
    kept = [*find_losses(spool)[-MAX_LOSSES + 1 :], f"{file}: {reason}"]
    spool.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (spool.folder / LOSSES).write_text(
        "".join(f"{json.dumps(loss)}\n" for loss in dict.fromkeys(kept)), encoding="utf-8"
    )


def find_losses(spool: Spool) -> list[str]:
    """Return what hooks could not record, each with the file and the reason, the oldest first."""
    return [line for line in _read_lines(spool.folder / LOSSES) if isinstance(line, str)]


def note_hook(spool: Spool, note: HookNote, *, seconds: float) -> None:
    """Note for `erl status` what a hook did, in place of what it did before."""
    folder = spool.folder / HOOKS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = folder / f"{note.agent}-{note.hook}.{os.getpid()}.part"
    written = {"agent": note.agent, "hook": note.hook, "family": note.family, "did": note.did}
    written |= {"at": datetime.now().astimezone().isoformat(), "seconds": f"{seconds:.2f}"}
    unfinished.write_text(json.dumps(written), encoding="utf-8")
    unfinished.replace(folder / f"{note.agent}-{note.hook}.json")


def describe_hooks(spool: Spool) -> list[str]:
    """Say of each hook when it last ran, for which family, what it did and how long it took."""
    lines = []
    for file in sorted((spool.folder / HOOKS).glob("*.json")):
        for note in _read_lines(file):
            at = datetime.fromisoformat(note["at"])
            of = f" for {note['family']}" if note["family"] else ""
            lines.append(
                f"{note['agent']} {note['hook']}, {at:%Y-%m-%d %H:%M:%S}{of}: {note['did']} ({note['seconds']} s)"
            )
    return lines


def _read_lines(file: Path) -> Iterator[Any]:
    """Yield the values in a file of notes, without those that a process left half written."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def _digest(prompt: str) -> str:
    return sha256(" ".join(prompt.split()).encode("utf-8", "replace")).hexdigest()[:32]
