"""Telephone numbers, IBANs, payment cards and social security numbers, and e-mail addresses."""

import re
import string

from memory.redaction.spans import TAKEN, SecretRule, SecretSpan, View, follows_word, pattern

_LOCAL_PART = (string.ascii_letters + string.digits + "._%+-").encode()
_MAX_EMAIL = 254
_DOMAIN = re.compile(
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}"
    rf"(?![A-Za-z0-9]|-[A-Za-z0-9{TAKEN}])"
)
_SPELLED_DOMAIN = re.compile(
    r"[(\[]at[)\]] ?[a-z0-9-]{1,63}(?: ?(?:\.|[(\[]dot[)\]]) ?[a-z0-9-]{1,63}){1,4}(?!-?[a-z0-9])",
    re.IGNORECASE | re.ASCII,
)
_IBAN = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", re.ASCII)
_IBANS = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20
    EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30
    KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28
    PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24
    XK20
"""
_IBAN_LENGTHS = {pair[:2]: int(pair[2:]) for pair in _IBANS.split()}
_CARD = re.compile(r"(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|3\d{3}([ -])\d{6}\2\d{4,5})(?!\w|[-.,]\d)", re.ASCII)
_CARD_ISSUERS = re.compile(r"4|5[0-8]|6[0-9]|3[0-9]|2(?:2[2-9]|[3-6]|7[01]|720)")
_NORTH_AMERICAN = re.compile(
    r"(?:\+?(?<!\w)1[-. ]?)?(?:\([2-9]\d\d\) ?|[2-9]\d\d[-. ])[2-9]\d\d[-. ]\d{4}\Z", re.ASCII
)  # up to where its search ends
_NORTH_AMERICAN_LENGTH = 17


def _read_email(view: View, position: int) -> SecretSpan | None:
    text, spelled = view.text, view.raw[position] != ord("@")
    before = view.raw[max(0, position - _MAX_EMAIL) : position]
    before = before.rstrip(b" ") if spelled else before
    local = before[len(before.rstrip(_LOCAL_PART)) :].lstrip(b".-+%")
    start = max(0, position - _MAX_EMAIL) + len(before) - len(local)
    # A user name in a URL is none: https://ana@host, git@host:path
    if not 0 < len(local) < _MAX_EMAIL or local == b"git" or text.startswith("://", max(0, start - 3)):
        return None
    match = (_SPELLED_DOMAIN if spelled else _DOMAIN).match(text, position)
    return SecretSpan(start, match.end(), "email") if match else None


def _read_iban(view: View, position: int) -> SecretSpan | None:
    """Read an IBAN (ISO 13616): of its country's length, and 1 modulo 97 when its letters are read as numbers."""
    if not (length := _IBAN_LENGTHS.get(view.text[position : position + 2])):
        return None
    if not (match := _IBAN.match(view.text, position)):
        return None
    compact = match[0].replace(" ", "")[:length]
    if len(compact) < length or int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 != 1:
        return None
    end = position
    for _ in range(length):
        # The match may have taken letters behind the IBAN; its real end is counted in characters without spaces.
        end += 2 if view.text[end] == " " else 1
    if view.text[end : end + 1].isalnum():
        return None
    return SecretSpan(position, end, "iban", not follows_word(view.text, position))


def _read_card(view: View, position: int) -> SecretSpan | None:
    if view.numeric[position - 1 : position] == b"d":
        return None  # inside a number
    match = _CARD.match(view.text, position)
    if not match or not is_card(match[0]):
        return None
    return SecretSpan(position, match.end(), "card", not follows_word(view.text, position))


def is_card(number: str) -> bool:
    """Return whether `number` has the length, first digits and check digit (Luhn) of a payment card."""
    digits = [int(c) for c in number if c.isdigit()]
    # Equal digits pass Luhn's check (0000…) and are no card.
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1 or not _CARD_ISSUERS.match("".join(map(str, digits[:3]))):
        return False
    doubled = (sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _read_groups(view: View, position: int) -> SecretSpan | None:
    """Read a card or a North American telephone number around three digits, something, and four digits."""
    text, end = view.text, position + 8
    if view.numeric[position - 1 : position] == b"d":
        return _read_card(view, position - 1)
    after = text[end : end + 2]
    if after[:1].isalnum() or after[:1] == "_" or (after[:1] == "-" and after[1:].isdigit()):
        return None
    continued, start = None, max(0, end - _NORTH_AMERICAN_LENGTH)
    while match := _NORTH_AMERICAN.search(text, start, end):
        start = match.start()
        if not follows_word(text, start):
            return SecretSpan(start, end, "phone")
        continued = continued or SecretSpan(start, end, "phone", free=False)
        start += 1
    return continued


RULES = (
    SecretRule("raw", b"@", _read_email),
    SecretRule("lower", b"(at)", _read_email),
    SecretRule("numeric", b"uudd", _read_iban),
    SecretRule("numeric", b"d" * 13, _read_card),
    SecretRule("numeric", b"ddd dddd", _read_groups),  # the blank stands for anything but digits and capitals
    SecretRule(
        "numeric",
        b"ddd dd dddd",
        pattern("national_id", r"(?a)(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?!\w|[-.]\d)", whole=True),
    ),
    *(
        SecretRule(
            "lower",
            label,
            pattern(
                "national_id",
                rf"(?ai){label.decode()}(?: number| no\.?)?[^\d\n]{{0,8}}(\d{{3}}[- ]?\d\d[- ]?\d{{4}})(?!\w)",
            ),
        )
        for label in (b"ssn", b"social security")
    ),
    *(
        SecretRule(
            "lower",
            label.encode(),
            pattern(
                "phone",
                r"(?ai)(?:phone|mobile|tel|fax)[ _]?(?:number|no\.?|nr\.?)?(?:\\?[\"'])?[ \t]{0,3}(?:[:=]|is\b)"
                r"[ \t]{0,3}(?:\\?[\"'])?(\+?\(?\d(?:[ ().\-/]{0,2}\d){6,14})(?!-?\w)",
            ),
        )
        for label in ("phone", "mobile", "tel", "fax")
    ),
    SecretRule("raw", b"+", pattern("phone", r"(?a)\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\w)", whole=True)),
)
