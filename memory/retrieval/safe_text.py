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
# Some characters that cannot be seen are part of how a word is written: joiners between letters of Arabic, Indic and
# Mongolian scripts, joiners, variants and tags in emoji, variants of Han characters, and direction marks beside letters
# that are written from right to left.
_JOINING = "\u0620-\u06dc\u06de-\u070e\u0710-\u08e1\u08e3-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af"
_RIGHT_TO_LEFT = "\u0590-\u05ff\u0620-\u06dc\u06de-\u070e\u0710-\u08e1\u08e3-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_EMOJI = "\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_KEPT = re.compile(
    rf"((?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    r"|(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d]"  # behind a virama
    rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    r"|(?<=[\u3400-\u9fff\uf900-\ufaff])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    rf"|(?<=[{_RIGHT_TO_LEFT}])[\u061c\u200f]|[\u061c\u200f](?=[{_RIGHT_TO_LEFT}])"
    r"|(?<=\U0001f3f4)[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f)"  # 🏴󠁧󠁢󠁳󠁣󠁴󠁿
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
    characters that only hide are dropped (D5, D15). Those that belong to a word or an emoji stay.
    """
    if text.isascii() and text.isprintable():  # most are, and have no space but the plain one
        return _take_brackets(" ".join(text.split()))
    return _take_brackets(_spell_out(_SPACE.sub(" ", _drop_invisible(text)).strip()))


@lru_cache(maxsize=10_000)
def clean_lines(text: str) -> str:
    """Make a text safe as `clean` does, but keep its line breaks, tabs and spaces."""
    return clean_text(text)


def clean_text(text: str) -> str:
    """Do what `clean_lines` does for a long text, without remembering it. To clean it again changes nothing."""
    if not (text.isascii() and text.isprintable()):
        lines = _drop_invisible(text).replace("\r\n", "\n").split("\n")
        text = "\n".join("\t".join(map(_spell_out, line.split("\t"))) for line in lines)
    return _take_brackets(text)


def needs_cleaning(*texts: str) -> bool:
    """Return whether agents are given any of these texts in another form; how lines end does not count."""
    return any(clean_text(text) != text.replace("\r\n", "\n") for text in texts)


def _drop_invisible(text: str) -> str:
    # What is kept stands at the odd places.
    pieces = _KEPT.split(text)
    return "".join(piece if index % 2 else _INVISIBLE.sub("", piece) for index, piece in enumerate(pieces))


def _spell_out(text: str) -> str:
    if text.isprintable():
        return text
    pieces = _KEPT.split(text)
    pieces[::2] = ["".join(sign if sign.isprintable() else _spell(sign) for sign in piece) for piece in pieces[::2]]
    return "".join(pieces)


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
