"""Read recorded runs from files in any format that `memory.transcripts` reads. A bad entry does not stop the rest."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from memory.errors import MemoryAppError, UnreadableFile
from memory.intake.serializers import TrajectoryInput
from memory.limits import FILE_JSON
from memory.runs.episode import Action, Episode, Step
from memory.runs.limits_reached import limit_reached
from memory.runs.step_formats import read_steps
from memory.runs.tools import tool_names
from memory.strict_json import InvalidJson, parse_json
from memory.transcripts.formats import is_part_of_a_whole, look_up, read_document
from memory.transcripts.log import UnreadableTranscript, to_number
from memory.transcripts.otlp import decode_trace_request

FORMATS = ("auto", "jsonl", "json")
PROTOBUF_SUFFIXES = (".pb", ".binpb", ".otlp")

WHOLE_FILE = "file"
_NEXT = re.compile(r"\s*")
_OUTCOME_WORDS = {
    **dict.fromkeys(("success", "succeeded", "pass", "passed", "true", "yes", "resolved", "correct"), "success"),
    **dict.fromkeys(("failure", "failed", "fail", "false", "no", "error", "unresolved", "incorrect"), "failure"),
    "unknown": "unknown",
}
_KNOWN = frozenset(TrajectoryInput.model_fields) - {"reflect", "transcript", "open"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One run of a file: `data` for `record_trajectory`, or the reason why it cannot be read.

    `place` names it for a person: "line 3" or "entry 3". `format` is what its log was taken for.
    """

    place: str
    data: dict[str, Any] | None = None
    error: str = ""
    format: str = ""


def count_entries(path: Path, *, file_format: str = "auto") -> int:
    """Return the number of lines of a JSON Lines file, 0 for other files: a cheap estimate of its runs."""
    if _is_lines(path, file_format):
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    return 0


def read_entries(
    path: Path, *, file_format: str = "auto", defaults: Mapping[str, Any] | None = None, outcome_from: str = ""
) -> Iterator[FileEntry]:
    """Yield the runs of a file in order; an entry that cannot be read says why, and the others follow.

    Args:
        file_format: "jsonl" for JSON Lines, "json" for one document, "auto" to decide by name and content. What the
            lines or the document are is told by their content.
        defaults: fields to set on every run that does not name them.
        outcome_from: where a log says how its run ended, such as `metadata.reward` or `scores.0.value`.

    Raises:
        UnreadableFile: it is in no known form.
    """
    for place, raw, error in _raw_entries(path, file_format):
        if error:
            yield FileEntry(place=place, error=error)
            continue
        yield from read_log(raw, place=place, defaults=defaults or {}, outcome_from=outcome_from)


def read_log(raw: Any, *, place: str, defaults: Mapping[str, Any], outcome_from: str = "") -> Iterator[FileEntry]:
    """Yield the runs of a parsed log in any format that `memory.transcripts` reads."""
    try:
        reading = read_document(raw)
    except UnreadableTranscript as error:
        if place == WHOLE_FILE:
            raise UnreadableFile(str(error)) from None
        yield FileEntry(place=place, error=str(error))
        return
    found = [(where, own, own) for where, own in reading.own]
    found += [(f"entry {n}", run.fields(), raw) for n, run in enumerate(reading.transcripts, start=1)]
    several = len(found) + len(reading.problems) > 1
    for where, fields, source in found:
        at = (where if place == WHOLE_FILE else f"{place}, {where}") if several or place == WHOLE_FILE else place
        try:
            known = _from_members(fields)
            if outcome_from:
                known |= _find_outcome(outcome_from, fields, source)
            yield FileEntry(place=at, format=reading.summary(), data=_as_data(known, fields, defaults))
        except MemoryAppError as refusal:
            yield FileEntry(place=at, format=reading.summary(), error=str(refusal))
    for where, reason in reading.problems:
        yield FileEntry(place=where if place == WHOLE_FILE else f"{place}, {where}", error=reason)


