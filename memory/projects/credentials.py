"""What an API key looks like: `erl_live_<8 prefix>_<43 secret>_<6 checksum>` (reliability D9).

The prefix finds the row, the secret proves the holder, and the checksum lets scanners and our own redactor tell a
real key from a look-alike without asking anybody.
"""

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_TOKEN = re.compile(r"erl_live_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Credential:
    """The parts of a key as its holder sends it. Has no repr, so that it cannot end up in a log."""

    prefix: str
    secret: str

    @property
    def token(self) -> str:
        body = f"erl_live_{self.prefix}_{self.secret}"
        return f"{body}_{_checksum(body)}"

    @property
    def secret_sha256(self) -> str:
        """What is stored. One round is enough: the secret has 256 random bits, there is nothing to guess."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def mint_credential() -> Credential:
    """Make a new credential from the system's randomness (43 of 62 symbols are 256 bits)."""
    return Credential(prefix=_symbols(8), secret=_symbols(43))


def parse_token(token: str) -> Credential | None:
    """Take a key apart, or return None where its form or checksum is wrong."""
    match = _TOKEN.fullmatch(token)
    if match is None or _checksum(token.rpartition("_")[0]) != match[3]:
        return None
    return Credential(prefix=match[1], secret=match[2])


def _symbols(count: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(count))


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(6):  # 62**6 is more than 2**32
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
