"""The readers of programs' own logs, one module each. docs/log-formats.md says how to add one."""

from collections.abc import Mapping

from ..items import Items
from ..log import Json
from . import (
    atif,
    claude_code,
    codex,
    copilot_cli,
    cursor,
    droid,
    gemini_cli,
    goose,
    hermes,
    inspect_ai,
    letta_code,
    opencode,
    openhands,
    pi,
    qwen_code,
)
from .reader import Reader

__all__ = ["READERS", "Reader", "find_document_reader", "find_reader"]

_MODULES = (
    *(atif, claude_code, codex, copilot_cli, cursor, droid, gemini_cli, goose, hermes, inspect_ai, letta_code),
    *(opencode, openhands, pi, qwen_code),
)
READERS: tuple[Reader, ...] = (*(module.READER for module in _MODULES), hermes.ROWS)


def find_reader(items: Items) -> Reader | None:
    """Return the reader of the program that wrote most of these lines, None if no known program did."""
    counts = {reader: sum(reader.owns(item) for _, item in items) for reader in READERS if not reader.is_document}
    best = max(counts, key=lambda reader: counts[reader])
    return best if counts[best] else None


def find_document_reader(document: Mapping[str, Json]) -> Reader | None:
    return next((reader for reader in READERS if reader.is_document and reader.owns(document)), None)
