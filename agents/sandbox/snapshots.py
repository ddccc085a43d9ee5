"""Seal the state of a stopped tool, so that it can be stored and goes on in another process.

A snapshot is read by native code that trusts it, so it is loaded only with our own seal (HMAC-SHA-256 under a key made
from ERL_SECRET_KEY) and only by the version of the interpreter that made it. A snapshot of another version is not
loaded: the tool is replayed from its start with the journalled answers.
"""

import hashlib
import hmac

import pydantic_monty
from django.conf import settings
from django.utils.crypto import salted_hmac

from agents.sandbox.errors import InvalidSnapshot, SnapshotOfOtherVersion

_MAGIC = b"ERLTOOL1"
_SEAL_BYTES = hashlib.sha256().digest_size


def seal(state: bytes, *, bound_to: bytes) -> bytes:
    """Return a snapshot of this state. It can be opened only with the same `bound_to`."""
    version = pydantic_monty.__version__.encode()
    body = _MAGIC + bytes([len(version)]) + version + state
    return _sign(body, bound_to, settings.SECRET_KEY) + body


def unseal(snapshot: bytes, *, bound_to: bytes) -> bytes:
    """Return the state in a snapshot.

    Raises:
        InvalidSnapshot: it was changed, belongs to another call, or was sealed elsewhere.
        SnapshotOfOtherVersion: another version of the interpreter made it.
    """
    found, body = snapshot[:_SEAL_BYTES], snapshot[_SEAL_BYTES:]
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    if not body.startswith(_MAGIC) or not any(hmac.compare_digest(found, _sign(body, bound_to, key)) for key in keys):
        raise InvalidSnapshot("The snapshot of this tool was changed or was made elsewhere. It is not loaded.")
    length = body[len(_MAGIC)]
    start = len(_MAGIC) + 1
    version, state = body[start : start + length], body[start + length :]
    if version != pydantic_monty.__version__.encode():
        raise SnapshotOfOtherVersion(
            f"The snapshot was made by version {version.decode()} of the interpreter, and this is "
            f"{pydantic_monty.__version__}. Replay the tool from its start."
        )
    return state


def _sign(body: bytes, bound_to: bytes, key: str) -> bytes:
    return salted_hmac("agents.sandbox", bound_to + b"\x00" + body, secret=key, algorithm="sha256").digest()
