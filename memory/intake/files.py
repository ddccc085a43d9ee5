"""Read recorded runs from files in any format that `memory.transcripts` reads. A bad entry does not stop the rest."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from memory.errors import MemoryAppError, UnreadableFile
from memory.intake import harbor
from memory.intake.serializers import TrajectoryInput
from memory.limits import FILE_JSON
from memory.runs.episode import Action, Episode, EpisodeStep
from memory.runs.limits_reached import limit_reached
from memory.runs.step_formats import read_steps
from memory.runs.tools import describe_tools, tool_names
from memory.strict_json import InvalidJson, check_json, load_json
from memory.transcripts.formats import LogReading, look_up, read_document, read_lines, split_line, stands_alone
from memory.transcripts.loading import UTF_16_MARKS, as_utf_8, clean, note_damage, open_archive
from memory.transcripts.log import UnreadableTranscript, to_number
from memory.transcripts.otlp import decode_trace_request

FORMATS = ("auto", "jsonl", "json")
PROTOBUF_SUFFIXES = (".pb", ".binpb", ".otlp")
ARCHIVE_SUFFIX = ".eval"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

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
        with _open(path) as file:
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
    for log in _read_logs(path, file_format):
        if log.reading is None:
            yield FileEntry(place=log.place, error=log.error)
        else:
            yield from _entries_of(log, defaults or {}, outcome_from)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Log:
    """A log of a file and what was read from it, or the reason why nothing was. `place` is WHOLE_FILE or a line's."""

    place: str
    raw: Any = None
    reading: LogReading | None = None
    error: str = ""


def _entries_of(log: _Log, defaults: Mapping[str, Any], outcome_from: str) -> Iterator[FileEntry]:
    reading, raw, place = log.reading, log.raw, log.place
    assert reading is not None
    found = [(where, own, own) for where, own in reading.own]
    found += [(f"entry {n}", run.fields(), raw) for n, run in enumerate(reading.transcripts, start=1)]
    several = len(found) + len(reading.problems) > 1
    for where, fields, source in found:
        at = (where if place == WHOLE_FILE else f"{place}, {where}") if several or place == WHOLE_FILE else place
        try:
            known = _from_members(fields)
            if outcome_from:
                known |= _find_outcome(outcome_from, fields, source)
            if fields is not source and not (
                str(fields.get("task", "")).strip() or {**defaults, **known}.get("task_id")
            ):
                raise UnreadableFile(_explain_missing_task(reading, fields))
            yield FileEntry(place=at, format=reading.summary(), data=_as_data(known, fields, defaults))
        except MemoryAppError as refusal:
            yield FileEntry(place=at, format=reading.summary(), error=str(refusal))
    for where, reason in reading.problems:
        yield FileEntry(place=where if place == WHOLE_FILE else f"{place}, {where}", error=reason)


def _explain_missing_task(reading: LogReading, fields: Mapping[str, Any]) -> str:
    left_out = fields.get("metadata", {}).get("left_out", ())
    why = f" Left out: {'; '.join(left_out[:3])}." if left_out else ""
    steps = len(fields.get("steps", ()))
    return (
        f"{reading.format}: this run, with {steps} step{'' if steps == 1 else 's'}, does not say what it was asked to "
        f"do.{why} Name its family with --family to record it anyway."
    )


