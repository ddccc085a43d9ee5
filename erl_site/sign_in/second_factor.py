"""One-time codes for the admin: enrolment, verification, and backup codes for a lost phone."""

import secrets
import time
from base64 import b32encode
from binascii import unhexlify
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import segno
import structlog
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.http import HttpRequest
from django_otp import DEVICE_ID_SESSION_KEY, login
from django_otp.models import Device
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from django_otp.util import random_hex

from memory.sealing import SealedWithLostKey, last_release_may_run, needs_sealing, seal, unseal

log = structlog.get_logger(__name__)

BACKUP_CODES = 10
_KEY = "second_factor_secret"  # in the session, until its device is confirmed
_QUIET_ZONE = 4  # white modules that scanners need around the code


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A QR code as one path of an SVG, `size` modules wide."""

    path: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCheck:
    """The result of checking a code. `retry_at` is set if the next try must wait until then."""

    device: Device | None
    retry_at: datetime | None = None


def is_verified(request: HttpRequest) -> bool:
    """Return whether this session passed the second factor with a device that still exists."""
    device_id = request.session.get(DEVICE_ID_SESSION_KEY)
    device = Device.from_persistent_id(device_id) if device_id else None
    return device is not None and device.confirmed and device.user_id == request.user.pk


def find_device(user: AbstractBaseUser) -> TOTPDevice | None:
    """Return the user's confirmed authenticator app, whose key is sealed, or None."""
    return TOTPDevice.objects.filter(user=user, confirmed=True).first()


def start_enrolment(request: HttpRequest) -> TOTPDevice:
    """Return a device to confirm in this session, with a new secret.

    A secret is never shown twice: someone else may have the password, or this session, and have seen it.
    """
    key = random_hex(20)
    request.session[_KEY] = key if last_release_may_run() else seal(key)
    return _new_device(request)


def spell_secret(device: TOTPDevice) -> str:
    """Return the secret for manual entry: base 32 in groups of four."""
    return _group(b32encode(device.bin_key).decode().rstrip("="))


def draw_code(device: TOTPDevice) -> Picture:
    """Draw the QR code for an authenticator app."""
    rows = segno.make(device.config_url, error="m", micro=False).matrix
    path = "".join(
        f"M{x + _QUIET_ZONE} {y + _QUIET_ZONE}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, is_dark in enumerate(row)
        if is_dark
    )
    return Picture(path=path, size=len(rows) + 2 * _QUIET_ZONE)


def confirm_enrolment(request: HttpRequest, code: str) -> list[str]:
    """Confirm the device of this session if the code is right.

    Returns:
        the backup codes, which cannot be shown again; none if the code is wrong, or there is a device by now.
    """
    code = _normalise(code)
    if _KEY not in request.session or not (code.isascii() and code.isdigit()):
        return []
    device = _new_device(request)
    totp = TOTP(device.bin_key)
    totp.time = time.time()
    if not totp.verify(int(code), device.tolerance):
        return []
    with transaction.atomic():
        user = (
            get_user_model()._default_manager.select_for_update().get(pk=request.user.pk or 0)
        )  # one session at a time
        if find_device(user) is not None:
            return []
        # So that this code cannot be used again.
        device.last_t, device.drift = totp.t(), totp.drift
        device.key = request.session[_KEY]
        device.save()
        codes = _make_backup_codes(user)
    del request.session[_KEY]
    login(request, device)
    # A new key for the session: one that others know from before is of no use.
    request.session.cycle_key()
    log.info("second_factor_enrolled", user_id=device.user_id)
    return codes


def check_code(request: HttpRequest, code: str) -> CodeCheck:
    """Verify the session with a code from the app or a backup code. Wrong codes delay the next try."""
    code = _normalise(code)
    is_backup = not (code.isascii() and code.isdigit())
    model = StaticDevice if is_backup else TOTPDevice
    retry_at = None
    # The rows are locked, so that guesses made at once are counted one after the other.
    with transaction.atomic():
        for device in model.objects.filter(user_id=request.user.pk, confirmed=True).select_for_update():
            allowed, why_not = device.verify_is_allowed()
            if not allowed:
                retry_at = (why_not or {}).get("locked_until")
            elif _verify(device, code):
                break
        else:
            device = None
    if device is None:
        log.warning("second_factor_failed", user_id=request.user.pk)
        return CodeCheck(device=None, retry_at=retry_at)
    login(request, device)
    request.session.cycle_key()
    return CodeCheck(device=device)


def _verify(device: TOTPDevice | StaticDevice, code: str) -> bool:
    if isinstance(device, StaticDevice):
        return bool(device.verify_token(hash_code(code)))
    try:
        key = unhexlify(unseal(device.key))
    except SealedWithLostKey:
        log.error("second_factor_unreadable", user_id=device.user_id)  # backup codes are hashes and still work
        return False
    # As `TOTPDevice.verify_token` does, which reads the key as it is stored.
    totp = TOTP(key, device.step, device.t0, device.digits, device.drift)
    totp.time = time.time()
    if not totp.verify(int(code), device.tolerance, device.last_t + 1):
        device.throttle_increment()
        return False
    device.last_t, device.drift = totp.t(), totp.drift
    device.throttle_reset(commit=False)
    device.set_last_used_timestamp(commit=False)
    device.save()
    return True


def seal_authenticator_apps() -> int:
    """Seal the keys that are not sealed with the current ERL_SECRET_KEY; return how many were."""
    if last_release_may_run():
        return 0
    count = 0
    for pk, key in TOTPDevice.objects.values_list("pk", "key").iterator():
        if needs_sealing(key):
            # Conditional: a person may set up another app at this moment.
            count += TOTPDevice.objects.filter(pk=pk, key=key).update(key=seal(unseal(key)))
    return count


def count_backup_codes(user: AbstractBaseUser) -> int:
    """Return how many backup codes the user has left."""
    return int(StaticToken.objects.filter(device__user=user).count())


def forget_devices(user: AbstractBaseUser) -> int:
    """Remove a user's second factor; they set it up again at the next sign-in."""
    count = 0
    for model in (TOTPDevice, StaticDevice):
        _, by_model = model.objects.filter(user=user).delete()
        count += by_model.get(model._meta.label, 0)
    log.info("second_factor_reset", user_id=user.pk)
    return count


def hash_code(code: str) -> str:
    """Return the stored hash of a backup code: 64 bits, from 80 random bits."""
    return sha256(_normalise(code).encode()).hexdigest()[:16]


def _new_device(request: HttpRequest) -> TOTPDevice:
    return TOTPDevice(user=request.user, name="authenticator app", key=unseal(request.session[_KEY]))


def _make_backup_codes(user: Any) -> list[str]:
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="backup codes")
    codes = [b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(BACKUP_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=hash_code(code)) for code in codes)
    return [_group(code) for code in codes]


def _group(text: str) -> str:
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def _normalise(code: str) -> str:
    return "".join(code.split()).lower()
