"""Alternatives that an answer names beside what it refuses: "Did you mean …", "choose from …", "Similar: […]"."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_OUTPUT_CHARS = 4000
MAX_LIST_CHARS = 800
MAX_ALTERNATIVES = 60

# The list is all there is …
_CHOICES = re.compile(
    r"\b(?:choose from|expected one of|(?:must|should) be (?:one of|either)|use one of|try one of|is not one of|one of"
    r"|(?:valid|available|allowed|possible|supported|accepted|permitted|authorized|candidate)"
    r"(?: \w{1,20}){1,3}?(?=:| are\b| is\b| include\b)(?: are| is| include)?"
    r"|(?:candidates|options|choices) are|permitted(?=:)|Input should be)(?!\w)",
    re.IGNORECASE,
)
# … or it names what is near to what was given.
_SIMILAR = re.compile(
    r"\b(?:did you mean|do you mean|perhaps you meant|maybe you meant|you might have meant|did you want"
    r"|most similar (?:\w{1,20} )?(?:is|are)|similar(?: \w{1,20}){0,3}(?=:| exists)|closest (?:match|matches|names?)"
    r"|there is (?:a|an) \w{1,20} with a similar name|suggestions?(?=:)"
    r"|(?:known|existing)(?: \w{1,20}){1,3}?(?=:| are\b)(?: are)?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"[^\n'\"`\[({:,]{0,60}")
_OPENING = re.compile(r"[\s:?({\[]{1,20}")
_SEPARATOR = re.compile(r"[ \t]{0,4}[,;|/]?[ \t]{0,4}(?:(?:or|and)\s)?[ \t]{0,4}")
_ITEM = re.compile(
    r"u?'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|`([^`\n]{1,80})`|(--?[A-Za-z][\w-]{0,60}|[A-Za-z_][\w.$-]{0,79})"
)
_IN_BRACKETS = re.compile(r"[^,;|\n]{1,80}")
_LINE = re.compile(
    r"[ \t]{0,12}[-*•]?[ \t]{0,4}[\"'`]?([A-Za-z_][\w.$-]{0,60}(?: [A-Za-z_][\w.$-]{0,60}){0,2})[\"'`]?"
    r"(?=[ \t]{0,8}(?:#|$))"
)
# In "MACE (small, large), EMT and Orca", what stands in brackets explains an item.
_EXPLAINED = re.compile(r"[^\n'\"`\[({:,]{1,60}\([^()\n]{1,200}\)(?:,| or| and) ?[A-Za-z]")
_EXPLANATION = re.compile(r" ?\([^()\n]{1,200}\)")
_END_OF_LIST = re.compile(r"[\])}]")
_PROSE = frozenset("the a an this that these it is are was in of for to with but please see use one".split())  # noqa: SIM905


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternatives:
    """What an answer names: `names` in its order, whether they are all there is, and the line that names them."""

    names: tuple[str, ...]
    are_all: bool
    quote: str


def find_alternatives(text: str) -> Alternatives | None:
    """Return the alternatives that an answer names, or None."""
    # At the end of long answers, too: tracebacks have their message there.
    text = (
        text if len(text) <= MAX_OUTPUT_CHARS else f"{text[: MAX_OUTPUT_CHARS // 2]}\n{text[-MAX_OUTPUT_CHARS // 2 :]}"
    )
    for pattern, are_all in ((_SIMILAR, False), (_CHOICES, True)):
        for match in pattern.finditer(text):
            names = _read_list(text[match.end() : match.end() + MAX_LIST_CHARS])
            if names:
                start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
                quote = text[start : end if end >= 0 else len(text)].strip()
                return Alternatives(names=names, are_all=are_all, quote=quote)
    return None


def _read_list(text: str) -> tuple[str, ...]:
    """Return the items of the list with which a text starts, perhaps after a few words."""
    if _EXPLAINED.match(text):
        text = _EXPLANATION.sub("", text)
    here = len(text) - len(text.lstrip(" \t"))
    if text[here : here + 1] not in set("\n'\"`[({:?"):
        # "Valid values are open, closed and pending."
        names = _read_row(text, here)
        if len(names) > 1 or (names and names[0].startswith("--")):
            return names
    lead = _LEAD.match(text)
    opening = _OPENING.match(text, lead.end() if lead else 0)
    start = opening.end() if opening else lead.end() if lead else 0
    marks = set(opening[0]) if opening else set()
    if "\n" in marks:
        return _read_lines(text[start:])
    if marks & set("[({") and (end := _END_OF_LIST.search(text, start)):
        text = text[: end.start()]
        if not set(text[start:]) & set("'\"`"):
            return _distinct(item.strip() for item in _IN_BRACKETS.findall(text, start))
    names = _read_row(text, start)
    is_quoted = text[start : start + 1] in set("'\"`")
    return names if is_quoted or len(names) > 1 or ":" in marks or (names and names[0].startswith("--")) else ()


def _read_row(text: str, position: int) -> tuple[str, ...]:
    """Return items with commas, bars or "or" between them: all quoted or none."""
    names: list[str] = []
    is_quoted = text[position : position + 1] in set("'\"`")
    while len(names) < MAX_ALTERNATIVES and (item := _ITEM.match(text, position)):
        quoted = item[1] or item[2] or item[3]
        # Words with nothing but spaces between them are prose, not a list.
        if is_quoted != bool(quoted) or (not quoted and item[4].lower() in _PROSE):
            break
        names.append(quoted or item[4].rstrip(".-"))
        separator = _SEPARATOR.match(text, item.end())
        if separator is None or not separator[0].strip():
            break
        position = separator.end()
    return _distinct(names)


def _read_lines(text: str) -> tuple[str, ...]:
    """Return items that stand in a line each."""
    names: list[str] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or match[1].split()[0].lower() in _PROSE:
            break
        names.append(match[1])
    return _distinct(names)


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for item in items if item))[:MAX_ALTERNATIVES]
