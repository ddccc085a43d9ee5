"""What each kind of edit makes of the value of a block: pure functions on texts, which they leave byte for byte."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memory.errors import NoSingleMatch, PatchDoesNotApply

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_NO_NEWLINE = "\\"


def append_text(value: str, text: str) -> str:
    """Put a text behind a value, on a line of its own."""
    return f"{value}\n{text}" if value and not value.endswith("\n") else value + text


def replace_once(value: str, old: str, new: str) -> str:
    """Replace a text that occurs exactly once.

    Raises:
        NoSingleMatch: it occurs more often or not at all; matches that overlap count each.
    """
    # `str.count` passes over matches that overlap.
    count = sum(value.startswith(old, index) for index in range(len(value))) if old else 0
    if count != 1:
        raise NoSingleMatch(count)
    return value.replace(old, new, 1)


class _Hunk(NamedTuple):
    line: int  # where it is said to begin, from 1
    old: list[str]
    new: list[str]


def apply_patch(value: str, patch: str) -> str:
    """Apply a unified diff.

    The lines of a hunk decide where it belongs, since models count lines badly: it is applied where they occur, and
    its line number matters only if they occur more than once.

    Raises:
        PatchDoesNotApply: it is no unified diff, or a hunk fits nowhere or in several places.
    """
    hunks = _read_hunks(patch)
    lines = value.split("\n") if value else []
    drift = 0  # lines that the hunks before have added
    for number, hunk in enumerate(hunks, 1):
        start = _find_place(lines, hunk, stated=hunk.line - 1 + drift, number=number)
        lines[start : start + len(hunk.old)] = hunk.new
        drift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines)


def _read_hunks(patch: str) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    for number, line in enumerate(patch.removesuffix("\n").split("\n"), 1):
        if match := _HUNK.match(line):
            hunks.append(_Hunk(int(match[1]), [], []))
        elif not hunks:
            if line and not line.startswith(("--- ", "+++ ", "diff ", "index ")):
                raise PatchDoesNotApply(
                    f"Line {number} of the patch stands before its first hunk. Send a unified diff: hunks that begin "
                    "with a line such as @@ -1,2 +1,3 @@."
                )
        # An empty context line often lacks its space.
        elif not line or line[0] == " ":
            hunks[-1].old.append(line[1:])
            hunks[-1].new.append(line[1:])
        elif line[0] in "-+":
            (hunks[-1].old if line[0] == "-" else hunks[-1].new).append(line[1:])
        elif line[0] != _NO_NEWLINE:
            raise PatchDoesNotApply(
                f"Line {number} of the patch begins with none of space, - and +, so nothing was changed."
            )
    if not hunks:
        raise PatchDoesNotApply("The patch has no hunk. Send a unified diff with a line such as @@ -1,2 +1,3 @@.")
    return hunks


def _find_place(lines: Sequence[str], hunk: _Hunk, *, stated: int, number: int) -> int:
    size = len(hunk.old)
    if not size:  # it only adds: behind the line it names
        return min(max(stated + 1, 0), len(lines))
    places = [start for start in range(len(lines) - size + 1) if list(lines[start : start + size]) == hunk.old]
    if len(places) == 1 or stated in places:
        return stated if stated in places else places[0]
    hits = f"occur {len(places)} times" if places else "are not in the block"
    raise PatchDoesNotApply(
        f"The lines that hunk {number} keeps and removes {hits}, so nothing was changed. Read the block and write the "
        "patch against what it says now" + (", with more lines around the change." if places else ".")
    )
