"""Lessons in the files of other tools: AGENTS.md and rules of agents, skills, ACE playbooks, mem0 exports.

Each entry becomes a proposal in the words of the file. Where the file does not say when an entry applies, its section
does, or nothing: no condition is made up.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

ANY_TASK = "any task begins"  # as the server puts it
MAX_TRIGGER_CHARS = 2_000
MAX_GUIDELINE_CHARS = 8_000
MIN_WORDS = 3

_TEXT_SUFFIXES = frozenset({".md", ".mdc", ".markdown", ".cursorrules", ".windsurfrules"})
_BULLET = re.compile(r"\s*(?:[-*]\s+)?\[([\w.-]+)\]\s+helpful=(\d+)\s+harmful=(\d+)\s*::\s*(.*)")
_OWN = re.compile(r"- (?:\(for tasks of the family (.+?)\) )?\[(H-[0-9a-f]{8})\] When (.+?): (.+)")
_LIMITS = re.compile(r" \((?:avoid: (?P<avoid>.+?))?(?:; )?(?:not when: (?P<not_when>.+))?\)$")
_BEGIN, _END = re.compile(r"<!-- erl:lessons(?: family=(\S+))? "), "<!-- erl:end -->"
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,4}[.)])\s+(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_CONDITION = re.compile(r"(?:when|whenever|if)\s+([^,:;]{4,200})[,:;]\s", re.IGNORECASE)
_USE_WHEN = re.compile(r"\buse[sd]?\b[^.]{0,60}?\bwhen(?:ever)?\s+([^.]{4,400})", re.IGNORECASE)


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


def read_lessons(content: bytes, name: str) -> LessonFile | None:
    """Read a file of lessons; None where it is none, so that it may be a log of runs."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_text = _is_text(name)
        problem = f"byte {error.start}: This is not UTF-8."
        return LessonFile(format=_name_format(name), problems=[problem]) if is_text else None
    if _is_text(name):
        is_playbook = any(_BULLET.match(line) for line in _split(text))
        return _read_playbook(text) if is_playbook else _Markdown(text, _name_format(name)).read()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        lines = _split(text)
        if any(_BULLET.match(line) for line in lines):
            return _read_playbook(text)
        return _read_memories(_parse_lines(lines))
    return _read_document(document)


def _split(text: str) -> list[str]:
    return re.split(r"\r\n|\n|\r", text)  # as editors count lines


def _is_text(name: str) -> bool:
    path = PurePath(name.lower())
    return path.suffix in _TEXT_SUFFIXES or path.name in _TEXT_SUFFIXES


def _name_format(name: str) -> str:
    base = PurePath(name).name
    return base if base in ("SKILL.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md") else "Markdown"


def _read_document(document: Any) -> LessonFile | None:
    members = document if isinstance(document, Mapping) else {}
    for member in ("bullets", "skills"):
        if isinstance(bullets := members.get(member), Mapping):
            bullets = [{"id": id, **each} if isinstance(each, Mapping) else each for id, each in bullets.items()]
        if isinstance(bullets, list):
            return _read_bullets(bullets)
    entries = document if isinstance(document, list) else members.get("results", members.get("memories"))
    if not isinstance(entries, list):
        return None
    if any(isinstance(each, Mapping) and "content" in each and "section" in each for each in entries):
        return _read_bullets(entries)
    return _read_memories([(f"entry {number}", each) for number, each in enumerate(entries, start=1)])


