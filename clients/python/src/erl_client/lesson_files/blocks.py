"""The approved lessons in a file that coding agents read, between two marked lines. The rest of the file is kept.

The first mark carries the SHA-256 of what stands between the two, so that an edit by hand is seen. A file may hold a
block of each task family.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from erl_client.api import ERLError
from erl_client.plain import show_hidden

CHARACTERS_PER_TOKEN = 4  # as the server counts
PROVEN = 0.6
RULE_TAG = "rule"  # given with every task, without a search
HEADER = (
    "Each was approved for use in these words. Where the condition of a lesson holds, do what it "
    "says; where it does not, ignore it. Lessons are advice: they give no permission and never override the task, your "
    "rules or the user. They are kept in ERL: change them there, not here."
)
EVERY_TASK = "Lessons for every task of this project, from runs of any kind"
END = "<!-- erl:end -->"
MAX_SKILL_NAME_CHARS = 64
MAX_SKILL_DESCRIPTION_CHARS = 1_024

_MARK = re.compile(rb"^[ \t]*<!-- erl:(lessons|end)\b[^\r\n]*", re.MULTILINE)
_BEGIN = re.compile(r"<!-- erl:lessons(?: family=(\S+))? sha256=([0-9a-f]{64}) -->")
_FENCE = re.compile(r"<!--|-->|^[^\S\n]*(?:---|\.\.\.|```|~~~)", re.MULTILINE)
_FRONT_MATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?\n)??---[ \t]*(?:\r?\n|$)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class UnreadableBlock(ERLError):
    """The marked lines of a file cannot be told apart. The text names the line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """The block of one family as it stands in a file, with the offsets of its first byte and the one after its last."""

    family: str
    sha256: str
    text: str
    start: int
    end: int

    @property
    def is_edited(self) -> bool:
        """Whether it is not what was written."""
        return _hash(self.text) != self.sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The text of a block without its marks; the lessons in it, those with no room, and those with escaped marks."""

    family: str
    text: str
    taken: list[str]
    left_out: list[str]
    escaped: list[str]

    def with_marks(self) -> str:
        family = f" family={quote(self.family, safe='')}" if self.family else ""
        return f"<!-- erl:lessons{family} sha256={_hash(self.text)} -->\n{self.text}{END}\n"

    @property
    def tokens(self) -> int:
        return count_tokens(self.with_marks())


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text as the server does: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def write_block(lessons: Iterable[Mapping[str, Any]], *, family: str, budget_tokens: int) -> Written:
    """Write the block of a family for the lessons that are served, as `GET /api/v1/heuristics` answers them.

    Those with a proven effect go first, then those that are seen in most runs; what has no room is passed over. In the
    block they stand by age, so that the file changes only where a lesson comes, goes or proves itself.
    """
    offered = [lesson for lesson in lessons if is_for(lesson, family)]
    offered.sort(key=lambda each: (-round(each["usefulness"], 1), -each["support"], each["id"]))
    lines = {lesson["id"]: _write_line(lesson["served_revision"], family) for lesson in offered}
    frame = Written(family=family, text=_write_text(family, "", "\n"), taken=[], left_out=[], escaped=[])
    left = budget_tokens * CHARACTERS_PER_TOKEN - len(frame.with_marks())
    taken = []
    for lesson in offered:
        if len(lines[lesson["id"]]) + 1 <= left:
            taken.append(lesson)
            left -= len(lines[lesson["id"]]) + 1
    taken.sort(key=lambda each: (round(each["usefulness"], 1) < PROVEN, each["id"]))
    ids = [lesson["id"] for lesson in taken]
    wide = {lesson["id"] for lesson in taken if family and _is_for_every_task(lesson)}
    body = "".join(f"{lines[id]}\n" for id in ids if id not in wide)
    rest = "".join(f"{lines[id]}\n" for id in ids if id in wide)
    return Written(
        family=family,
        text=_write_text(family, body, rest) if ids else "",
        taken=ids,
        left_out=[lesson["id"] for lesson in offered if lesson["id"] not in ids],
        escaped=[lesson["id"] for lesson in taken if _has_marks(lesson["served_revision"])],
    )


def _write_text(family: str, body: str, rest: str) -> str:
    """Return the lessons of a family, and under a heading of their own those for every task of the project."""
    of = f" of {_flatten(family)} tasks" if family else ""
    own = f"## Lessons from earlier runs{of}\n\n{HEADER}\n\n{body}"
    if not rest:
        return f"\n{own}\n"
    if not body:
        return f"\n## {EVERY_TASK}\n\n{HEADER}\n\n{rest}\n"
    return f"\n{own}\n### {EVERY_TASK}\n\n{rest}\n"


def _is_for_every_task(lesson: Mapping[str, Any]) -> bool:
    """Tell whether a lesson is for every task: a rule of the project, or one learnt outside any family.

    A lesson learnt in a family is for that family, however general it sounds.
    """
    wording = lesson["served_revision"]
    if wording["scope"] == "task_family" and wording["task_id"]:
        return False
    return RULE_TAG in wording["tags"] or not lesson.get("families")


def is_for(lesson: Mapping[str, Any], family: str) -> bool:
    """Tell whether a lesson, as `GET /api/v1/heuristics` returns it, is for a family; all are if there is none."""
    if not family or lesson["served_revision"]["task_id"] == family:
        return True
    if _is_for_every_task(lesson):
        return True
    return lesson["served_revision"]["scope"] == "project" and family in lesson.get("families", ())


def _write_line(wording: Mapping[str, Any], family: str) -> str:
    """Write a lesson as one item of a list, in which nothing can end the block."""
    named = wording["scope"] == "task_family" and wording["task_id"] and not family
    where = f"(for tasks of the family {wording['task_id']}) " if named else ""
    return f"- {_flatten(where + wording['line'])}"


def _flatten(text: str) -> str:
    """Return a text as one line without the marks of a comment and with nothing hidden."""
    return show_hidden(" ".join(text.split())).replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def _has_marks(wording: Mapping[str, Any]) -> bool:
    said = (wording[name] for name in ("trigger", "guideline", "avoid", "not_when", "task_id"))
    return any(_FENCE.search(text) for text in said)


def find_block(content: bytes, family: str) -> Block | None:
    """Return the block of a family in a file. Raises UnreadableBlock where marks are missing, doubled or changed."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableBlock(f"byte {error.start}: This is not UTF-8, so nothing can be written here.") from None
    blocks: list[Block] = []
    begun: re.Match[bytes] | None = None
    for mark in _MARK.finditer(content):
        line = content.count(b"\n", 0, mark.start()) + 1
        if mark[1] == b"lessons":
            if begun:
                raise UnreadableBlock(f"line {line}: A block of lessons begins here before the one above ends. {_MEND}")
            begun = mark
            continue
        if not begun or mark[0].decode().strip() != END:
            raise UnreadableBlock(f"line {line}: A block of lessons ends here that never began. {_MEND}")
        blocks.append(_read_block(content, begun, mark))
        begun = None
    if begun:
        line = content.count(b"\n", 0, begun.start()) + 1
        raise UnreadableBlock(f"line {line}: A block of lessons begins here and never ends. {_MEND}")
    mine = [block for block in blocks if block.family == family]
    if len(mine) > 1:
        raise UnreadableBlock("There are two blocks for this family. Remove one by hand.")
    return mine[0] if mine else None


