"""Lessons as files have them, and the proposals they become.

Each entry becomes a proposal in the words of the file. Where the file does not say when an entry applies, its section
does, or nothing: no condition is made up.
"""

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

ANY_TASK = "any task begins"  # as the server puts it
MAX_TRIGGER_CHARS = 2_000
MAX_GUIDELINE_CHARS = 8_000
MIN_WORDS = 3

_CONDITION = re.compile(r"(?:when|whenever|if)\s+([^,:;]{4,200})[,:;]\s", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One lesson as a file has it. `label` is ours where ERL wrote it, `id` that of the tool where it has one."""

    place: str
    trigger: str
    guideline: str
    avoid: str = ""
    not_when: str = ""
    family: str = ""
    label: str = ""
    id: str = ""
    remark: str = ""


@dataclass(kw_only=True, slots=True)
class LessonFile:
    """What a file was taken for, its lessons, and what is none: each a sentence that begins with the place."""

    format: str
    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        count = len(self.entries)
        return f"{self.format}: {count} lesson{'' if count == 1 else 's'}"

    def add(self, entry: Entry) -> None:
        """Take an entry, or say why it cannot be a lesson."""
        if len(entry.guideline) > MAX_GUIDELINE_CHARS:
            self.problems.append(f"{entry.place}: This is longer than {MAX_GUIDELINE_CHARS:,} characters.")
        elif len(entry.guideline.split()) < MIN_WORDS and not entry.label:
            self.problems.append(f"{entry.place}: {entry.guideline!r} is too short for a lesson.")
        else:
            self.entries.append(entry)


def make_entry(place: str, text: str, about: str, *, given: str = "", id: str = "", remark: str = "") -> Entry:
    """Return an entry that applies where its own words say so, or else where its section does.

    `given` is when the whole file applies.
    """
    guideline = text.strip()
    when = [given] if given else []
    if condition := _CONDITION.match(guideline):
        when.append(condition[1].strip())
    elif about:
        when.append(f'{"it" if given else "the task"} concerns "{about}"')
    elif not given:
        when.append(ANY_TASK)
        remark = " ".join(filter(None, ["The file does not say when it applies.", remark]))
    trigger = ", and ".join(when)[:MAX_TRIGGER_CHARS]
    return Entry(place=place, trigger=trigger, guideline=guideline, id=id, remark=remark)


def as_proposal(entry: Entry, *, file: str, format: str, family: str) -> dict[str, Any]:
    """Return an entry as `POST /api/v1/heuristics` takes it. The same words have the same id, wherever they stand."""
    words = {
        "trigger": entry.trigger,
        "guideline": entry.guideline,
        "avoid": entry.avoid,
        "not_when": entry.not_when,
        "task_id": family or entry.family,
    }
    digest = sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()
    origin = {"format": format, "file": file, "place": entry.place, "id": entry.id or entry.label}
    return {
        **{name: text for name, text in words.items() if text},
        "rationale": f"Imported from {file}, {entry.place} ({format}). {entry.remark}".strip(),
        "external_id": f"import:{digest[:32]}",
        "metadata": {"imported_from": {name: said for name, said in origin.items() if said}},
    }


def split_lines(text: str) -> list[str]:
    """Return the lines as editors count them."""
    return re.split(r"\r\n|\n|\r", text)
