"""Families of hostile texts, and how the time to redact one grows with its length.

Each family repeats a unit that makes some rule look far, find much, or find what it has to reject.
"""

from collections.abc import Sequence
from math import log
from time import process_time

from memory.redaction import redact_text

_UNITS = {
    "one letter": "a",
    "one digit": "7",
    "blanks": " ",
    "typeset blanks": "\u00a0\u202f",
    "colons": ":",
    "at signs": "@",
    "plus signs": "+",
    "backslashes": "\\",
    "percent signs": "%",
    "new lines": "\n",
    "phones, international": "+12345678",
    "phones, American": "(212) 555-1234",
    "phones, American, blank between": "212-555-1234 ",
    "phones, typeset": "212\u00a0555\u20111234\u00a0",
    "phones, named": "phone: 0301234567 ",
    "phones, named, no number": "phone:1 ",
    "half phones": "(212) 555-",
    "cards": "4111 1111 1111 1111 ",
    "cards in one": "4111111111111111",
    "no cards": "4111 1111 1111 1112 ",
    "groups of four": "4111 ",
    "social security": "078-05-1120 ",
    "social security, joined": "078-05-1120-",
    "IBANs": "DE89 3704 0044 0532 0130 00 ",
    "no IBANs": "DE12 3704 ",
    "half IBANs": "DE12",
    "e-mails": "ana@example.com ",
    "e-mails, joined": "ana@example.com.",
    "e-mails, half": "ana@",
    "e-mails, domains": "a@a.",
    "e-mails, long": "a" * 70 + "@" + "b" * 70 + ".com ",
    "e-mails, percent-encoded": "ana%40example.com ",
    "e-mails, spelled out": "ana (at) example (dot) com ",
    "passwords": "password=Wint3rfell ",
    "passwords, joined": "password=Wint3rfell",
    "passwords, nested": '{"password":',
    "passwords, half-open quotes": 'password="',
    "passwords, escaped quotes": 'password=\\\\\\"',
    "passwords, kinds of quotes": "pwd='pwd=\"pwd=`",
    "passwords, long": "password=" + "x" * 300,
    "passwords, words": "password for ",
    "passwords, elements": "<password>",
    "passwords, next line": "password:\n ",
    "passwords, options": " --password",
    "secrets, colons": "token::::",
    "secrets, uuid": "secret=550e8400-e29b-41d4-a716-446655440000 ",
    "keys": "api key: ",
    "commands": "mysql -u root -p",
    "commands, without end": "curl ",
    "commands, options": "curl -u a:",
    "basic": "basic ",
    "authorization": "Authorization: Bearer ",
    "cookies": "cookie: aaaaaaaaa=aaaaaaaaa; ",
    "cookies, joined": "cookie:a=",
    "signatures": "?sig=",
    "addresses": "://",
    "addresses, half a password": "://a:",
    "addresses with a password": "https://ana:Wint3rfell@example.com/ ",
    "private keys": "-----BEGIN PRIVATE KEY-----",
    "private keys, dashes": "-----BEGIN ",
    "private keys, closed": "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n",
    "web tokens": "eyJhbGciOiJIUzI1NiJ9.",
    "web tokens, half": " eyJaaaaaaaaaaaaaaaaaaaa",
    "tokens": "ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5F6g7H8 ",
    "tokens, joined": "sk-aaaaaaaaaaaaaaaa_",
    "tokens, prefixes": "xoxb-",
    "tokens, dots": "aaaaaaaaaaaaaaaaaaaa.",
    "tokens, different": "",
    "marks of tokens": "a1Q~:AA.atlasv1.-us",
    "base64": "cGFzc3dvcmQ9V2ludDNyZmVsbA== ",
    "base64, one run": "cGFzc3dvcmQ9V2ludDNyZmVs",
    "base64, a plain text": "Y29tbW9uIHdvcmRzIG9ubHkg",
    "base64, joined by slashes": "cGFzc3dvcmQ9V2ludDNy/",
    "percent-encoded phones": "%2B12345678",
    "percent-encoded passwords": "password%3DWint3rfell%26",
    "percent-encoded percent signs": "%25",
    "entities": "&#64;&quot;",
    "placeholders": "[REDACTED:phone:00000000]",
    "placeholders, half": "[REDACTED:",
    "placeholders and phones": "[REDACTED:phone:00000000]+12345678",
    "separators": "\x1e\x1f",
    "letters that become ASCII": "to\u212aen=\u0130",
}


def make_text(family: str, length: int) -> str:
    """Return a text of the family, about `length` characters long."""
    unit = _UNITS[family]
    if not unit:  # runs that differ, so that nothing can be remembered
        return " ".join(f"{number:x}-gh_sk_{number:020}" for number in range(length // 32))
    return unit * (length // len(unit))


FAMILIES = tuple(_UNITS)


def growth(family: str, lengths: Sequence[int], *, rounds: int) -> tuple[float, float]:
    """Return the exponent of the time's growth with the length (least squares), and the seconds for the longest.

    The time is that of this process, the least of a few rounds, since other processes only ever add to it.
    """
    texts = [make_text(family, length) for length in lengths]
    times = [float("inf")] * len(texts)
    for _ in range(rounds):
        for number, text in enumerate(texts):
            start = process_time()
            redact_text(text)
            times[number] = min(times[number], process_time() - start)
    xs, ys = [log(length) for length in lengths], [log(max(each, 1e-6)) for each in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return slope, times[-1]
