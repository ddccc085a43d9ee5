"""Secrets recognised by the name they stand under: password=…, "api_key": "…", Authorization: Bearer …"""

import re
from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import lru_cache, partial
from math import log2
from typing import Any

from memory.redaction.formats import pattern
from memory.redaction.spans import TAKEN, Rule, Span, View


class Said(Enum):
    """How a value stands with its name, which decides what is needed to believe that it is a secret."""

    MEMBER = 1  # in an object, under its name
    SET = 2  # quoted, after an equals sign, as an option
    TOLD = 3  # after a colon, or "is": may be the next word of a sentence
    NEAR = 4  # somewhere after the name


# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────
_NOT_A_SECRET = frozenset(
    """none null true false undefined string text required optional missing incorrect invalid wrong empty hidden
    redacted removed password passwd secret token apikey api_key your_password your_api_key your_token yourpassword
    changed unchanged expired unknown default example placeholder""".split()  # noqa: SIM905
)
_CODE = re.compile(
    r"[$%{<\[(*]|https?://|os\.|env\.|self\.|process\.|settings\.|config\.|getenv|getpass|[x*.-]+$|\.\.\.",
    re.IGNORECASE,
)
_CLEAN = str.maketrans("", "", "-_.:")


def is_secret(value: str, *, kind: str, said: Said) -> bool:
    """Return whether the value under a name of this kind is a secret rather than a blank, placeholder or plain word."""
    if TAKEN in value or "[REDACTED:" in value:
        return False
    digits = sum(c.isdigit() for c in value)
    bare = value.strip().rstrip(".,!?")
    match kind:
        case "phone":
            return 7 <= digits <= 15 and not any(c.isalpha() for c in value)
        case "card_code":
            return digits in (3, 4) and len(value) == digits
        case "code":
            return 4 <= digits <= 8 and len(bare) == digits
        case "card" | "iban":
            return digits >= 8 and len(value) <= 42
        case "national_id":
            return digits >= 6 and len(value) <= 20
    if len(bare) < 4 or bare.lower() in _NOT_A_SECRET or _CODE.match(bare) or len(set(bare)) == 1:
        return False
    match kind, said:
        case "token", Said.MEMBER:
            return is_entropic(bare) or (len(bare) >= 24 and " " not in bare)
        case "password", Said.MEMBER | Said.SET:
            return True
        case _, Said.MEMBER:
            return len(bare) >= 8 and ((kind != "secret" or " " not in bare) or is_entropic(bare))
        case "password", Said.TOLD:
            return (not bare.translate(_CLEAN).isalpha() and len(bare) >= 6) or bare.isdigit()
        case "password", Said.NEAR:
            return len(bare) >= 6 and 0 < digits < len(bare) and any(c.isalpha() for c in bare) and "/" not in bare
    return is_entropic(bare)


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


# ── Members of objects ────────────────────────────────────────────────────────────────────────────────────────────
_SECRET_MEMBERS = {
    "password": "password", "passwd": "password", "pwd": "password", "passphrase": "password", "passcode": "password",
    "pass": "password", "pw": "password", "passwords": "password", "pin": "code", "otp": "code",
    "secret": "secret", "apikey": "secret", "privatekey": "secret", "accesskey": "secret", "secretkey": "secret",
    "signingkey": "secret", "encryptionkey": "secret", "credential": "secret", "credentials": "secret",
    "authorization": "authorization", "cookie": "cookie", "setcookie": "cookie",
    "token": "token", "jwt": "token", "bearer": "token",
    "cvv": "card_code", "cvc": "card_code", "ssn": "national_id", "socialsecuritynumber": "national_id",
    "cardnumber": "card", "iban": "iban",
    "phone": "phone", "phonenumber": "phone", "mobile": "phone", "telephone": "phone",
}  # fmt: skip
_SUFFIXES = ("password", "passwd", "passphrase", "secret", "apikey", "privatekey", "accesskey", "secretkey", "token")
_PAGING = ("pagetoken", "continuationtoken", "synctoken", "padtoken", "eostoken", "bostoken", "unktoken", "masktoken")
NAME_MEMBERS = ("name", "key", "field", "header", "label", "id")
VALUE_MEMBERS = frozenset({"value", "text", "content"})
# Members that hold a secret if the object they are in is named as one: {"password": {"plain": …}}
INNER_MEMBERS = VALUE_MEMBERS | {"plain", "plaintext", "cleartext", "raw", "current", "new", "old", "data", "secret"}
_FOR_COMPARISON = str.maketrans("", "", "-_ .")


