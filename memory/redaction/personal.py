"""Find e-mail addresses, telephone numbers, IBANs and payment cards, each in linear time."""

import re
import string
from collections.abc import Iterator

from memory.redaction.spans import Span, find_all

_LOCAL_PART = frozenset(string.ascii_letters + string.digits + "._%+-")
_DOMAIN = re.compile(r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])")
# One letter per character class, so that a literal search finds where a number may start
_NUMERIC = bytes(
    0x64 if chr(i) in string.digits else 0x75 if chr(i) in string.ascii_uppercase else 0x20 for i in range(256)
)
_IBAN_HEAD = re.compile(b"uudd(?= ?[ud]{4})")
_IBAN = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", re.ASCII)
_IBANS = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20
    EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30
    KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28
    PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24
    XK20
"""
_IBAN_LENGTHS = {pair[:2]: int(pair[2:]) for pair in _IBANS.split()}
_CARD = re.compile(
    r"(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|3\d{3}([ -])\d{6}\2\d{4,5})(?![\w]|[-.,]\d)", re.ASCII
)
_CARD_ISSUERS = re.compile(r"4|5[0-8]|6[0-9]|3[0-9]|2(?:2[2-9]|[3-6]|7[01]|720)")
_NORTH_AMERICAN = re.compile(r"(?:\+?1[-. ]?)?(?:\([2-9]\d\d\) ?|[2-9]\d\d[-. ])[2-9]\d\d[-. ]\d{4}", re.ASCII)
_INTERNATIONAL = re.compile(r"\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\d)", re.ASCII)
_LABELLED = re.compile(
    r"(?:phone|mobile|tel|fax)[ _]?(?:number|no\.?|nr\.?)?(?:\\?[\"'])?[ \t]{0,3}(?:[:=]|is\b)[ \t]{0,3}(?:\\?[\"'])?"
    r"(\+?\(?\d(?:[ ().\-/]{0,2}\d){6,14})(?![\w-])",
    re.IGNORECASE | re.ASCII,
)


def find_emails(text: str, raw: bytes) -> Iterator[Span]:
    """Find e-mail addresses, starting from each @. `raw` is the text with one ASCII byte per character."""
    for position in find_all(raw, b"@"):
        start = position
        while start > 0 and position - start < 64 and text[start - 1] in _LOCAL_PART:
            start -= 1
        while start < position and text[start] in ".-+%":
            start += 1
        if start == position or text.startswith("://", max(0, start - 3)) or text[start:position] == "git":
            continue  # a user name in a URL: https://ana@host, git@host:path
        if match := _DOMAIN.match(text, position):
            yield Span(start, match.end(), "email")


def find_numbers(text: str, raw: bytes, lower: bytes) -> Iterator[Span]:
    """Find telephone numbers, IBANs and payment cards.

    `raw` is the text with one ASCII byte per character, `lower` the same in lower case.
    """
    numeric = raw.translate(_NUMERIC)
    for head in _IBAN_HEAD.finditer(numeric):
        position = head.start()
        if text[position : position + 2] not in _IBAN_LENGTHS or _follows_word(text, position):
            continue
        if (match := _IBAN.match(text, position)) and (length := _iban_length(match[0])):
            yield Span(position, position + length, "iban")
    for position in find_all(numeric, b"d" * 13):
        if numeric[position - 1 : position] != b"d" and (end := _card_end(text, position)):
            yield Span(position, end, "card")
    for position in find_all(numeric, b"ddd dddd", step=4):  # the blank stands for anything but digits and capitals
        if numeric[position - 1 : position] != b"d":
            if span := _north_american(text, position + 4):
                yield span
        elif numeric[position - 2 : position - 1] != b"d" and (end := _card_end(text, position - 1)):
            yield Span(position - 1, end, "card")
    for position in find_all(raw, b"+"):
        if not _follows_word(text, position) and (match := _INTERNATIONAL.match(text, position)):
            yield Span(position, match.end(), "phone")
    for label in (b"phone", b"mobile", b"tel", b"fax"):
        for position in find_all(lower, label):
            if match := _LABELLED.match(text, position):
                yield Span(match.start(1), match.end(1), "phone")


def _follows_word(text: str, position: int) -> bool:
    """Return whether the character before belongs to the same word or number, as in B0412… or 0.4111…"""
    if position == 0:
        return False
    before = text[position - 1]
    return before.isalnum() or before == "_" or (before in ".,-" and position > 1 and text[position - 2].isdigit())


def _north_american(text: str, last_four: int) -> Span | None:
    """Find the number whose last four digits start at `last_four`."""
    for length in (15, 14, 13, 12, 11, 10, 9, 8):
        start = last_four - length
        if start < 0 or text[start] not in "+(123456789" or _follows_word(text, start):
            continue
        match = _NORTH_AMERICAN.match(text, start)
        end = last_four + 4
        if match and match.end() == end and not (text[end : end + 1].isalnum() or text[end : end + 1] in {"-", "_"}):
            return Span(start, end, "phone")
    return None


def _iban_length(candidate: str) -> int:
    """Return how many characters of `candidate` are an IBAN (ISO 13616: its country's length, mod 97 is 1), or 0."""
    compact = candidate.replace(" ", "")[: _IBAN_LENGTHS[candidate[:2]]]
    if len(compact) < _IBAN_LENGTHS[candidate[:2]]:
        return 0
    if int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 != 1:
        return 0
    seen = 0
    for length, character in enumerate(candidate, start=1):
        seen += character != " "
        if seen == len(compact):
            return length if not candidate[length : length + 1].isalnum() else 0
    return 0


def _card_end(text: str, position: int) -> int:
    match = None if _follows_word(text, position) else _CARD.match(text, position)
    return match.end() if match and is_card(match[0]) else 0


def is_card(number: str) -> bool:
    """Return whether `number` has the length, first digits and check digit (Luhn) of a payment card."""
    digits = [int(c) for c in number if c.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1 or not _CARD_ISSUERS.match("".join(map(str, digits[:3]))):
        return False
    doubled = (sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
