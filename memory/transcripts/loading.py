"""Load a log from its text or archive, even if parts of it are damaged."""

import codecs
import json
import math
import struct
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BytesIO

from .formats import LogReading, describe_json_fault, number_lines, read_document, read_lines, stands_alone
from .log import Json, UnreadableTranscript
from .otlp import decode_trace_request

MAX_ARCHIVE_BYTES = 500_000_000  # of an archive that is unpacked
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ZSTANDARD = 93  # how Inspect packs its archives since 2026


def read_log(content: bytes) -> LogReading:
    """Read a log: JSON, JSON Lines, OTLP in protobuf or an archive of Inspect. Raises UnreadableTranscript."""
    if is_archive(content):
        return read_document(open_archive(content))
    content = as_utf_8(content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            return read_document(decode_trace_request(content))
        except UnreadableTranscript:
            text = content.decode("utf-8-sig", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines, broken = number_lines(text)
        if not any(isinstance(value, Mapping | list) for _, value in lines):
            raise UnreadableTranscript(f"This is neither JSON nor JSON Lines. {describe_json_fault(error)}") from None
        return read_damaged_lines(lines, broken)
    cleaned, damage = clean(document)
    return note_damage(read_document(cleaned), [f"the log: {reason}" for reason in damage])


def as_utf_8(content: bytes) -> bytes:
    """Return a text in UTF-8. PowerShell writes what a program prints in UTF-16, behind a mark that tells so."""
    return content.decode("utf-16", "replace").encode() if content.startswith(UTF_16_MARKS) else content


def read_damaged_lines(lines: Sequence[tuple[str, Json]], broken: Sequence[tuple[str, str]]) -> LogReading:
    """Read JSON Lines of which some are not JSON: these are failed runs, or missing parts of a session."""
    first = next((value for _, value in lines if isinstance(value, Mapping | list)), None)
    if stands_alone(first):
        reading = read_lines(lines)
        reading.problems = [*broken, *reading.problems]
        return reading
    cleaned: list[tuple[str, Json]] = []
    damage = [f"{place}: {reason}" for place, reason in broken]
    for place, value in lines:
        value, faults = clean(value)
        cleaned.append((place, value))
        damage += [f"{place}: {fault}" for fault in faults]
    return note_damage(read_lines(cleaned), damage)


def note_damage(reading: LogReading, damage: list[str]) -> LogReading:
    """List in the first run of a log what was damaged in the log."""
    if reading.transcripts:
        reading.transcripts[0].left_out = [*damage, *reading.transcripts[0].left_out]
    return reading


def clean(value: Json) -> tuple[Json, list[str]]:
    """Return a value in a form that the database can store, and what had to be changed."""
    faults: dict[str, None] = {}
    return _clean(value, faults), list(faults)


def _clean(value: Json, faults: dict[str, None]) -> Json:
    if isinstance(value, str):
        kept = value.replace("\x00", "\ufffd")
        if not kept.isascii():
            kept = kept.encode("utf-8", "replace").decode()
        if kept != value:
            faults["characters that cannot be stored were replaced"] = None
        return kept
    if isinstance(value, dict):
        return {_clean(name, faults): _clean(item, faults) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, faults) for item in value]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    if is_odd or (type(value) is int and not -(2**63) < value < 2**63):
        faults["numbers that cannot be stored are kept as text"] = None
        return str(value) if is_odd else f"{value:.6e}" if value.bit_length() < 1024 else "too large"
    return value


def is_archive(content: bytes) -> bool:
    return content.startswith(b"PK\x03\x04")


def open_archive(content: bytes) -> Json:
    """Return an `.eval` archive of Inspect as the document that Inspect writes as JSON. Raises UnreadableTranscript."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_ARCHIVE_BYTES:
                raise UnreadableTranscript(f"The archive holds more than {MAX_ARCHIVE_BYTES:,} bytes. Split it.")
            names = archive.namelist()
            head = next((name for name in ("header.json", "_journal/start.json") if name in names), "")
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            if not head or not samples:
                raise UnreadableTranscript("The archive is not a log of Inspect: header.json or samples/ is missing.")
            about = json.loads(_unpack(archive, content, archive.getinfo(head)))
            parts = [json.loads(_unpack(archive, content, archive.getinfo(name))) for name in samples]
            return {"status": "started", **about, "samples": parts}
    except (zipfile.BadZipFile, NotImplementedError, ValueError, RecursionError, EOFError, struct.error) as error:
        raise UnreadableTranscript(
            f"The archive cannot be read: {error}. `inspect log convert --to json` writes it as JSON."
        ) from None


def _unpack(archive: zipfile.ZipFile, content: bytes, entry: zipfile.ZipInfo) -> bytes:
    """Return a file of an archive, even if it is compressed with Zstandard, which `zipfile` reads from Python 3.14 on.

    Raises NotImplementedError without the package that reads it.
    """
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    try:
        zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        raise NotImplementedError("it is compressed with Zstandard, and backports.zstd is not installed") from None
    begin = entry.header_offset + 30  # of the local header, which has two lengths at its end
    begin += sum(struct.unpack("<HH", content[begin - 4 : begin]))
    try:
        with zstd.open(BytesIO(content[begin : begin + entry.compress_size])) as file:
            return bytes(file.read(entry.file_size))
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from None