@lru_cache(maxsize=4096)
def read_name(name: str) -> tuple[str, bool]:
    """Return the kind of secret a member of this name holds, or "", and whether the name is a plain word.

    Plain words, of letters and underscores, cannot be secrets themselves and need no search.
    """
    if len(name) > 64:
        return "", False
    word = name.translate(_FOR_COMPARISON).lower()
    named = word.rstrip("0123456789")
    kind = _SECRET_MEMBERS.get(named, "")
    if not kind and named.endswith(_SUFFIXES) and not named.endswith(_PAGING):
        kind = "token" if named.endswith("token") else "password" if "pass" in named else "secret"
    return kind, len(name) <= 24 and word.isalpha()


def find_named_kind(item: dict[Any, Any]) -> str:
    """Return the kind of `value` in `{"name": "Authorization", "value": …}`, or ""."""
    if item.keys().isdisjoint(NAME_MEMBERS):
        return ""
    for name in NAME_MEMBERS:
        if isinstance(given := item.get(name), str) and (kind := read_name(given)[0]):
            return kind
    return ""


# ── Names in text ─────────────────────────────────────────────────────────────────────────────────────────────────
_QUOTE = r"(?:\\{0,7}[\"'`])"
_QUOTED = re.compile(_QUOTE)
# How a value follows its name, in lower-case ASCII. The first that leads to a secret counts.
_INTRODUCTIONS: tuple[tuple[Said, str], ...] = (
    # password = X, password: str = X, ["password"] = X
    (Said.SET, rf"{_QUOTE}?\]?[ \t]{{0,3}}(?::[ ](?:str|string)[ ]?)?(?::=|=>|==|=)[ \t]{{0,3}}"),
    # password: X, "password": {"plain": X}, "passwords": [X, **password:** X
    (
        Said.TOLD,
        rf"(?:{_QUOTE}|\*\*)?[ \t]{{0,3}}:(?:\*\*)?[ \t]{{0,3}}"
        rf"(?:\{{[ ]?{_QUOTE}?\w{{1,20}}{_QUOTE}?[ ]?:[ ]?|\[[ ]?|&\w{{1,20}}[ ]|@)?",
    ),
    (Said.TOLD, r"(?:[ ](?:for|of)[ ][^\s?]{1,64})?[ ](?:is|was)[ ]?:?[ ](?=\S)"),
    # setPassword("X")
    (Said.SET, rf"\(@?(?={_QUOTE})"),
    # name="password" value="X", {"name": "password", "value": "X"}
    (Said.SET, rf"{_QUOTE}[ ,;{{]{{1,4}}{_QUOTE}?(?:value|default){_QUOTE}?[ ]?[:=][ ]?(?={_QUOTE})"),
    # <password>X</password>, <key>password</key> <string>X</string>
    (
        Said.SET,
        r"(?:[ ][\w:.-]{1,40}=[\"'][^\"'<>\n?]{0,100}[\"']){0,4}[ ]?>(?:<!\[cdata\[)?(?=[^<>\]\n]{1,128}(?:\]\]>)?</)",
    ),
    (Said.SET, r"</\w{1,20}>\s{0,20}<\w{1,20}>(?=[^<>\n]{1,128}</)"),
)
_INTRODUCTIONS_OF_PASSWORDS: tuple[tuple[Said, str], ...] = (
    # define("PASSWORD", "X")
    (Said.NEAR, rf"{_QUOTE},[ ]{{0,3}}(?={_QUOTE})"),
    # on the next line
    (Said.NEAR, rf"{_QUOTE}?[ \t]{{0,3}}:[ \t]{{0,3}}(?:[|>][+-]?)?[ \t]{{0,3}}\r?\n[ \t]{{0,40}}(?:-[ \t]{{1,3}})?"),
    # the password for ana should be changed to X, password -> X
    (
        Said.NEAR,
        r"(?:(?:[ ](?:for|of)[ ][^\s?]{1,64})?(?:['?]s|(?:[ ](?:is|was|should|must|be|has|been|reset|set|changed|now)){1,4}))?"
        r"(?:[ ](?:to|as|lautet|est|es))?[ ]?(?:[:=]|->|-)?[ \t]{1,3}",
    ),
)
_OPTION = re.compile(rb"(?<![\w-])--?[\w-]{0,30}\Z")
_BLANKS = re.compile(rb"[ \t]{1,3}")
_TAIL = re.compile(rb"[\w-]{0,24}")
_BARE = re.compile(r"[^\s\"'`\\,;&<>(){}\[\]|]{4,128}")
_REST = re.compile(r"[^\s\"'`\\,;&<>(){}\[\]|]*+")  # of a secret of which _BARE read enough to judge
_REDACTED = re.compile(rf"{_QUOTE}?{TAKEN}")
_LONGEST_QUOTED = 512
_LINE_END = re.compile(r"[\r\n\x1e]")
# Properties of a secret rather than the secret: token_id, secret_name
_NOT_ITSELF = tuple(b"id ids name type count limit path file url uri length expires expiry".split())


