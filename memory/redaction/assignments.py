"""Secrets recognised by the name they are assigned to: password=…, "api_key": "…", Authorization: Bearer …"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

from memory.redaction.spans import Span, find_all

_STRONG = (b"passw", b"passphrase", b"pwd")
_WEAK = (b"secret", b"token", b"credential", b"key")
# "key" alone means nothing: "keyboard", "primary key"
_KEYS = (b"api", b"access", b"private", b"secret", b"auth", b"account", b"encryption", b"signing", b"shared", b"master")
# Properties of a secret rather than the secret: token_id, secret_name
_NOT_ITSELF = tuple("id ids name type count limit path file url uri length expires expiry".split())  # noqa: SIM905
_ASSIGNED = re.compile(
    r"(?P<rest>[\w-]{0,24})"  # of the name
    r"(?:\\?[\"'`])?[ \t]{0,3}(?P<separator>:=|=>|==|=|:|[ \t](?:is|was)[ \t](?=\S))[ \t]{0,3}"
    r"(?:(?P<quote>\\?[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\r\n\x1e]){1,512})(?P=quote)"
    r"|(?P<open>\\?[\"'`])?(?P<bare>[^\s\"'`\\,;&<>(){}\[\]|]{4,128}))"
)
# _ASSIGNED reads enough of a value to judge it; this matches the rest of a secret
_REST = re.compile(r"[^\s\"'`\\,;&<>(){}\[\]|]{0,16384}")
_SIGNATURE = re.compile(r"[?&;]sig=([A-Za-z0-9%+/=_-]{24,200})")
_HEADER = re.compile(
    r"authorization(?:\\?[\"'])?[ \t]{0,3}[:=,][ \t]{0,3}(?:\\?[\"'])?"
    r"(?:(?:basic|bearer|digest|token|apikey|api-key|negotiate|bot|aws4-hmac-sha256)[ \t]{1,3})?"
    r"([^\s\"'\\,;&<>(){}\[\]|$][^\s\"'`\\,;&<>(){}\[\]|]{7,128})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?:bearer|basic)[ \t]{1,3}([A-Za-z0-9._~+/-]{16,128})", re.IGNORECASE)
_COOKIE = re.compile(
    r"cookie(?:\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\?[\"'])?"
    r"(\w[\w.-]{0,64}=[^\s;\"'\\]{8,4096}(?:; ?[\w.-]{1,64}(?:=[^\s;\"'\\]{0,4096})?){0,64})",
    re.IGNORECASE,
)
_NOT_A_SECRET = frozenset(
    """none null true false undefined string text required optional missing incorrect invalid wrong empty hidden
    redacted removed password passwd secret token apikey api_key your_password your_api_key your_token yourpassword
    changed unchanged expired unknown default example placeholder""".split()  # noqa: SIM905
)
_CODE = re.compile(
    r"[$%{<\[(*]|https?://|os\.|env\.|self\.|process\.|settings\.|config\.|getenv|getpass|[x*.-]+$|\.\.\.",
    re.IGNORECASE,
)


def is_entropic(value: str) -> bool:
    """Return whether `value` looks random: at least 8 characters, letters and digits mixed, few repetitions."""
    if len(value) < 8 or any(c.isspace() for c in value):
        return False
    digits = sum(map(str.isdigit, value))
    if not digits or digits == len(value):
        return len(value) >= 24 and _bits(value) >= 3.5 and not digits and not value.islower()
    return _bits(value) >= (2.5 if len(value) < 16 else 3.0)


def _bits(value: str) -> float:
    sample = value[:64]
    return -sum(n / len(sample) * log2(n / len(sample)) for n in Counter(sample).values())


def is_assigned_secret(value: str, *, strong: bool, stated: bool) -> bool:
    """Return whether the value assigned to a name is a secret.

    Args:
        strong: the name means a password, which need not look random.
        stated: the value is quoted or follows an equals sign, so it is not just the next word of a sentence.
    """
    bare = value.strip().rstrip(".,!?")
    if len(bare) < 4 or bare.lower() in _NOT_A_SECRET or _CODE.match(bare) or len(set(bare)) == 1:
        return False
    if not strong:
        return is_entropic(bare)
    if stated:
        return True
    return (any(not c.isalpha() for c in bare.strip("-_.:")) and len(bare) >= 6) or bare.isdigit()


def find_assignments(text: str, raw: bytes, lower: bytes) -> Iterator[Span]:
    """Find values assigned to names like password or api_key, and credentials in headers.

    `raw` is the text with one ASCII byte per character, `lower` the same in lower case.
    """
    for needle in (*_STRONG, *_WEAK):
        strong = needle in _STRONG
        done = 0
        for position in find_all(lower, needle):
            if position < done:
                continue
            if needle == b"key" and not lower[max(0, position - 12) : position].rstrip(b"-_ ").endswith(_KEYS):
                continue
            if not (match := _ASSIGNED.match(text, position + len(needle))):
                continue
            if not strong and match["rest"].lower().endswith(_NOT_ITSELF):
                continue
            group = "quoted" if match["quoted"] is not None else "bare"
            stated = bool(match["quote"] or match["open"]) or "=" in match["separator"]
            if is_assigned_secret(match[group], strong=strong, stated=stated):
                done = match.end(group) if group == "quoted" else _end_of_value(text, match.end(group))
                yield Span(match.start(group), done, "password" if strong else "secret")
    for needle, pattern in ((b"authorization", _HEADER), (b"bearer", _BEARER), (b"basic", _BEARER)):
        done = 0
        for position in find_all(lower, needle):
            if position >= done and (match := pattern.match(text, position)) and is_entropic(match[1]):
                done = _end_of_value(text, match.end(1))
                yield Span(match.start(1), done, "authorization")
    for position in find_all(lower, b"cookie"):
        if match := _COOKIE.match(text, position):
            yield Span(match.start(1), match.end(1), "cookie")
    for position in find_all(raw, b"sig="):
        if position and (match := _SIGNATURE.match(text, position - 1)):
            yield Span(match.start(1), match.end(1), "signature")


def _end_of_value(text: str, position: int) -> int:
    rest = _REST.match(text, position)
    return rest.end() if rest else position
