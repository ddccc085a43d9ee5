"""Tells files of lessons from logs of runs, and reads playbooks of ACE and exports of mem0."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from erl_client.lesson_files.entries import LessonFile, make_entry, split_lines
from erl_client.lesson_files.pages import Page, read_heading

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
_TEXT_SUFFIXES = frozenset({".md", ".mdc", ".markdown", ".cursorrules", ".windsurfrules"})
_BULLET = re.compile(r"\s*(?:[-*]\s+)?\[([\w.-]+)\]\s+helpful=(\d+)\s+harmful=(\d+)\s*::\s*(.*)")


def read_lessons(content: bytes, name: str) -> LessonFile | None:
    """Read a file of lessons; None where it is none, so that it may be a log of runs."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_text = _is_text(name)
        problem = f"byte {error.start}: This is not UTF-8."
        return LessonFile(format=_name_format(name), problems=[problem]) if is_text else None
    if _is_text(name):
        is_playbook = any(_BULLET.match(line) for line in split_lines(text))
        return _read_playbook(text) if is_playbook else Page(text, _name_format(name)).read()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        lines = split_lines(text)
        if any(_BULLET.match(line) for line in lines):
            return _read_playbook(text)
        return _read_memories(_parse_lines(lines))
    return _read_document(document)


def _is_text(name: str) -> bool:
    path = PurePath(name.lower())
    return path.suffix in _TEXT_SUFFIXES or path.name in _TEXT_SUFFIXES


def _name_format(name: str) -> str:
    base = PurePath(name).name
    return "skill" if base == "SKILL.md" else "instructions" if base in INSTRUCTIONS else "page"


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
        file.add(make_entry(place, text, ", ".join(about), id=str(each.get("id") or "")))
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
        file.add(make_entry(f"entry {number}", text, _tidy(section), remark=_say_counts(*counts)))
    return file


def _read_playbook(text: str) -> LessonFile:
    """Read a playbook of ACE as text: `[id] helpful=1 harmful=0 :: …` in sections."""
    file = LessonFile(format="ACE playbook")
    section = ""
    for number, line in enumerate(split_lines(text), start=1):
        if bullet := _BULLET.match(line):
            remark = _say_counts(int(bullet[2]), int(bullet[3]))
            file.add(make_entry(f"line {number}", bullet[4], section, remark=remark))
        elif heading := read_heading(line):
            section = _tidy(heading[1])
        elif line.strip():
            file.problems.append(f"line {number}: This is not a playbook bullet.")
    return file


def _tidy(section: str) -> str:
    """Return the name of a section as a person would write it: STRATEGIES & INSIGHTS, useful_code_snippets."""
    words = section.replace("_", " ").strip()
    return words.capitalize() if words.isupper() or "_" in section else words


def _say_counts(helpful: Any, harmful: Any) -> str:
    known = isinstance(helpful, int) and isinstance(harmful, int)
    return f"The playbook's counts: helpful {helpful}, harmful {harmful}." if known else ""
