"""One-time codes for the admin: showing the secret once, checking codes, and backup codes for a lost phone."""

import secrets
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import segno
import structlog
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.http import HttpRequest
from django_otp import DEVICE_ID_SESSION_KEY, devices_for_user, login
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

log = structlog.get_logger(__name__)

BACKUP_CODES = 10
_QUIET_ZONE = 4  # modules of white that readers need around the code


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A QR code as one path of an SVG, `size` modules wide."""

    path: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """The result of trying a code. `retry_at` is set if the next try has to wait until then."""

    device: Device | None
    retry_at: datetime | None = None


def is_verified(request: HttpRequest) -> bool:
    """Tell whether this session has passed the second factor with a device the person still has."""
    device_id = request.session.get(DEVICE_ID_SESSION_KEY)
    device = Device.from_persistent_id(device_id) if device_id else None
    return device is not None and device.confirmed and device.user_id == request.user.pk


def find_device(user: AbstractBaseUser) -> TOTPDevice | None:
    """Return the user's confirmed authenticator app, or None."""
    return TOTPDevice.objects.filter(user=user, confirmed=True).first()


def start_enrolment(user: AbstractBaseUser) -> TOTPDevice:
    """Return the device to be confirmed. Its secret stays the same until it is, so that a reload changes nothing."""
    device, _ = TOTPDevice.objects.get_or_create(user=user, confirmed=False, defaults={"name": "authenticator app"})
    return device


def spell_secret(device: TOTPDevice) -> str:
    """Return the secret as apps take it by hand: base 32 in groups of four."""
    return _grouped(b32encode(device.bin_key).decode().rstrip("="))


def draw_code(device: TOTPDevice) -> Picture:
    """Draw what an authenticator app scans."""
    rows = segno.make(device.config_url, error="m", micro=False).matrix
    path = "".join(
        f"M{x + _QUIET_ZONE} {y + _QUIET_ZONE}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, is_dark in enumerate(row)
        if is_dark
    )
    return Picture(path=path, size=len(rows) + 2 * _QUIET_ZONE)


def confirm_device(request: HttpRequest, device: TOTPDevice, code: str) -> list[str]:
    """Confirm the device if the code is right; return the backup codes, which are shown only now, or nothing."""
    with transaction.atomic():
        # Locked, so that two requests cannot use one code; the failed try is counted, so nothing is raised here.
        locked = TOTPDevice.objects.select_for_update().get(pk=device.pk)
        if not locked.verify_token(_bare(code)):
            return []
        locked.confirmed = True
        locked.save(update_fields=["confirmed"])
        codes = _make_backup_codes(locked.user)
    login(request, locked)
    request.session.cycle_key()
    log.info("second_factor_enrolled", user_id=locked.user_id)
    return codes


def check_code(request: HttpRequest, code: str) -> Checked:
    """Let the session pass with a code of the app or a backup code. Wrong ones slow down the next try."""
    code = _bare(code)
    is_backup = not (code.isascii() and code.isdigit())
    wanted = StaticDevice if is_backup else TOTPDevice
    retry_at = None
    with transaction.atomic():
        for device in devices_for_user(request.user, for_verify=True):
            if not isinstance(device, wanted):
                continue
            allowed, why_not = device.verify_is_allowed()
            if not allowed:
                retry_at = (why_not or {}).get("locked_until")
            elif device.verify_token(hash_code(code) if is_backup else code):
                break
        else:
            device = None
    if device is None:
        log.warning("second_factor_failed", user_id=request.user.pk)
        return Checked(device=None, retry_at=retry_at)
    login(request, device)
    request.session.cycle_key()
    return Checked(device=device)


def count_backup_codes(user: AbstractBaseUser) -> int:
    """Return how many backup codes the user has left."""
    return int(StaticToken.objects.filter(device__user=user).count())


def forget_devices(user: AbstractBaseUser) -> int:
    """Remove the second factor of a user who lost it; the next sign-in sets it up again."""
    count = 0
    for model in (TOTPDevice, StaticDevice):
        _, by_model = model.objects.filter(user=user).delete()
        count += by_model.get(model._meta.label, 0)
    log.info("second_factor_reset", user_id=user.pk)
    return count


def hash_code(code: str) -> str:
    """Return what is kept of a backup code: 64 bits of its hash, of 80 random bits."""
    return sha256(_bare(code).encode()).hexdigest()[:16]


def _make_backup_codes(user: Any) -> list[str]:
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="backup codes")
    codes = [b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(BACKUP_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=hash_code(code)) for code in codes)
    return [_grouped(code) for code in codes]


def _grouped(text: str) -> str:
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def _bare(code: str) -> str:
    return "".join(code.split()).lower()
