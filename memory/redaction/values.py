"""What is a secret under a name: the kinds that names of members imply, and how a value is judged."""

import re
from collections import Counter
from enum import Enum
from functools import lru_cache
from math import log2
from typing import Any

from memory.redaction.spans import TAKEN


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
    bare = value.strip().rstrip(".,!?")
    digits = 0 if kind == "secret" else sum(map(str.isdigit, value))
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
    if len(value) < 8 or len(value.split(None, 1)) > 1:
        return False
    digits = sum(map(str.isdigit, value))
    sample = value[:64]
    bits = -sum(n / len(sample) * log2(n / len(sample)) for n in Counter(sample).values())
    if not digits or digits == len(value):
        # Without digits only long text of mixed case is believed: shorter ones are words or names.
        return len(value) >= 24 and bits >= 3.5 and not digits and not value.islower()
    return bits >= (2.5 if len(value) < 16 else 3.0)


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
    base = word.rstrip("0123456789")
    kind = _SECRET_MEMBERS.get(base, "")
    if not kind and base.endswith(_SUFFIXES) and not base.endswith(_PAGING):
        kind = "token" if base.endswith("token") else "password" if "pass" in base else "secret"
    return kind, len(name) <= 24 and word.isalpha()


def find_named_kind(item: dict[Any, Any]) -> str:
    """Return the kind of `value` in `{"name": "Authorization", "value": …}`, or ""."""
    if item.keys().isdisjoint(NAME_MEMBERS):
        return ""
    for name in NAME_MEMBERS:
        if isinstance(given := item.get(name), str) and (kind := read_name(given)[0]):
            return kind
    return ""
