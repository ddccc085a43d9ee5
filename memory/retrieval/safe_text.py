"""Make a text safe for an agent: nothing invisible, no delimiter or label of ours, no role token of a chat template.

Every text of an answer passes here on its way out: into the context block as one line, into the items with its line
breaks. What is stored stays as it was reviewed. Blocks alone are cleaned before they are stored, too: agents edit the
very text that they read.

People and models do not look at code points: `＜ｌｅｓｓｏｎｓ＞`, `⟪/lessons⟫` and a `ᐸ/lеssоnsᐳ` with letters of
another script all look like the end of the block. So a text is compared as it looks, and only the opening bracket is
changed.
"""

import re
import unicodedata
from functools import lru_cache

_SPACE = re.compile(r"\s+")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)

_ENTITY = r"&lt;?|&#0*60;?|&#x0*3c;?|%3c|\\u003c|\\x3c"
# `#include <memory>` is C++; a forged section that is not closed by our delimiter either is none.
_DELIMITER = re.compile(
    rf"(<|{_ENTITY})[\s/\\]*(?:[l1i|][e3][s5$][s5$][o0]n[s5$]|rec[o0]rd|b[l1i|][o0]ck(?![a-z])"
    r"|(?<!include<)(?<!include <)mem[o0]ry(?![a-z]))",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(\[)\s*[hm]\s*-", re.IGNORECASE)
_OPENING = re.compile(r"[<\[&%\\]")  # a bracket, or the first sign of one that is written as an entity
# The bracket of what tokenizers of chat models take for the start or end of a turn, a thought or a tool call
# (ChatML, Llama, Mistral, Gemma, Qwen, DeepSeek)
ROLE_TOKEN = re.compile(
    r"<(?=[|｜])|<(?=/?(?:s|bos|eos|think|(?:start|end)_of_turn|(?:tool|function)_(?:calls?|responses?))>)"
    r"|<(?=</?SYS>>)|\[(?=/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])",
    re.IGNORECASE,
)

_LESS_THAN = re.compile(
    r"LESS-THAN|PRECEDES|LEFT ARROWHEAD|LEFT-POINTING (?!MAGNIFYING)|LEFT (?:\w+ ){0,4}ANGLE|LEFT ARC"
)
_SQUARE = re.compile(r"LEFT (?:\w+ ){0,4}(?:SQUARE|LENTICULAR|TORTOISE|CORNER)")
_SLASH = re.compile(r"SOLIDUS|SLASH|RISING DIAGONAL|BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT")
_DASH = re.compile(r"HYPHEN|DASH|MINUS")
# Letters of other scripts that look like those of our words, small or capital; a letter stands for both of its cases.
# Accents and compatibility forms are taken off before.
_LETTERS = {
    look.lower(): plain
    for plain, looks in {
        "l": "ӏǀ∣ɩιلاʟ𐊊ᏞᒪⳐ",
        "e": "еєҽεɛᴇ℮Ꭼ",
        "s": "ѕꜱƽᏚՏᔕ",
        "o": "оοօσᴏ०٥هⲟⵔ",
        "n": "ոпηɴռΝⲚ",
        "r": "гʀᴦⲅᎡᏒƦ",
        "c": "сϲᴄⲥᏟᑕ",
        "d": "ԁᴅժᎠᗪ",
        "h": "НΗһʜհᎻⲎ",
        "m": "МΜᴍᎷⲘ",
        "b": "ЬвƄᏏᑲВΒ",
        "k": "кκⲕᴋᏦКΚ",
        "y": "уүγʏᎩУΥ",
        "<": "ᐸᑉᚲ𝈶⊂⋐く",
        "/": "丿〳ノ᜵",
    }.items()
    for look in looks
}


@lru_cache(maxsize=10_000)  # cleaning 20 lessons costs as much as all of Django around it
def clean(text: str) -> str:
    """Make a text safe inside the block, as one line.

    Direction marks and other control characters are written out (`[U+202E]`) so that a reader sees them;
    characters that only hide are dropped (D5, D15).
    """
    if text.isascii() and text.isprintable():  # most are, and have no space but the plain one
        return _take_brackets(" ".join(text.split()))
    return _take_brackets(_spell_out(_SPACE.sub(" ", _INVISIBLE.sub("", text)).strip()))


@lru_cache(maxsize=10_000)
def clean_lines(text: str) -> str:
    """Make a text safe as `clean` does, but keep its line breaks, tabs and spaces."""
    return clean_text(text)


def clean_text(text: str) -> str:
    """Do what `clean_lines` does for a long text, without remembering it. To clean it again changes nothing."""
    if not (text.isascii() and text.isprintable()):
        lines = _INVISIBLE.sub("", text).replace("\r\n", "\n").split("\n")
        text = "\n".join("\t".join(map(_spell_out, line.split("\t"))) for line in lines)
    return _take_brackets(text)


def needs_cleaning(*texts: str) -> bool:
    """Return whether agents are given any of these texts in another form; how lines end does not count."""
    return any(clean_text(text) != text.replace("\r\n", "\n") for text in texts)


def _spell_out(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _spell(character) for character in text)


def _spell(character: str) -> str:
    if unicodedata.category(character)[0] == "Z":
        return " "
    return f"[U+{ord(character):04X}]"


def _take_brackets(text: str) -> str:
    """Replace what opens a delimiter, a label or a role token, however it is spelled, by a round bracket."""
    if not _OPENING.search(text) and (text.isascii() or not any(_OPENING.search(_look(sign)) for sign in set(text))):
        return text
    shapes = [text] if text.isascii() else [_look(character) for character in text]
    looks = "".join(shapes)
    spans = {match.span(1) for pattern in (_DELIMITER, _LABEL) for match in pattern.finditer(looks)}
    spans |= {match.span() for match in ROLE_TOKEN.finditer(looks)}
    if not text.isascii():
        places = [index for index, shape in enumerate(shapes) for _ in shape]
        spans = {(places[start], places[end - 1] + 1) for start, end in spans}
    # From the end, so that the places before stay what they were.
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}({text[end:]}"
    return text


@lru_cache(maxsize=4000)
def _look(character: str) -> str:
    """Return the plain characters that a character looks like; nothing for marks that only decorate."""
    if character.isascii():
        return character
    if (plain := _LETTERS.get(character.lower())) is not None:
        return plain
    name = unicodedata.name(character, "")
    for pattern, sign in ((_LESS_THAN, "<"), (_SQUARE, "["), (_SLASH, "/"), (_DASH, "-")):
        if pattern.search(name) and not unicodedata.combining(character):
            return sign
    apart = unicodedata.normalize("NFKD", character)
    if apart == character:
        return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else character
    return "".join(_look(part) for part in apart if part != character)
