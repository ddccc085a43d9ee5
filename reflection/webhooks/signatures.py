"""Secrets and signatures after Standard Webhooks (https://www.standardwebhooks.com, version 1.0.0).

A secret is made from ERL_SECRET_KEY and a random salt, and stored sealed, so that neither the database nor a backup of
it can sign.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from django.conf import settings

from memory.sealing import SealedWithLostKey, seal, unseal
from reflection.webhooks.models import WebhookSecret

SALT_BYTES = 24
FINGERPRINT_CHARACTERS = 8


def make_salt() -> str:
    """Return a new random salt."""
    return secrets.token_hex(SALT_BYTES)


def derive_secret(salt: str, *, key: str | None = None) -> bytes:
    """Return the 32 bytes of the secret with a salt."""
    return hmac.new((key or settings.SECRET_KEY).encode(), f"erl.webhook:{salt}".encode(), hashlib.sha256).digest()


def spell_secret(secret: bytes) -> str:
    """Return a secret as people copy it: whsec_ and Base64."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def fingerprint_of(secret: bytes) -> str:
    """Return what a secret is recognised by; it gives nothing of it away."""
    return hashlib.sha256(b"fingerprint:" + secret).hexdigest()[:FINGERPRINT_CHARACTERS]


def seal_secret(secret: bytes) -> str:
    """Return a secret as it is stored."""
    return seal(base64.b64encode(secret).decode())


def find_secret(row: WebhookSecret) -> bytes | None:
    """Return a secret, or None if no ERL_SECRET_KEY that is set opens it."""
    if row.sealed is not None:
        try:
            return base64.b64decode(unseal(row.sealed))
        except SealedWithLostKey:
            return None
    # Release 1.0.0 stored only the salt.
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        secret = derive_secret(row.salt, key=key)
        if fingerprint_of(secret) == row.fingerprint:
            return secret
    return None


def sign(message_id: str, timestamp: int, body: bytes, *, with_secrets: Iterable[bytes]) -> str:
    """Return the header webhook-signature: one signature for each secret, separated by spaces."""
    # The form of Standard Webhooks: id, time and body, so that none can be exchanged alone.
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in with_secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
