"""Equal requests written equally, by the JSON Canonicalization Scheme (RFC 8785), and their keyed hash (A5)."""

import hashlib
import hmac
import math
from collections.abc import Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from django.conf import settings


def canonical_json(value: Any) -> bytes:
    """Write a JSON value in canonical form.

    Equal values give equal bytes: member names are sorted by UTF-16 code units, escapes are minimal, 1.0 is 1 and 1e2
    is 100. RFC 8785 stops at integers beyond 2^53; here all their digits are kept, because agents send
    64-bit ids, and two ids that differ in the last digit are two ids.

    Raises ValueError for values that are not JSON: NaN, infinities, lone surrogates, other types.
    """
    return _text(value).encode("utf-8")


def canonical_request(
    *,
    method: str,
    route: str,
    arguments: Iterable[tuple[str, str]] = (),
    query: Iterable[tuple[str, str]] = (),
    body: bytes = b"null",
) -> bytes:
    """Write a request in canonical form.

    Args:
        route: the URL pattern; `arguments` are its values in the path.
        body: in canonical form.
    """
    # The body is in canonical form already; to parse it again for one list would double the work.
    head = canonical_json([method, route, sorted(map(list, arguments)), sorted(map(list, query))])
    return head[:-1] + b"," + body + b"]"


def fingerprint(canonical: bytes, *, secret: str | None = None) -> bytes:
    """Hash a canonical request with a secret key, so that a guessed body cannot be tested against a stored digest.

    `secret` is the settings' SECRET_KEY by default.
    """
    key = hmac.digest((secret or settings.SECRET_KEY).encode(), b"erl idempotency fingerprint 1", hashlib.sha256)
    return hmac.digest(key, canonical, hashlib.sha256)


def is_same_fingerprint(stored: bytes, canonical: bytes) -> bool:
    """Tell whether a stored fingerprint is of this request, made with the current or an earlier SECRET_KEY."""
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(hmac.compare_digest(stored, fingerprint(canonical, secret=secret)) for secret in secrets)


def _text(value: Any) -> str:
    match value:
        case str():  # the commonest first
            return encode_basestring(value)
        case dict():
            # Only outside of ASCII does the order of UTF-16 differ from Python's, and encoding each name is slow.
            is_ascii = "".join(value).isascii()
            names = sorted(value) if is_ascii else sorted(value, key=lambda name: name.encode("utf-16-be"))
            return "{" + ",".join([f"{encode_basestring(name)}:{_text(value[name])}" for name in names]) + "}"
        case list() | tuple():
            return "[" + ",".join([_text(item) for item in value]) + "]"
        case None:
            return "null"
        # Before int: True and False are integers to Python.
        case True:
            return "true"
        case False:
            return "false"
        case int():
            # `int()` because a subclass may write itself differently, as an IntEnum does.
            return str(int(value))
        case float():
            return _number(value)
        case _:
            raise ValueError(f"{type(value).__name__} is not JSON")


def _number(value: float) -> str:
    """Write a double as ECMAScript does (Number::toString, which RFC 8785 §3.2.2.3 prescribes)."""
    if not math.isfinite(value):
        raise ValueError("JSON has no infinities and no NaN")
    if value == 0:
        return "0"
    sign, digit_tuple, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + int(exponent)  # the place of the decimal point, counted from the first digit
    # ECMAScript writes plain digits below 10^21 and down to 10^-6, and an exponent outside.
    if 0 < point <= 21:
        text = digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
        text = f"{mantissa}e{point - 1:+d}"
    return f"-{text}" if sign else text
