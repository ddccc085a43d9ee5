"""What a search works on and what it finds."""

import codecs
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

SEPARATOR = "\x1e"  # between texts that are searched together; no rule matches across it
TAKEN = "\ufdd0"  # no character: fills the place of what is already redacted; no secret has it in it
PLACEHOLDER = re.compile(r"\[REDACTED:[a-z0-9_]{1,40}:[0-9a-f]{8}\]")

REST = re.compile(r"[^\s\"'`\\,;&<>(){}\[\]|]*+")  # of a value of which enough was read to judge it

_LOWER_IN_ASCII = str.maketrans({"\u0130": "i", "\u212a": "k"})  # others have no ASCII lower case
# Spaces and hyphens of typesetters, which stand in numbers copied from pages, and the signs of East Asian keyboards
_TYPESET = {
    " ": "\u00a0\u2007\u2009\u202f\u3000",
    "-": "\u2010\u2011\u2012\u2013\u2212",
    ":": "\uff1a",
    "=": "\uff1d",
    "@": "\uff20",
}
# What stands for each character outside ASCII, so that the forms have the length of the text: no rule starts with it.
NO_LETTER = "erl-no-letter"
codecs.register_error(NO_LETTER, lambda error: ("\x7f" * (error.end - error.start), error.end))  # type: ignore[attr-defined]
# One letter per character class, so that a literal search finds where a number or a token may start
_NUMERIC = bytes(
    0x64 if chr(i) in string.digits else 0x75 if chr(i) in string.ascii_uppercase else 0x20 for i in range(256)
)
_WORDS = bytes(0x61 if chr(i) in string.ascii_letters + string.digits + "_-" else 0x20 for i in range(256))


class SecretSpan(NamedTuple):
    """A found secret: `text[start:end]` is of `kind`.

    One that is not `free` continues a word or number, and counts only if another secret ends where it starts.
    """

    start: int
    end: int
    kind: str
    free: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """A text as the rules see it, in several forms with one character for each of its own."""

    text: str
    raw: bytes  # in ASCII
    lower: bytes
    numeric: bytes  # digits d, capitals u, anything else blank
    words: bytes  # letters, digits, _ and - are a, anything else blank
    dull: set[bytes]  # a cache: words in which no token was found, since names of functions repeat


class SecretRule(NamedTuple):
    """A kind of secret, read wherever `anchor` is found in one form of the text.

    `read` is given the position of the anchor, looks at a bounded stretch of text around it, and may take more only if
    it takes what it read.
    """

    form: Literal["raw", "lower", "numeric", "words"]
    anchor: bytes
    read: Callable[[View, int], SecretSpan | None]


def follows_word(text: str, position: int) -> bool:
    """Return whether the character before belongs to the same word or number, as in B0412… or 0.4111…"""
    if position == 0:
        return False
    before = text[position - 1]
    return before.isalnum() or before == "_" or (before in ".,-" and position > 1 and text[position - 2].isdigit())


def pattern(
    kind: str, regex: str, *, judge: Callable[[str], bool] | None = None, before: int = 0, whole: bool = False
) -> Callable[[View, int], SecretSpan | None]:
    """Make a reader of a regular expression, whose group, if it has one, is the secret.

    Args:
        judge: whether the group looks like a secret; one that does takes the rest of its value.
        before: how many characters before the anchor the expression starts.
        whole: what continues a word is none.
    """
    compiled = re.compile(regex)

    def read(view: View, position: int) -> SecretSpan | None:
        match = compiled.match(view.text, position - before) if position >= before else None
        if not match or (judge and not judge(match[1])):
            return None
        start, end = match.span(compiled.groups and 1)
        if judge and (rest := REST.match(view.text, end)):
            end = rest.end()
        return SecretSpan(start, end, kind, not (whole and follows_word(view.text, start)))

    return read


def view(text: str) -> View:
    """Show the rules a text: with plain spaces and signs, and with what is already redacted blotted out."""
    if not text.isascii():
        for plain, typeset in _TYPESET.items():
            for character in typeset:  # faster than a translation of the text, which has few of them
                if character in text:
                    text = text.replace(character, plain)
    if "[REDACTED:" in text:
        text = PLACEHOLDER.sub(lambda match: TAKEN * len(match[0]), text)
    raw = text.encode("ascii", NO_LETTER)
    lower = raw.lower()
    if not text.isascii() and ("\u0130" in text or "\u212a" in text):
        lower = text.translate(_LOWER_IN_ASCII).encode("ascii", "replace").lower()
    return View(text, raw, lower, raw.translate(_NUMERIC), raw.translate(_WORDS), set())


def blot(shown: View, spans: Sequence[SecretSpan]) -> View:
    """Blot out what was found."""
    if not spans:
        return shown
    raw, words, pieces, done = bytearray(shown.raw), bytearray(shown.words), [], 0
    for span in spans:
        length = span.end - span.start
        raw[span.start : span.end] = b"\x7f" * length
        words[span.start : span.end] = b" " * length
        pieces += [shown.text[done : span.start], TAKEN * length]
        done = span.end
    text = "".join([*pieces, shown.text[done:]])
    return replace(shown, text=text, raw=bytes(raw), words=bytes(words))
