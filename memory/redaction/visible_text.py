"""Show people what a model reads: hidden characters, the order of letters, letters that look like others (D5)."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_KEPT = {"\n", "\t", " "}
_HIDDEN = {"Cc", "Cf", "Co", "Cn", "Zl", "Zp"}
# Blank, although Unicode classes them as letters or marks
_BLANK = (
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0100, 0xE01F0))
)
_MAY_BE_HIDDEN = re.compile(r"[^\n\t -~]")  # all others are printable ASCII

# A run of words that are written from right to left, or of Arabic digits. Other numbers and signs beside it are not
# part of it: a browser would put `א 5 < 1000 ב` into another order.
_LEFTWARDS = (
    r"\u0590-\u065f\u066a\u066d-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
    r"\U00010800-\U00010fff\U0001e800-\U0001efff"
)
_LEFTWARDS_RUN = re.compile(rf"[{_LEFTWARDS}]+(?: [{_LEFTWARDS}]+)*|[\u0660-\u0669\u066b\u066c]+")
_WORD = re.compile(r"[^\W\d_]+")
_MAX_CHECKED_CHARS = 20_000
_MAX_WARNINGS = 20
_MAX_PART_CHARS = 200
# Letters of Cyrillic and Greek that look like Latin ones (from Unicode's table of confusables)
_LOOK_LATIN = frozenset("аеорсухіјѕԁһԛԝӏвкмнтгАВЕКМНОРСТУХЅІЈԌҮΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρυικατγωѡ")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")


@dataclass(frozen=True, kw_only=True, slots=True)
class Oddity:
    """A part of a text that may not be what it looks like, why, and its code points."""

    part: str
    why: str
    code_points: str


def is_hidden(character: str) -> bool:
    """Return whether a character is a control, bidirectional, tag, zero-width or other invisible one."""
    if character in _KEPT:
        return False
    return unicodedata.category(character) in _HIDDEN or ord(character) in _BLANK


def is_visible(text: str) -> bool:
    """Return whether a text has any visible character."""
    return any(not is_hidden(character) and not character.isspace() for character in text)


def show_hidden(text: str) -> str:
    """Replace hidden characters by their code points, for example ⟨U+202E⟩."""
    return _MAY_BE_HIDDEN.sub(_write_code_point, text)


def show_text(text: str) -> str:
    """Show a text in the order in which a model reads it, with its hidden characters as code points.

    What is written from right to left is put between U+2068 and U+2069, which are to a browser what <bdi> is: so the
    text can be cut, escaped and put into attributes as any other. Those of the text itself are hidden characters.
    """
    shown = show_hidden(text)
    return shown if shown.isascii() else _LEFTWARDS_RUN.sub("\u2068\\g<0>\u2069", shown)


def find_oddities(*texts: str) -> list[Oddity]:
    """Find words that mix scripts or pass for words of another, and what is written from right to left."""
    by_part: dict[str, Oddity] = {}
    for text in texts:
        if not text.isascii():
            by_part |= {oddity.part: oddity for oddity in _find_in(text[:_MAX_CHECKED_CHARS])}
    return list(by_part.values())[:_MAX_WARNINGS]


def _find_in(text: str) -> Iterator[Oddity]:
    words = [(word, _find_scripts(word)) for word in dict.fromkeys(_WORD.findall(text)) if not word.isascii()]
    # A Russian or Greek text has letters of its own; a word in an English one that has none of them passes for English.
    own = {
        script for word, scripts in words for script in scripts if len(scripts) == 1 and not set(word) <= _LOOK_LATIN
    }
    has_latin = any(word.isascii() for word in _WORD.findall(text))
    for word, scripts in words:
        others = scripts - {"LATIN"}
        if len(scripts) > 1 and (others != {"GREEK"} or _LOOK_LATIN & set(word)):
            names = " and ".join(sorted(script.capitalize() for script in scripts))
            yield _describe(word, f"mixes {names} letters")
        elif others and has_latin and len(word) > 1 and not others & own and set(word) <= _LOOK_LATIN:
            yield _describe(word, f"looks Latin, but its letters are {others.copy().pop().capitalize()}")
    if runs := " ".join(dict.fromkeys(_LEFTWARDS_RUN.findall(text)))[:_MAX_PART_CHARS]:
        yield _describe(runs, "is written from right to left; agents get the text in the order shown here")


def _find_scripts(word: str) -> set[str]:
    names = {unicodedata.name(character, "").split(" ")[0] for character in word}
    return names & set(_SCRIPTS)


def _describe(part: str, why: str) -> Oddity:
    foreign = " ".join(f"{character} U+{ord(character):04X}" for character in part if not character.isascii())
    return Oddity(part=part, why=why, code_points=foreign)


def _write_code_point(found: re.Match[str]) -> str:
    character = found[0]
    return f"⟨U+{ord(character):04X}⟩" if is_hidden(character) else character