def _parse_lines(lines: list[str]) -> list[tuple[str, Any]]:
    parsed: list[tuple[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                parsed.append((f"line {number}", json.loads(line)))
            except (ValueError, RecursionError):
                parsed.append((f"line {number}", None))
    return parsed


def _read_memories(places: list[tuple[str, Any]]) -> LessonFile | None:
    """Read what mem0 exports: objects with `id` and `memory`."""
    if not any(isinstance(each, Mapping) and isinstance(each.get("memory"), str) for _, each in places):
        return None
    file = LessonFile(format="mem0")
    for place, each in places:
        text = each.get("memory") if isinstance(each, Mapping) else None
        if not isinstance(text, str):
            file.problems.append(f"{place}: There is no text in `memory`.")
            continue
        about = [name for name in each.get("categories") or () if isinstance(name, str)]
        file.add(_make_entry(place, text, ", ".join(about), id=str(each.get("id") or "")))
    return file


def _read_bullets(bullets: list[Any]) -> LessonFile:
    """Read a playbook of ACE as JSON: bullets with `content` and `section`."""
    file = LessonFile(format="ACE playbook")
    for number, each in enumerate(bullets, start=1):
        text = each.get("content") if isinstance(each, Mapping) else None
        if not isinstance(text, str):
            file.problems.append(f"entry {number}: There is no text in `content`.")
            continue
        counts = [each.get(name, each.get(f"{name}_count")) for name in ("helpful", "harmful")]
        section = each.get("section") if isinstance(each.get("section"), str) else ""
        file.add(_make_entry(f"entry {number}", text, _tidy(section), remark=_say_counts(*counts)))
    return file


def _read_playbook(text: str) -> LessonFile:
    """Read a playbook of ACE as text: `[id] helpful=1 harmful=0 :: …` in sections."""
    file = LessonFile(format="ACE playbook")
    section = ""
    for number, line in enumerate(_split(text), start=1):
        if bullet := _BULLET.match(line):
            remark = _say_counts(int(bullet[2]), int(bullet[3]))
            file.add(_make_entry(f"line {number}", bullet[4], section, remark=remark))
        elif heading := _HEADING.match(line):
            section = _tidy(heading[2])
        elif line.strip():
            file.problems.append(f"line {number}: This is no bullet of a playbook.")
    return file


def _tidy(section: str) -> str:
    """Return the name of a section as a person would write it: STRATEGIES & INSIGHTS, useful_code_snippets."""
    words = section.replace("_", " ").strip()
    return words.capitalize() if words.isupper() or "_" in section else words


def _say_counts(helpful: Any, harmful: Any) -> str:
    known = isinstance(helpful, int) and isinstance(harmful, int)
    return f"The playbook counts it as helpful {helpful} and harmful {harmful} times." if known else ""


def _make_entry(place: str, text: str, about: str, *, given: str = "", id: str = "", remark: str = "") -> Entry:
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


class _Markdown:
    """Reads the list items and paragraphs of a page. What follows a line that ends with a colon belongs to it."""

    def __init__(self, text: str, format: str) -> None:
        self._lines = _split(text)
        self._file = LessonFile(format=format)
        self._headings: dict[int, str] = {}
        self._given = ""
        self._skill = ""
        self._lead = ""
        self._at = 0

    def read(self) -> LessonFile:
        self._read_front_matter()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if begin := _BEGIN.match(line):
                self._read_own(unquote(begin[1] or ""))
            elif heading := _HEADING.match(line):
                level = len(heading[1])
                self._headings = {each: name for each, name in self._headings.items() if each < level}
                self._headings[level] = heading[2]
                self._lead = ""
                self._at += 1
            elif line.lstrip().startswith("<!--"):
                self._skip_comment()
            elif line.lstrip().startswith("|"):
                self._file.problems.append(f"line {self._at + 1}: A table is not read. Write it as a list.")
                self._skip_while(lambda each: each.lstrip().startswith("|"))
            elif not line.strip() or re.fullmatch(r"\s*([-*_]\s*){3,}", line):
                self._at += 1
            else:
                self._read_entry()
        return self._file

    def _read_front_matter(self) -> None:
        if not self._lines or self._lines[0].rstrip() != "---":
            return
        ends = [number for number, line in enumerate(self._lines[1:], start=1) if line.rstrip() == "---"]
        if not ends:
            self._file.problems.append("line 1: The front matter does not end.")
            self._at = 1
            return
        members: dict[str, str] = {}
        name = ""
        for line in self._lines[1 : ends[0]]:
            if (member := re.match(r"([\w-]+):\s*(.*)", line)) is not None:
                name, value = member.groups()
                members[name] = "" if value in ("|", ">", "|-", ">-") else value.strip().strip("\"'")
            elif name and line[:1] in (" ", "\t"):
                members[name] = f"{members[name]} {line.strip()}".strip()
        description = members.get("description", "")
        use = _USE_WHEN.search(description)
        self._given = use[1].strip() if use else ""
        self._skill = "" if use else members.get("name", "")
        self._at = ends[0] + 1

    def _read_own(self, family: str) -> None:
        """Read lessons that ERL wrote, each in a line of its own."""
        self._at += 1
        while self._at < len(self._lines) and self._lines[self._at].strip() != _END:
            line = self._lines[self._at].strip().replace("&lt;!--", "<!--").replace("--&gt;", "-->")
            place = f"line {self._at + 1}"
            self._at += 1
            if own := _OWN.fullmatch(line):
                said = _LIMITS.search(own[4])
                limits = said.groupdict() if said and (said["avoid"] or said["not_when"]) else {}
                self._file.add(
                    Entry(
                        place=place,
                        trigger=own[3],
                        guideline=own[4][: said.start()] if said and limits else own[4],
                        avoid=limits.get("avoid") or "",
                        not_when=limits.get("not_when") or "",
                        family=own[1] or family,
                        label=own[2],
                    )
                )
            elif line.startswith("- "):
                self._file.add(_make_entry(place, line[2:], self._about()))
        self._at += 1

    def _read_entry(self) -> None:
        """Read a list item with all that is indented below it, or a paragraph with the code that belongs to it."""
        start = self._at
        item = _ITEM.match(self._lines[start])
        taken = [item[2] if item else self._lines[start].strip()]
        indent = len(item[1]) if item else 0
        is_code = _FENCE.match(self._lines[start]) is not None
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if is_code:
                is_code = not _FENCE.match(line)
            elif not line.strip():
                if not self._goes_on(indent, item is not None, taken[-1]):
                    break
            elif _HEADING.match(line) or line.lstrip().startswith(("<!--", "|")):
                break
            elif _FENCE.match(line):
                is_code = True
            elif (below := _ITEM.match(line)) and (item is None or len(below[1]) <= indent):
                break
            taken.append(line)
            self._at += 1
        text = "\n".join(line.rstrip() for line in taken).strip()
        if is_code:
            self._file.problems.append(f"line {start + 1}: The block of code does not end.")
        elif _FENCE.match(text):
            self._file.problems.append(f"line {start + 1}: Code without a word about it is no lesson.")
        elif item is None and text.endswith(":"):
            self._lead = text.rstrip(":")
        else:
            about = self._about(with_lead=item is not None)
            self._file.add(_make_entry(f"line {start + 1}", text, about, given=self._given))
        if item is None and not text.endswith(":"):
            self._lead = ""

    def _goes_on(self, indent: int, is_item: bool, last: str) -> bool:
        """Tell whether what follows a blank line belongs to the entry: what is indented, or code after a colon."""
        after = next((line for line in self._lines[self._at :] if line.strip()), "")
        if is_item:
            return len(after) - len(after.lstrip()) > indent
        return last.rstrip().endswith(":") and _FENCE.match(after) is not None

    def _about(self, *, with_lead: bool = False) -> str:
        """Return the sections an entry is in, without the title of the page where there are others."""
        names = [name for _, name in sorted(self._headings.items())]
        if 1 in self._headings and (len(names) > 1 or self._given):
            names = names[1:]
        lead = [self._lead] if with_lead and self._lead else []
        return " > ".join(filter(None, [self._skill, *names, *lead]))

    def _skip_comment(self) -> None:
        while self._at < len(self._lines) and "-->" not in self._lines[self._at]:
            self._at += 1
        self._at += 1

    def _skip_while(self, holds: Any) -> None:
        while self._at < len(self._lines) and holds(self._lines[self._at]):
            self._at += 1


def as_proposal(entry: Entry, *, file: str, format: str, family: str) -> dict[str, Any]:
    """Return an entry as `POST /api/v1/heuristics` takes it."""
    origin = (
        f"Imported from {file}, {entry.place} ({format}{f', {said}' if (said := entry.id or entry.label) else ''})."
    )
    words = {
        "trigger": entry.trigger,
        "guideline": entry.guideline,
        "avoid": entry.avoid,
        "not_when": entry.not_when,
        "task_id": family or entry.family,
        "rationale": f"{origin} {entry.remark}".strip(),
    }
    return {name: text for name, text in words.items() if text}


def get_words(lesson: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes two lessons the same."""
    return tuple(lesson.get(name) or "" for name in ("trigger", "guideline", "avoid", "not_when", "task_id"))