def as_trajectory(raw: Any, *, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return one logged run as the fields of a trajectory.

    Unknown members are kept in `metadata`. A run without an id gets one made from its content, so that importing it
    again changes nothing.

    Raises UnreadableFile, saying what is wrong.
    """
    (entry,) = read_log(raw, place="", defaults=defaults)
    if entry.data is None:
        raise UnreadableFile(entry.error)
    return entry.data


def _as_data(known: Mapping[str, Any], raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = {**defaults, **{name: value for name, value in known.items() if value is not None}}
    if not fields.get("external_id"):
        canonical = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        fields["external_id"] = f"sha256:{sha256(canonical.encode()).hexdigest()[:32]}"
    data = TrajectoryInput.from_body(fields).run()
    data["steps"], left_out = read_steps(data.get("steps"))
    if left_out:
        data["metadata"] = {**data.get("metadata", {}), "left_out": left_out}
    return data


def _find_outcome(path: str, run: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """Return the outcome or score that a log holds at a place named by the user."""
    value = next((v for where in (run, run.get("metadata"), source) if (v := look_up(where, path)) is not None), None)
    if isinstance(value, bool):
        return {"outcome": "success" if value else "failure"}
    if (score := to_number(value)) is not None:
        return {"score": score}
    word = _OUTCOME_WORDS.get(str(value).strip().lower())
    if word is None:
        raise UnreadableFile(
            f"{path} is {str(value)[:40]!r}; expected true, false, a score from 0 to 1, or success or failure."
        )
    return {"outcome": word}


def as_episode(data: Mapping[str, Any]) -> Episode:
    """Return a run from a file in the form that a reflector reads, without the database."""
    return Episode(
        task=data["task"],
        steps=tuple(
            Step(
                index=step["index"],
                thought=step["thought"],
                action=Action(**step["action"]) if step["action"] else None,
                observation=step["observation"],
                error=step["error"],
            )
            for step in data["steps"]
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
        tools=tuple(tool_names(data.get("tools", ()))),
        cut_off=limit_reached(data.get("metadata", {})),
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


def _raw_entries(path: Path, file_format: str) -> Iterator[tuple[str, Any, str]]:
    if path.suffix.lower() in PROTOBUF_SUFFIXES:
        try:
            yield WHOLE_FILE, decode_trace_request(path.read_bytes()), ""
        except UnreadableTranscript as error:
            raise UnreadableFile(f"{path.name} is not readable. {error}") from None
        return
    if not _is_lines(path, file_format):
        try:
            yield WHOLE_FILE, _parse_documents(path.read_bytes()), ""
        except InvalidJson as error:
            raise UnreadableFile(f"{path.name} is not readable JSON. {error}") from error
        return
    lines = _parsed_lines(path)
    first = next(lines, None)
    if first is None:
        return
    if not is_part_of_a_whole(first[1]):
        yield first
        yield from lines
        return
    values = []
    for place, value, problem in chain([first], lines):
        if problem:
            yield place, None, problem
        else:
            values.append(value)
    yield WHOLE_FILE, values, ""


def _parse_documents(data: bytes) -> Any:
    """Return the JSON document of a file, or the list of those that follow one another, as console exporters write."""
    try:
        return parse_json(data, limits=FILE_JSON)
    except InvalidJson as error:
        if not error.reason.startswith("Extra data"):
            raise
        found = []
        text, position = data.decode(), 0
        while position < len(text):
            try:
                _, end = json.JSONDecoder().raw_decode(text, position)
            except (ValueError, RecursionError):
                raise error from None
            found.append(parse_json(text[position:end].encode(), limits=FILE_JSON))
            position = _NEXT.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        if not all(isinstance(document, dict) for document in found):
            raise
        return found


def _parsed_lines(path: Path) -> Iterator[tuple[str, Any, str]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield f"line {number}", parse_json(line, limits=FILE_JSON), ""
            except InvalidJson as error:
                yield f"line {number}", None, str(error)


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
