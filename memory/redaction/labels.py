"""Secrets recognised by the name before them in a text: password=…, "api_key": "…", Authorization: Bearer …"""

import re
from collections.abc import Callable
from functools import partial

from memory.redaction.spans import REST, TAKEN, SecretRule, SecretSpan, View, pattern
from memory.redaction.values import Said, is_secret

_QUOTE = r"(?:\\{0,7}[\"'`])"
_QUOTED = re.compile(_QUOTE)
# How a value follows its name, in lower-case ASCII, Q for a quote. The first that leads to a secret counts.
_SET = (
    r"Q?\]?[ \t]{0,3}(?::[ ](?:str|string)[ ]?)?(?::=|=>|==|=)[ \t]{0,3}",  # password = X, ["password"] = X
    r"\(@?(?=Q)",  # setPassword("X")
    r"Q[ ,;{]{1,4}Q?(?:value|default)Q?[ ]?[:=][ ]?(?=Q)",  # name="password" value="X"
    # <password>X</password>, <key>password</key> <string>X</string>
    r"(?:[ ][\w:.-]{1,40}=[\"'][^\"'<>\n?]{0,100}[\"']){0,4}[ ]?>(?:<!\[cdata\[)?(?=[^<>\]\n]{1,128}(?:\]\]>)?</)",
    r"</\w{1,20}>\s{0,20}<\w{1,20}>(?=[^<>\n]{1,128}</)",
)
_TOLD = (
    # password: X, "password": {"plain": X}, "passwords": [X, **password:** X
    r"(?:Q|\*\*)?[ \t]{0,3}:(?:\*\*)?[ \t]{0,3}(?:\{[ ]?Q?\w{1,20}Q?[ ]?:[ ]?|\[[ ]?|&\w{1,20}[ ]|@)?",
    r"(?:[ ](?:for|of)[ ][^\s?]{1,64})?[ ](?:is|was)[ ]?:?[ ](?=\S)",  # the secret of ana is X
)
_NEAR = (
    r"Q,[ ]{0,3}(?=Q)",  # define("PASSWORD", "X")
    r"Q?[ \t]{0,3}:[ \t]{0,3}(?:[|>][+-]?)?[ \t]{0,3}\r?\n[ \t]{0,40}(?:-[ \t]{1,3})?",  # on the next line
    # the password for ana should be changed to X, password -> X
    (
        r"(?:(?:[ ](?:for|of)[ ][^\s?]{1,64})?"
        r"(?:['?]s|(?:[ ](?:is|was|should|must|be|has|been|reset|set|changed|now)){1,4}))?"
        r"(?:[ ](?:to|as|lautet|est|es))?[ ]?(?:[:=]|->|-)?[ \t]{1,3}"
    ),
)
_INTRODUCTIONS = tuple(
    (said, re.compile(introduction.replace("Q", _QUOTE).encode()))
    for said, introductions in ((Said.SET, _SET), (Said.TOLD, _TOLD), (Said.NEAR, _NEAR))
    for introduction in introductions
)
_OPTION = re.compile(rb"(?<![^\s\"'(\[,])--?[\w-]{0,30}\Z")
_BLANKS = re.compile(rb"[ \t]{1,3}")
_TAIL = re.compile(rb"[\w-]{0,24}")
_BARE = re.compile(r"[^\s\"'`\\,;&<>(){}\[\]|]{4,64}")
_REDACTED = re.compile(rf"{_QUOTE}?{TAKEN}")
_LONGEST_QUOTED = 512
_LINE_END = re.compile(r"[\r\n\x1e]")
# Properties of a secret rather than the secret: token_id, secret_name
_NOT_ITSELF = tuple(b"id ids name type count limit path file url uri length expires expiry".split())


def _read_named(
    view: View, position: int, *, kind: str, name: re.Pattern[bytes], after: tuple[bytes, ...]
) -> SecretSpan | None:
    """Read the secret that follows a name.

    Args:
        name: the name, which starts at the position.
        after: words of which one comes before the name, unless there are none.
    """
    lower = view.lower
    if not (name_match := name.match(lower, position)):
        return None
    if after and not lower[max(0, position - 16) : position].rstrip(b"-_ ").endswith(after):
        return None
    tail = _TAIL.match(lower, name_match.end())
    end = tail.end() if tail else name_match.end()
    if lower.endswith(_NOT_ITSELF, name_match.end(), end):
        return None
    for standing, introduction in _INTRODUCTIONS:
        if (standing is Said.NEAR and kind != "password") or not (led := introduction.match(lower, end)):
            continue
        if span := _read_value(view, led.end(), kind=kind, said=standing):
            return span
        if _REDACTED.match(view.text, led.end()):
            return None
    # A blank introduces a value only behind an option: "--password X", not "password X".
    if (blanks := _BLANKS.match(lower, end)) and _OPTION.search(lower, max(0, position - 32), position):
        return _read_value(view, blanks.end(), kind=kind, said=Said.SET)
    return None


