"""Reads the lessons of a page in Markdown: its list items and paragraphs, and the lines that ERL wrote into it."""

import re
from collections.abc import Callable
from urllib.parse import unquote

from erl_client.lesson_files.blocks import END
from erl_client.lesson_files.entries import Entry, LessonFile, make_entry, split_lines

_OWN = re.compile(r"- (?:\(for tasks of the family (.+?)\) )?\[(H-[0-9a-f]{8})\] When (.+?): (.+)")
_LIMITS = re.compile(r" \((?=avoid: .|not when: .)")
_BEGIN = re.compile(r"<!-- erl:lessons(?: family=(\S+))? ")
_HEADING = re.compile(r"(#{1,6})\s+(.*)$")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,4}[.)])\s+(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_USE_WHEN = re.compile(r"\buse[sd]?\b[^.]{0,60}?\bwhen(?:ever)?\s+([^.]{4,400})", re.IGNORECASE)


def read_heading(line: str) -> tuple[int, str] | None:
    """Return the level and the title of a heading, None for any other line."""
    heading = _HEADING.match(line)
    return (len(heading[1]), heading[2].rstrip().rstrip("#").rstrip()) if heading else None


def _split_limits(said: str) -> tuple[str, str, str]:
    """Return of what ERL wrote in a line the guideline, what to avoid, and when not to follow it."""
    begins = _LIMITS.search(said) if said.endswith(")") else None
    if begins is None:
        return said, "", ""
    guideline, limits = said[: begins.start()], said[begins.end() : -1]
    if limits.startswith("not when: "):
        return guideline, "", limits.removeprefix("not when: ")
    avoid, _, not_when = limits.removeprefix("avoid: ").partition("; not when: ")
    return guideline, avoid, not_when


class Page:
    """Reads the list items and paragraphs of a page. What follows a line that ends with a colon belongs to it."""

    def __init__(self, text: str, format: str) -> None:
        self._lines = split_lines(text)
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
            elif heading := read_heading(line):
                level, title = heading
                self._headings = {each: name for each, name in self._headings.items() if each < level}
                self._headings[level] = title
                self._lead = ""
                self._at += 1
            elif line.lstrip().startswith("<!--"):
                self._skip_comment()
            elif line.lstrip().startswith("|"):
                self._file.problems.append(f"line {self._at + 1}: Tables are not read. Write it as a list.")
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
        while self._at < len(self._lines) and self._lines[self._at].strip() != END:
            line = self._lines[self._at].strip().replace("&lt;!--", "<!--").replace("--&gt;", "-->")
            place = f"line {self._at + 1}"
            self._at += 1
            if own := _OWN.fullmatch(line):
                guideline, avoid, not_when = _split_limits(own[4])
                self._file.add(
                    Entry(
                        place=place,
                        trigger=own[3],
                        guideline=guideline,
                        avoid=avoid,
                        not_when=not_when,
                        family=own[1] or family,
                        label=own[2],
                    )
                )
            elif line.startswith("- "):
                self._file.add(make_entry(place, line[2:], self._about()))
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
            elif read_heading(line) or line.lstrip().startswith(("<!--", "|")):
                break
            elif _FENCE.match(line):
                is_code = True
            elif (below := _ITEM.match(line)) and (item is None or len(below[1]) <= indent):
                break
            taken.append(line)
            self._at += 1
        text = "\n".join(line.rstrip() for line in taken).strip()
        if is_code:
            self._file.problems.append(f"line {start + 1}: The code block does not end.")
        elif _FENCE.match(text):
            self._file.problems.append(f"line {start + 1}: Code without an explanation is not a lesson.")
        elif item is None and text.endswith(":"):
            self._lead = text.rstrip(":")
        else:
            about = self._about(with_lead=item is not None)
            self._file.add(make_entry(f"line {start + 1}", text, about, given=self._given))
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
        start = self._at
        while self._at < len(self._lines) and "-->" not in self._lines[self._at]:
            self._at += 1
        if self._at == len(self._lines):
            self._file.problems.append(f"line {start + 1}: The comment does not end.")
            return
        after = self._lines[self._at].partition("-->")[2].strip()
        if after:
            self._lines[self._at] = after
        else:
            self._at += 1

    def _skip_while(self, holds: Callable[[str], bool]) -> None:
        while self._at < len(self._lines) and holds(self._lines[self._at]):
            self._at += 1
