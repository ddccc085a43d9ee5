"""Wording of lessons, free of what belongs to one run: ids, names, dates, amounts, addresses."""

import re

from reflection.reflectors.standards import without_standards

MAX_TRIGGER_CHARS = 299
MAX_GUIDELINE_CHARS = 599

_MONTHS = "january february march april june july august september october november december"
_DIGITS = re.compile(r"\d")
_CONSTANTS = re.compile(r"`-?[01](?:\.0)?`")
_CODE = re.compile(r"(?<![\w`])[A-Z]{2,}(?![a-z])\b")
_CAPITAL = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_CALENDAR = re.compile(rf"\b(?:{'|'.join(_MONTHS.split())}|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.I)
_ADDRESS = re.compile(r"@|https?://|www\.", re.I)
_CODE_WORDS = "ID IDs API JSON URL SQL HTTP HTML CSV XML PDF UI OK PIN SKU FAQ VAT YYYY MM DD"
KNOWN_CODES = frozenset(_CODE_WORDS.split())
_PROGRAM_WORDS = "python3 pip3 python2 base64 md5sum sha1sum sha256sum bzip2 7z x86 utf8"
PROGRAMS_WITH_DIGITS = frozenset(_PROGRAM_WORDS.split())
_PROGRAMS = re.compile(rf"\b(?:{'|'.join(sorted(PROGRAMS_WITH_DIGITS))})\b")
_BACKTICKS = re.compile(r"`[^`]*`|\"[^\"]*\"")


def is_general(text: str) -> bool:
    """Return whether a text is free of details that belong to one run.

    Names in backticks and labels in quotes may contain capitals and codes, but no digits or addresses, save
    for standards, programs that are called so everywhere, such as `python3`, and the ends of a scale: `0` and `1.0`.
    """
    text = without_standards(text)
    if _DIGITS.search(_PROGRAMS.sub("", _CONSTANTS.sub("", text))) or _ADDRESS.search(text):
        return False
    prose = _BACKTICKS.sub("x", text)
    if _CALENDAR.search(prose) or _CAPITAL.search(prose):
        return False
    return all(code in KNOWN_CODES for code in _CODE.findall(prose))


def code(name: str) -> str:
    """Format the name of a tool or parameter for a lesson."""
    return f"`{name}`"


def with_article(name: str) -> str:
    """Put `a` or `an` before a formatted name, by its first letter. A `u` mostly sounds as in `user_id`."""
    return f"an {name}" if name.lstrip("`")[:1].lower() in {*"aeio"} else f"a {name}"


def parameter_name(path: str) -> str:
    """Format the path of a parameter for a lesson: `amount` in `payments` for `payments[].amount`."""
    outer, _, name = path.removesuffix("[]").rpartition(".")
    return f"{code(name)} in {code(outer.removesuffix('[]'))}" if outer else code(name)


def listed(names: list[str], *, last: str = "and") -> str:
    """Return names as a phrase: "a", "a and b", "a, b and c"."""
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def as_sentence(text: str) -> str:
    """Return a text in one line, with a full stop at its end unless it has another mark there."""
    text = " ".join(text.split())
    return text if not text or text[-1] in ".!?" else f"{text}."


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def cut(text: str, limit: int) -> str:
    """Return the start of `text`, at most `limit` characters long, if possible ending after a whole word."""
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[:limit]
    return (head.rsplit(None, 1)[0] if " " in head[limit // 2 :] else head).rstrip()