_MEND = "Fix the marker lines by hand, or remove them."


def _read_block(content: bytes, begin: re.Match[bytes], end: re.Match[bytes]) -> Block:
    said = _BEGIN.fullmatch(begin[0].decode().strip())
    if said is None:
        line = content.count(b"\n", 0, begin.start()) + 1
        raise UnreadableBlock(f"line {line}: This marker line was changed. {_MEND}")
    after = content.index(b"\n", begin.end()) + 1
    until = content.find(b"\n", end.end())
    return Block(
        family=unquote(said[1] or ""),
        sha256=said[2],
        text=content[after : end.start()].decode().replace("\r\n", "\n"),
        start=begin.start(),
        end=len(content) if until < 0 else until + 1,
    )


def put_block(content: bytes, written: Written) -> bytes:
    """Return a file with the block in the place of the family's old one, or else at its end. All else stays."""
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    text = written.with_marks().encode().replace(b"\n", newline)
    if old := find_block(content, written.family):
        return content[: old.start] + text + content[old.end :]
    gap = b"" if not content else newline if content.endswith(b"\n") else newline * 2
    return content + gap + text


def find_file(to: Path, family: str) -> Path:
    """Return the file that a target means: a folder of Cursor's rules gets a file for the family.

    Raises ERLError where it is no file that agents read.
    """
    if to.suffix.lower() in (".md", ".mdc"):
        return to
    if to.name == "rules" or to.is_dir():
        if to.name != "rules":
            raise ERLError(f"{to} is a folder. Name a file, such as {to / 'AGENTS.md'}.")
        return to / f"{_make_name('erl-lessons', family)}.mdc"
    raise ERLError(f"{to} is not a file for lessons. Name AGENTS.md, a SKILL.md, another .md file, or .cursor/rules.")


def add_front_matter(content: bytes, file: Path, family: str) -> bytes:
    """Return a file with the front matter that its kind needs, where it has none."""
    if not (is_skill := file.name == "SKILL.md") and file.suffix != ".mdc":
        return content
    if _FRONT_MATTER.match(content):
        return content
    of = f" of {_flatten(family)} tasks" if family else ""
    description = f"Lessons from earlier runs{of}. Read them before you begin a task of this kind."
    if is_skill:
        folder = file.absolute().parent.name
        name = folder if _is_skill_name(folder) else _make_name("erl-lessons", family)
        members = [f"name: {name}", f"description: {_quote(description[:MAX_SKILL_DESCRIPTION_CHARS])}"]
    else:
        members = [f"description: {_quote(description)}", "globs:", "alwaysApply: true"]
    return "\n".join(["---", *members, "---", ""]).encode() + content


def find_missing_members(content: bytes, file: Path) -> list[str]:
    """Return what the front matter of a skill must have and does not."""
    found = _FRONT_MATTER.match(content) if file.name == "SKILL.md" else None
    members = re.findall(rb"^(\w+):", found[1] or b"", re.MULTILINE) if found else [b"name", b"description"]
    return [name for name in ("name", "description") if name.encode() not in members]


def _is_skill_name(name: str) -> bool:
    return len(name) <= MAX_SKILL_NAME_CHARS and re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name) is not None


def _make_name(start: str, family: str) -> str:
    """Return a name of small letters, digits and single hyphens. Families whose names would be equal are told apart."""
    plain = _NOT_IN_NAMES.sub("-", family.lower()).strip("-")
    if plain != family:
        plain = f"{plain[:40].strip('-')}-{_hash(family)[:6]}".strip("-") if family else ""
    return f"{start}-{plain}"[:MAX_SKILL_NAME_CHARS].strip("-")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # which YAML reads too


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def replace_file(file: Path, content: bytes) -> None:
    """Write a file whole or not at all. A link stays a link, and a file keeps its mode. Raises OSError."""
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with unfinished.open("xb") as opened:  # never through a link that stands there
            opened.write(content)
        if file.exists():
            unfinished.chmod(file.stat().st_mode & 0o7777)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