def as_trajectory(raw: Any, *, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return one logged run as the fields of a trajectory.

    Unknown members are kept in `metadata`. A run without an id gets one made from its content, so that importing it
    again changes nothing.

    Raises UnreadableFile, saying what is wrong.
    """
    try:
        log = _Log(place="", raw=raw, reading=read_document(raw))
    except UnreadableTranscript as error:
        raise UnreadableFile(str(error)) from None
    (entry,) = _entries_of(log, defaults, "")
    if entry.data is None:
        raise UnreadableFile(entry.error)
    return entry.data


def _as_data(known: Mapping[str, Any], raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = {**defaults, **{name: value for name, value in known.items() if value is not None}}
    if not fields.get("external_id"):
        canonical = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        fields["external_id"] = f"sha256:{sha256(canonical.encode()).hexdigest()[:32]}"
    data = TrajectoryInput.from_body(fields).run()
    data["steps"], left_out, system_prompt = read_steps(data.get("steps"))
    if system_prompt:
        data.setdefault("system_prompt", system_prompt)
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
            EpisodeStep(
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
        offered=tuple(describe_tools(data.get("tools", ()))),
        system_prompt=data.get("system_prompt", ""),
        cut_off=limit_reached(data.get("metadata", {})),
    )


def _from_members(raw: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in raw.items() if name in _KNOWN}
    metadata = raw.get("metadata")
    unknown = {name: value for name, value in raw.items() if name not in _KNOWN and name != "id"}
    if "id" in raw and "external_id" not in raw:
        fields["external_id"] = str(raw["id"])
    # The API takes both names of the task family.
    if isinstance(raw.get("family"), str) and raw.get("task_id") in (None, "", raw["family"]):
        fields["task_id"] = unknown.pop("family")
    if unknown and (metadata is None or isinstance(metadata, Mapping)):
        fields["metadata"] = {**unknown, **(metadata or {})}
    return fields


def _read_logs(path: Path, file_format: str) -> Iterator[_Log]:
    """Yield what was read from a file: of one log, or of one log for each line."""
    if _is_lines(path, file_format) and path.suffix.lower() not in (*PROTOBUF_SUFFIXES, ARCHIVE_SUFFIX):
        yield from _read_lines(path)
        return
    try:
        if path.suffix.lower() in PROTOBUF_SUFFIXES:
            raw = decode_trace_request(path.read_bytes())
        elif path.suffix.lower() == ARCHIVE_SUFFIX:
            raw = open_archive(path.read_bytes())
        else:
            raw = _parse_documents(as_utf_8(path.read_bytes()))
    except UnreadableTranscript as error:
        raise UnreadableFile(f"{path.name} is not readable. {error}") from None
    except InvalidJson as error:
        raise UnreadableFile(f"{path.name} is not readable JSON. {error}") from error
    raw, fault, damage = _make_storable(raw)
    try:
        reading = note_damage(read_document(raw), damage)
    except UnreadableTranscript as error:
        raise UnreadableFile(str(error)) from None
    if fault and reading.own:
        raise UnreadableFile(f"{path.name} is not readable JSON. {fault}")
    if reading.format == "ATIF":
        harbor.add_result(path, reading.transcripts)
    yield _Log(place=WHOLE_FILE, raw=raw, reading=reading)


def _make_storable(raw: Any) -> tuple[Any, InvalidJson | None, list[str]]:
    """Return a document as the database keeps it, and why it is not what was in the file, if it is not.

    ERL's own form is refused for such a fault; the log of a program is no less a log.
    """
    try:
        check_json(raw, limits=FILE_JSON)
    except InvalidJson as fault:
        cleaned, damage = clean(raw)
        return cleaned, fault, [f"the file: {reason}" for reason in damage]
    return raw, None, []


def _read_lines(path: Path) -> Iterator[_Log]:
    """Yield the logs of JSON Lines. The first object decides whether each line is a run or all lines are one log."""
    lines = _parsed_lines(path)
    head: list[tuple[str, Any, InvalidJson | None]] = []
    for line in lines:
        head.append(line)
        if isinstance(line[1], dict | list):
            break
    if not head:
        return
    if not isinstance(head[-1][1], dict | list):
        place, _, fault = head[0]
        number = "The only line" if len(head) == 1 else f"None of the {len(head)} lines"
        raise UnreadableFile(
            f"{number} is {'not a' if len(head) == 1 else 'a'} JSON object; {place}: {fault or 'a value'}"
        )
    if stands_alone(head[-1][1]):
        for place, value, fault in chain(head, lines):
            yield _read_line(place, value, fault)
        return
    values, damage = [], []
    for place, value, fault in chain(head, lines):
        if fault:
            damage.append(f"{place}: {fault}")
        else:
            value, _, faults = _make_storable(value)
            values.append((place, value))
            damage += [f"{place}: {reason.removeprefix('the file: ')}" for reason in faults]
    try:
        reading = note_damage(read_lines(values), damage)
    except UnreadableTranscript as error:
        raise UnreadableFile(str(error)) from None
    yield _Log(place=WHOLE_FILE, raw=[value for _, value in values], reading=reading)


def _read_line(place: str, value: Any, fault: InvalidJson | None) -> _Log:
    """Read a line that is a run by itself."""
    try:
        if fault:
            raise fault
        raw, fault, damage = _make_storable(value)
        reading = note_damage(read_document(raw), damage)
        if fault and reading.own:
            raise fault
    except (InvalidJson, UnreadableTranscript) as error:
        return _Log(place=place, error=str(error))
    return _Log(place=place, raw=raw, reading=reading)


def _parse_documents(data: bytes) -> Any:
    """Return the JSON document of a file, or the list of those that follow one another, as console exporters write."""
    try:
        return load_json(data.removeprefix(BYTE_ORDER_MARK), limits=FILE_JSON)
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
            found.append(load_json(text[position:end].encode(), limits=FILE_JSON))
            position = _NEXT.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        if not all(isinstance(document, dict) for document in found):
            raise
        return found


def _parsed_lines(path: Path) -> Iterator[tuple[str, Any, InvalidJson | None]]:
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if not line.strip():
                continue
            try:
                yield f"line {number}", load_json(line, limits=FILE_JSON), None
            except InvalidJson as error:
                try:
                    values = split_line(line.decode())
                except (ValueError, RecursionError):
                    yield f"line {number}", None, error
                else:
                    yield from ((f"line {number}", value, None) for value in values)


def _open(path: Path) -> BinaryIO:
    """Open a file of text for its lines in UTF-8."""
    file = path.open("rb")
    if not file.read(2).startswith(UTF_16_MARKS):
        file.seek(0)
        return file
    with file:
        file.seek(0)
        return BytesIO(as_utf_8(file.read()))


def _is_lines(path: Path, file_format: str) -> bool:
    """Tell JSON Lines from one document: by name, or because the first line is complete JSON and others follow."""
    if file_format != "auto":
        return file_format == "jsonl"
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    with _open(path) as file:
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