def _compile(introductions: tuple[tuple[Said, str], ...]) -> list[tuple[Said, re.Pattern[bytes]]]:
    return [(said, re.compile(text.encode())) for said, text in introductions]


_ANY, _PASSWORD = _compile(_INTRODUCTIONS), _compile(_INTRODUCTIONS + _INTRODUCTIONS_OF_PASSWORDS)


def _read_named(
    view: View, position: int, *, kind: str, name: re.Pattern[bytes], after: tuple[bytes, ...]
) -> Span | None:
    """Read the secret that follows a name.

    Args:
        name: the name, which starts at the position.
        after: words of which one comes before the name, unless there are none.
    """
    lower = view.lower
    if not (found := name.match(lower, position)):
        return None
    if after and not lower[max(0, position - 16) : position].rstrip(b"-_ ").endswith(after):
        return None
    tail = _TAIL.match(lower, found.end())
    end = tail.end() if tail else found.end()
    if lower.endswith(_NOT_ITSELF, found.end(), end):
        return None
    for said, introduction in _PASSWORD if kind == "password" else _ANY:
        if not (led := introduction.match(lower, end)):
            continue
        if span := _read_value(view, led.end(), kind=kind, said=said):
            return span
        if _REDACTED.match(view.text, led.end()):
            return None
    if (blanks := _BLANKS.match(lower, end)) and _OPTION.search(lower, max(0, position - 32), position):
        return _read_value(view, blanks.end(), kind=kind, said=Said.SET)
    return None


def _read_value(view: View, position: int, *, kind: str, said: Said) -> Span | None:
    """Read a quoted value or a word, and return it if it is a secret."""
    text = view.text
    if quote := _QUOTED.match(text, position):
        position = quote.end()
        said = Said.SET if said is Said.TOLD else said
        close = text.find(quote[0], position, position + _LONGEST_QUOTED)
        if close >= 0 and not _LINE_END.search(text, position, close):
            value = text[position:close]
            return Span(position, close, kind) if is_secret(value, kind=kind, said=said) else None
    word = _BARE.match(text, position)
    if word and is_secret(word[0], kind=kind, said=said):
        rest = _REST.match(text, word.end())
        return Span(position, rest.end() if rest else word.end(), kind)
    return None


def _judged(kind: str, regex: str, *, said: Said = Said.SET) -> Callable[[View, int], Span | None]:
    """Make a reader of a regular expression whose group is a secret if it looks like one."""
    compiled = re.compile(regex, re.IGNORECASE)

    def read(view: View, position: int) -> Span | None:
        match = compiled.match(view.text, position)
        if not match or not is_secret(match[1], kind=kind, said=said):
            return None
        rest = _REST.match(view.text, match.end(1))
        return Span(match.start(1), rest.end() if rest else match.end(1), kind)

    return read


def _named(anchor: str, kind: str, name: str = "", after: str = "") -> Rule:
    compiled = re.compile((name or anchor).encode())
    return Rule(
        "lower", anchor.encode(), partial(_read_named, kind=kind, name=compiled, after=tuple(after.encode().split()))
    )


_WORD = r"[\"']?([^\s\"'|\x1e]{4,128}+)"
# Options that hold a password only in some commands: by letter, the commands, and the option
_OPTIONS = {
    ord(letter): (re.compile(commands), re.compile(option))
    for letter, commands, option in (
        ("p", rb"mysql|mariadb|mongo|sshpass| login |\b7z\b", rf"[ ]-p[ =]?{_WORD}"),
        ("u", rb"curl|wget|http", rf"[ ]-u[ =]?[\"']?[^\s:\"'\x1e]{{1,64}}+:{_WORD}"),
        ("-", rb"curl", rf"[ ]--user[ =][\"']?[^\s:\"'\x1e]{{1,64}}+:{_WORD}"),
        ("a", rb"redis-cli", rf"[ ]-a[ ]{_WORD}"),
        ("w", rb"ldap", rf"[ ]-w[ ]?{_WORD}"),
        ("b", rb"htpasswd", rf"[ ]-b[ ]\S{{1,200}}+[ ]\S{{1,64}}+[ ]{_WORD}"),
    )
}
_COMMAND_LENGTH = 200  # before the option


