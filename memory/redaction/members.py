"""Members of JSON objects whose names mean that their values are secret."""

from functools import lru_cache
from typing import Any

from memory.redaction.assignments import is_assigned_secret, is_entropic

_SECRET_MEMBERS = {
    "password": "password", "passwd": "password", "pwd": "password", "passphrase": "password", "passcode": "password",
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
_NAME_MEMBERS = ("name", "key", "field", "header", "label")
VALUE_MEMBERS = frozenset({"value", "text", "content"})
_FOR_COMPARISON = str.maketrans("", "", "-_ .")


@lru_cache(maxsize=4096)
def read_name(name: str) -> tuple[str, bool]:
    """Return the kind of secret a member of this name holds, or "", and whether the name is a plain word.

    Plain words, of letters and underscores, cannot be secrets themselves and need no search.
    """
    if len(name) > 64:
        return "", False
    word = name.translate(_FOR_COMPARISON).lower()
    kind = _SECRET_MEMBERS.get(word, "")
    if not kind and word.endswith(_SUFFIXES) and not word.endswith(_PAGING):
        kind = "token" if word.endswith("token") else "password" if "pass" in word else "secret"
    return kind, len(name) <= 24 and word.isalpha()


def find_named_kind(item: dict[Any, Any]) -> str:
    """Return the kind of `value` in `{"name": "Authorization", "value": …}`, or ""."""
    if item.keys().isdisjoint(_NAME_MEMBERS):
        return ""
    for name in _NAME_MEMBERS:
        if isinstance(given := item.get(name), str) and (kind := read_name(given)[0]):
            return kind
    return ""


def is_member_secret(value: str, *, kind: str) -> bool:
    """Return whether the value of a member of this kind is a secret rather than a blank, placeholder or plain word."""
    if not value.strip() or "[REDACTED:" in value:
        return False
    digits = sum(c.isdigit() for c in value)
    match kind:
        case "password":
            return is_assigned_secret(value, strong=True, stated=True)
        case "token":
            return is_entropic(value) or (len(value) >= 24 and " " not in value)
        case "phone":
            return 7 <= digits <= 15 and not any(c.isalpha() for c in value)
        case "card_code":
            return digits in (3, 4) and len(value) == digits
        case "card" | "iban":
            return digits >= 8 and len(value) <= 42
        case "national_id":
            return digits >= 6 and len(value) <= 20
        case _:
            return len(value) >= 8 and is_assigned_secret(
                value, strong=" " not in value or kind != "secret", stated=True
            )
