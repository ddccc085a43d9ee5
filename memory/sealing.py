"""Secrets that have to be kept in the database are sealed with ERL_SECRET_KEY: a backup alone does not reveal them.

The keys of ERL_SECRET_KEY_FALLBACKS still open what they sealed. Periodic work seals it again with the current key, and
seals what an earlier release stored as it was.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memory.errors import MemoryAppError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

SEALED = "sealed:"
_ROLL_OUT = timedelta(days=1)
_FIRST, _SEALING = "0001_initial", "_sealing"


class SealedWithLostKey(MemoryAppError):
    """The key that sealed a text is neither ERL_SECRET_KEY nor among the fallbacks."""


def seal(text: str) -> str:
    """Return a text encrypted and authenticated with the current key."""
    return SEALED + _fernet(settings.SECRET_KEY).encrypt(text.encode()).decode()


def unseal(text: str) -> str:
    """Return what was sealed; a text that is not sealed is returned as it is.

    Raises:
        SealedWithLostKey: no key that is known opens it.
    """
    from cryptography.fernet import InvalidToken, MultiFernet

    if not text.startswith(SEALED):
        return text
    keys = MultiFernet([_fernet(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])
    try:
        return keys.decrypt(text.removeprefix(SEALED)).decode()
    except InvalidToken:
        raise SealedWithLostKey("This was sealed with an ERL_SECRET_KEY that is no longer set.") from None


def needs_sealing(text: str) -> bool:
    """Tell whether a stored text is not sealed, or sealed with a former key that is still known."""
    from cryptography.fernet import InvalidToken

    if not text.startswith(SEALED):
        return True
    try:
        _fernet(settings.SECRET_KEY).decrypt(text.removeprefix(SEALED))
    except InvalidToken:
        return not is_lost(text)
    return False


def is_lost(text: str) -> bool:
    """Tell whether a text was sealed with a key that is not set any more."""
    try:
        unseal(text)
    except SealedWithLostKey:
        return True
    return False


def last_release_may_run() -> bool:
    """Tell whether processes of the release before sealing may still run, which cannot read what is sealed.

    That is within a day of its migration, unless the database was new then.
    """
    recorder = MigrationRecorder.Migration.objects.filter(app="memory")
    first = recorder.filter(name=_FIRST).values_list("applied", flat=True).first()
    sealing = recorder.filter(name__endswith=_SEALING).values_list("applied", flat=True).first()
    if first is None or sealing is None:
        return True
    was_new = sealing - first < timedelta(hours=1)
    return not was_new and timezone.now() < sealing + _ROLL_OUT


class SealedURLField(models.TextField[str, str]):
    """A URL whose path and query are a secret. The database has its host as it is, and the rest sealed.

    What no known key opens stays as it is stored: `is_sealed` tells, and saving it changes nothing.
    """

    def deconstruct(self) -> Any:
        # As the field it derives from, so that no migration knows this class.
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if value is None or not is_sealed(value):
            return value
        site, rest = _split(value)
        try:
            return site + unseal(rest.removeprefix("/"))
        except SealedWithLostKey:
            return value

    def get_prep_value(self, value: Any) -> Any:
        if not isinstance(value, str) or is_sealed(value):
            return super().get_prep_value(value)
        site, rest = _split(value)
        return f"{site}/{seal(rest)}"


def is_sealed(url: str) -> bool:
    """Tell whether the secret part of a URL is sealed."""
    return _split(url)[1].startswith(f"/{SEALED}")


def secret_part(stored: str) -> str:
    """Return the secret part of a URL as it is stored."""
    return _split(stored)[1].removeprefix("/")


def _split(url: str) -> tuple[str, str]:
    """Return scheme and host of a URL, and what follows them."""
    scheme, mark, rest = url.partition("://")
    host = rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]
    site = f"{scheme}{mark}{host}" if mark else ""
    return site, url[len(site) :]


def _fernet(key: str) -> "Fernet":
    # Loaded where a secret is sealed or read: most processes never do, and it would cost each of them 20 ms.
    from base64 import urlsafe_b64encode

    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"erl sealed text 1").derive(key.encode())
    return Fernet(urlsafe_b64encode(derived))
