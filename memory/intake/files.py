"""Read recorded runs from files: JSON, JSON Lines, chat logs and benchmark logs. A bad entry does not stop the rest."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from memory.errors import MemoryAppError, UnreadableFile
from memory.intake.serializers import TrajectoryInput
from memory.limits import FILE_JSON
from memory.runs.episode import Action, Episode, Step
from memory.runs.step_formats import normalise_steps
from memory.strict_json import InvalidJson, parse_json

FORMATS = ("auto", "jsonl", "json")

_KNOWN = frozenset(TrajectoryInput.model_fields) - {"reflect"}
_LIST_MEMBERS = ("trajectories", "episodes", "runs", "results")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One run of a file: `data` for `record_trajectory`, or the reason why it cannot be read.

    `place` names it for a person: "line 3" or "entry 3".
    """

    place: str
    data: dict[str, Any] | None = None
    error: str = ""


def count_entries(path: Path, *, file_format: str = "auto") -> int:
    """Return the number of lines of a JSON Lines file, 0 for other files: a cheap estimate of its runs."""
    if _is_lines(path, file_format):
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    return 0


def read_entries(
    path: Path, *, file_format: str = "auto", defaults: Mapping[str, Any] | None = None
) -> Iterator[FileEntry]:
    """Yield the runs of a file in order; an entry that cannot be read says why, and the others follow.

    Args:
        file_format: "jsonl" for one run a line, "json" for one document, "auto" to decide by name and content.
        defaults: fields to set on every run that does not name them.

    Raises:
        UnreadableFile: it is in neither form.
    """
    for place, raw, error in _raw_entries(path, file_format):
        if error:
            yield FileEntry(place=place, error=error)
            continue
        try:
            yield FileEntry(place=place, data=as_trajectory(raw, defaults=defaults or {}))
        except MemoryAppError as refusal:
            yield FileEntry(place=place, error=str(refusal))


def as_trajectory(raw: Any, *, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return one logged run as the fields of a trajectory.

    Reads our own fields, with `id` for `external_id`; a chat log, bare or under `messages`; and tau-bench's records
    with `traj`, `reward` and `info`. Unknown members are kept in `metadata`. A run without an id gets one made
    from its content, so that importing it again changes nothing.

    Raises InvalidSteps, InvalidInput or UnreadableFile, saying which field is wrong.
    """
    if isinstance(raw, list):
        raw = {"messages": raw}
    if not isinstance(raw, Mapping):
        raise UnreadableFile("This must be an object describing a run, or a list of chat messages.")
    fields = _from_benchmark(raw) if "traj" in raw else _from_members(raw)
    fields = {**defaults, **{name: value for name, value in fields.items() if value is not None}}
    if not fields.get("external_id"):
        canonical = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        fields["external_id"] = f"sha256:{sha256(canonical.encode()).hexdigest()[:32]}"
    data = TrajectoryInput.from_body(fields).run()
    data["steps"] = normalise_steps(data.get("steps"))
    return data


def as_episode(data: Mapping[str, Any]) -> Episode:
    """Return a run from a file in the form that a reflector reads, without the database."""
    return Episode(
        task=data["task"],
        steps=tuple(
            Step(**{**step, "action": Action(**step["action"]) if step["action"] else None}) for step in data["steps"]
        ),
        outcome=data.get("outcome", "unknown"),
        score=data.get("score"),
        outcome_source=data.get("outcome_source", ""),
        task_id=data.get("task_id", ""),
        agent=data.get("agent", ""),
        tags=tuple(data.get("tags", ())),
        summary=data.get("summary", ""),
        mistakes=tuple(data.get("mistakes", ())),
        successes=tuple(data.get("successes", ())),
        mistake_cards=tuple(data.get("mistake_cards", ())),
    )


def _from_members(raw: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in raw.items() if name in _KNOWN}
    metadata = raw.get("metadata")
    unknown = {name: value for name, value in raw.items() if name not in _KNOWN and name != "id"}
    if "id" in raw and "external_id" not in raw:
        fields["external_id"] = str(raw["id"])
    if unknown and (metadata is None or isinstance(metadata, Mapping)):
        fields["metadata"] = {**unknown, **(metadata or {})}
    return fields


def _from_benchmark(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Read tau-bench's form, without the right actions in it: no reflector may see them."""
    info = raw.get("info") if isinstance(raw.get("info"), Mapping) else {}
    task = info.get("task") if isinstance(info, Mapping) else None
    instruction = task.get("instruction") if isinstance(task, Mapping) else None
    known = {name: raw[name] for name in ("task_id", "trial") if name in raw}
    return {
        "task": instruction,
        "messages": raw["traj"],
        "score": raw.get("reward"),
        "outcome_source": "environment" if raw.get("reward") is not None else None,
        "metadata": known or None,
    }


def _raw_entries(path: Path, file_format: str) -> Iterator[tuple[str, Any, str]]:
    if _is_lines(path, file_format):
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    yield f"line {number}", parse_json(line, limits=FILE_JSON), ""
                except InvalidJson as error:
                    yield f"line {number}", None, str(error)
        return
    try:
        document = parse_json(path.read_bytes(), limits=FILE_JSON)
    except InvalidJson as error:
        raise UnreadableFile(f"{path.name} is not readable JSON. {error}") from error
    for number, entry in enumerate(_runs_in(document), start=1):
        yield f"entry {number}", entry, ""


def _runs_in(document: Any) -> list[Any]:
    if isinstance(document, Mapping):
        for member in _LIST_MEMBERS:
            if isinstance(document.get(member), list) and "steps" not in document and "messages" not in document:
                return list(document[member])
        return [document]
    if not isinstance(document, list):
        raise UnreadableFile("The file must hold a run, or a list of runs.")
    is_chat = bool(document) and all(isinstance(item, Mapping) and "role" in item for item in document)
    return [document] if is_chat else document


def _is_lines(path: Path, file_format: str) -> bool:
    """Tell JSON Lines from one document: by name, or because the first line is complete JSON and others follow."""
    if file_format != "auto":
        return file_format == "jsonl"
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    with path.open("rb") as file:
        first = b""
        for line in file:
            if line.strip():
                if first:
                    break
                first = line
        else:
            return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True