def _read_value(view: View, position: int, *, kind: str, said: Said) -> SecretSpan | None:
    """Read a quoted value or a word, and return it if it is a secret."""
    text = view.text
    if quote := _QUOTED.match(text, position):
        position = quote.end()
        said = Said.SET if said is Said.TOLD else said
        # Bounded, so that a quote that never closes does not cost a search of the whole text.
        close = text.find(quote[0], position, position + _LONGEST_QUOTED)
        if close >= 0 and not _LINE_END.search(text, position, close):
            value = text[position:close]
            return SecretSpan(position, close, kind) if is_secret(value, kind=kind, said=said) else None
    word = _BARE.match(text, position)
    if word and is_secret(word[0], kind=kind, said=said):
        rest = REST.match(text, word.end())
        return SecretSpan(position, rest.end() if rest else word.end(), kind)
    return None


def _judged(kind: str, regex: str) -> Callable[[View, int], SecretSpan | None]:
    return pattern(kind, f"(?i){regex}", judge=partial(is_secret, kind=kind, said=Said.SET))


def _named(anchor: str, kind: str, name: str = "", after: str = "") -> SecretRule:
    compiled = re.compile((name or anchor).encode())
    return SecretRule(
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


def _read_option(view: View, position: int) -> SecretSpan | None:
    """Read the password in a short option of a well-known command."""
    if position + 2 >= len(view.lower) or not (patterns := _OPTIONS.get(view.lower[position + 2])):
        return None
    commands, option = patterns
    begin = max(0, position - _COMMAND_LENGTH)
    begin = max(begin, *(view.text.rfind(border, begin, position) for border in ("\n", TAKEN)))
    if not commands.search(view.lower, begin, position) or not (match := option.match(view.text, position)):
        return None
    joined = match[0][-len(match[1]) - 1] != " "  # mysql -p shop: the name of the database
    standing = Said.SET if joined else Said.NEAR
    return SecretSpan(*match.span(1), "password") if is_secret(match[1], kind="password", said=standing) else None


RULES = (
    _named("pass", "password", r"pass(?:w|phrase|code|e(?![a-z])|(?![a-z]))"),
    _named("pw", "password", r"pwd|(?<![a-z0-9])pw(?![a-z0-9])"),
    _named("contrase", "password", r"contrase\S{1,2}a"),
    _named("senha", "password"),
    _named("secret", "secret"),
    _named("token", "secret"),
    _named("credential", "secret"),
    # "key" alone means nothing: "keyboard", "primary key"
    _named("key", "secret", after="api access private secret auth account encryption signing shared master"),
    _named("pin", "code", r"(?<![a-z0-9])pin(?: code)?(?![a-z])"),
    _named("code", "code", after="verification security access time authentication authorization login 2fa"),
    SecretRule(
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
        SecretRule("lower", scheme, _judged("authorization", r"(?:bearer|basic)[ \t]{1,3}([A-Za-z0-9._~+/-]{16,128})"))
        for scheme in (b"bearer", b"basic")
    ),
    SecretRule(
        "lower",
        b"cookie",
        pattern(
            "cookie",
            r"(?i)cookie(?:\\?[\"'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\?[\"'])?"
            r"(\w[\w.-]{0,64}=[^\s;\"'\\]{8,4096}(?:; ?[\w.-]{1,64}(?:=[^\s;\"'\\]{0,4096})?){0,64})",
        ),
    ),
    *(
        SecretRule("raw", mark, _judged("secret", r"[?&;](?:sig|key)=([A-Za-z0-9%+/=_-]{8,200})"))
        for mark in (b"?", b"&", b";")
    ),
    SecretRule("lower", b" -", _read_option),
    SecretRule("lower", b"net user", _judged("password", rf"net[ ]user[ ]\S{{1,64}}+[ ]{_WORD}")),
    SecretRule("lower", b"identified by", _judged("password", rf"identified[ ]by[ ](?:password[ ])?{_WORD}")),
    SecretRule(
        "lower",
        b"echo ",
        _judged("password", rf"echo[ ][\"']?(?:[\w.-]{{1,64}}:)?{_WORD}[\"']?[ ]?\|[ ]?(?:sudo[ ]-S|chpasswd)"),
    ),
)