def _read_option(view: View, position: int) -> Span | None:
    """Read the password in a short option of a well-known command."""
    if position + 2 >= len(view.lower) or not (known := _OPTIONS.get(view.lower[position + 2])):
        return None
    commands, option = known
    line = max(0, position - _COMMAND_LENGTH, view.lower.rfind(b"\n", max(0, position - _COMMAND_LENGTH), position))
    if not commands.search(view.lower, line, position) or not (match := option.match(view.text, position)):
        return None
    return Span(*match.span(1), "password") if is_secret(match[1], kind="password", said=Said.SET) else None


RULES = (
    _named("pass", "password", r"pass(?:w|phrase|code|e(?![a-z])|(?![a-z]))"),
    _named("pw", "password", r"pwd|(?<![a-z0-9])pw(?![a-z0-9])"),
    _named("contrase", "password"),
    _named("senha", "password"),
    _named("secret", "secret"),
    _named("token", "secret"),
    _named("credential", "secret"),
    # "key" alone means nothing: "keyboard", "primary key"
    _named("key", "secret", after="api access private secret auth account encryption signing shared master"),
    Rule("lower", b"key=", _judged("secret", r"(?<=[?&])key=([^\s\"'#&]{8,128}+)")),
    _named("pin", "code", r"(?<![a-z0-9])pin(?: code)?(?![a-z])"),
    _named("code", "code", after="verification security access time authentication authorization login 2fa"),
    Rule(
        "lower",
        b"ssn",
        pattern("national_id", r"(?ai)ssn(?: number| no\.?)?[^\d\n]{0,8}(\d{3}[- ]?\d\d[- ]?\d{4})(?!\w)"),
    ),
    *(
        Rule(
            "lower",
            label.encode(),
            pattern(
                "phone",
                r"(?ai)(?:phone|mobile|tel|fax)[ _]?(?:number|no\.?|nr\.?)?(?:\\?[\"'])?[ \t]{0,3}(?:[:=]|is\b)[ \t]{0,3}"
                r"(?:\\?[\"'])?(\+?\(?\d(?:[ ().\-/]{0,2}\d){6,14})(?!-?\w)",
            ),
        )
        for label in ("phone", "mobile", "tel", "fax")
    ),
    Rule(
        "lower",
        b"authorization",
        _judged(
            "authorization",
            r"authorization(?:\\?[\"'])?[ \t]{0,3}[:=,][ \t]{0,3}(?:\\?[\"'])?"
            r"(?:(?:basic|bearer|digest|token|apikey|api-key|negotiate|bot|aws4-hmac-sha256)[ \t]{1,3})?"
            r"([^\s\"'\\,;&<>(){}\[\]|$][^\s\"'`\\,;&<>(){}\[\]|]{7,128})",
        ),
    ),
    *(
        Rule("lower", scheme, _judged("authorization", r"(?:bearer|basic)[ \t]{1,3}([A-Za-z0-9._~+/-]{16,128})"))
        for scheme in (b"bearer", b"basic")
    ),
    Rule(
        "lower",
        b"cookie",
        pattern(
            "cookie",
            r"(?i)cookie(?:\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\?[\"'])?"
            r"(\w[\w.-]{0,64}=[^\s;\"'\\]{8,4096}(?:; ?[\w.-]{1,64}(?:=[^\s;\"'\\]{0,4096})?){0,64})",
        ),
    ),
    Rule("raw", b"sig=", pattern("signature", r"[?&;]sig=([A-Za-z0-9%+/=_-]{24,200})", before=1)),
    Rule("lower", b" -", _read_option),
    Rule("lower", b"net user", _judged("password", rf"net[ ]user[ ]\S{{1,64}}+[ ]{_WORD}")),
    Rule("lower", b"identified by", _judged("password", rf"identified[ ]by[ ](?:password[ ])?{_WORD}")),
    Rule(
        "lower",
        b"echo ",
        _judged("password", rf"echo[ ][\"']?(?:[\w.-]{{1,64}}:)?{_WORD}[\"']?[ ]?\|[ ]?(?:sudo[ ]-S|chpasswd)"),
    ),
)
