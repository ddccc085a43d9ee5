"""Admin sign-in: throttled guessing, expiring sessions, optional one-time codes."""

import re
import time
from base64 import b32decode
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

pytestmark = pytest.mark.django_db

LOGIN, HOME, SECOND = "/admin/login/", "/admin/", "/admin/second-factor/"
PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def fast_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def ana() -> Any:
    return get_user_model().objects.create_superuser("ana", password=PASSWORD)


@pytest.fixture
def with_codes(settings: Any) -> None:
    settings.ERL_ADMIN_OTP = True


def sign_in(client: Client, password: str = PASSWORD, name: str = "ana", **meta: Any) -> Any:
    return client.post(LOGIN, {"username": name, "password": password}, **meta)


def fail(client: Client, times: int, **options: Any) -> Any:
    return [sign_in(client, "guess", **options) for _ in range(times)][-1]


def code_of(device: TOTPDevice, steps: int = 0) -> str:
    """Return the code an app shows, `steps` half minutes from now."""
    totp = TOTP(device.bin_key, device.step, device.t0, device.digits, device.drift)
    totp.time = time.time() + steps * device.step
    return f"{totp.token():06d}"


def enrol(client: Client) -> tuple[TOTPDevice, list[str]]:
    client.get(SECOND)
    device = TOTPDevice.objects.get()
    page = client.post(SECOND, {"code": code_of(device)}).content.decode()
    return device, re.findall(r"<li><code>([a-z2-7 ]+)</code>", page)


def test_tenth_failure_locks_the_address_and_says_until_when(client: Client, ana: Any) -> None:
    assert fail(client, 9).status_code == 200

    locked = fail(client, 1)

    assert locked.status_code == 429
    assert "Try again at" in locked.content.decode()
    assert 890 <= int(locked.headers["Retry-After"]) <= 900
    assert sign_in(client).status_code == 429  # the right password neither


def test_wait_ends_as_announced_and_does_not_grow(client: Client, ana: Any) -> None:
    fail(client, 15)
    assert AccessAttempt.objects.get().failures_since_start == 10
    AccessAttempt.objects.update(attempt_time=AccessAttempt.objects.get().attempt_time - timedelta(minutes=15))

    assert sign_in(client).status_code == 302
    assert AccessAttempt.objects.count() == AccessLog.objects.count() == 0  # nothing is kept


def test_attacker_elsewhere_does_not_lock_out_the_user(client: Client, ana: Any) -> None:
    fail(client, 10, REMOTE_ADDR="203.0.113.9")

    assert sign_in(client, REMOTE_ADDR="198.51.100.4").status_code == 302


def test_guessing_one_name_from_many_addresses_is_throttled(client: Client, ana: Any) -> None:
    rows = [AccessAttempt(username="ana", ip_address=f"203.0.113.{n}", failures_since_start=9) for n in range(12)]
    AccessAttempt.objects.bulk_create(rows)

    assert sign_in(client).status_code == 429


@pytest.mark.parametrize(
    ("proxies", "forwarded", "status"),
    [
        (0, "198.51.100.1", 429),  # no proxy: the header is anybody's word
        (1, "6.6.6.6, 198.51.100.1", 302),  # ours saw another client
        (1, "198.51.100.1, 203.0.113.9", 429),  # what the guesser wrote himself does not help him
        (1, "nonsense", 429),
        (2, "203.0.113.9, 10.0.0.1", 429),
    ],
)
def test_client_behind_proxies(
    client: Client, ana: Any, settings: Any, proxies: int, forwarded: str, status: int
) -> None:
    settings.ERL_PROXY_COUNT = proxies
    guesser = "203.0.113.9, 10.0.0.1" if proxies == 2 else "203.0.113.9"
    fail(client, 10, REMOTE_ADDR="203.0.113.9", headers={"X-Forwarded-For": guesser})

    answer = sign_in(client, REMOTE_ADDR="203.0.113.9", headers={"X-Forwarded-For": forwarded})

    assert answer.status_code == status


@pytest.mark.parametrize(("key", "hours"), [("signed_in_at", 8.1), ("seen_at", 2.1)])
def test_session_that_is_old_or_idle_ends(client: Client, ana: Any, key: str, hours: float) -> None:
    client.force_login(ana)
    assert client.get(HOME).status_code == 200
    session = client.session
    session[key] -= hours * 3600
    session.save()

    answer = client.get("/admin/memory/heuristic/")

    assert (answer.status_code, answer.headers["Location"]) == (
        302,
        "/admin/login/?next=%2Fadmin%2Fmemory%2Fheuristic%2F",
    )
    assert client.get(HOME).status_code == 302


def test_session_is_written_at_most_once_a_minute(client: Client, ana: Any) -> None:
    client.force_login(ana)
    client.get(HOME)
    noted = client.session["seen_at"]

    with CaptureQueriesContext(connection) as queries:
        client.get(HOME)
    assert [query["sql"] for query in queries if "UPDATE" in query["sql"]] == []
    session = client.session
    session["seen_at"] = noted - 3600
    session.save()
    client.get(HOME)
    assert client.session["seen_at"] >= noted


@pytest.mark.parametrize("path", [HOME, "/admin/memory/heuristic/", "/admin/auth/user/", "/admin/password_change/"])
def test_password_alone_opens_nothing(client: Client, ana: Any, with_codes: None, path: str) -> None:
    sign_in(client)

    answer = client.get(path)

    assert answer.headers["Location"].startswith(SECOND)
    assert client.post(path, {}).headers["Location"].startswith(SECOND)


def test_first_sign_in_sets_the_app_up(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    page = client.get(SECOND + "?next=/admin/memory/review/").content.decode()
    device = TOTPDevice.objects.get()
    secret = re.search(r"<code>([A-Z2-7 ]+)</code>", page)
    assert secret is not None
    assert b32decode(secret[1].replace(" ", "")) == device.bin_key
    assert 'class="qr-dark" d="M' in page
    assert client.get(SECOND).content.decode().count(secret[1]) == 1  # a reload shows the same

    shown = client.post(SECOND, {"code": code_of(device), "next": "/admin/memory/review/"})

    codes = re.findall(r"<li><code>([a-z2-7 ]+)</code>", shown.content.decode())
    assert len(codes) == len(set(codes)) == 10
    assert 'href="/admin/memory/review/"' in shown.content.decode()
    assert client.get(HOME).status_code == 200
    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert not kept & {code.replace(" ", "") for code in codes}  # hashes only


def test_code_opens_the_admin_once(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    device, _ = enrol(client)
    code = code_of(device, steps=1)
    other = Client()
    sign_in(other)

    assert other.post(SECOND, {"code": code}).headers["Location"] == HOME
    assert other.get(HOME).status_code == 200
    third = Client()
    sign_in(third)
    assert third.post(SECOND, {"code": code}).status_code == 400
    assert third.get(HOME).status_code == 302


def test_backup_code_works_once_and_wrong_codes_wait(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    _, codes = enrol(client)
    other = Client()
    sign_in(other)
    assert other.post(SECOND, {"code": "aaaa bbbb cccc dddd"}).status_code == 400
    assert "Try again in" in other.post(SECOND, {"code": codes[0]}).content.decode()
    other.session.flush()
    ana.staticdevice_set.get().throttle_reset()
    sign_in(other)

    assert other.post(SECOND, {"code": codes[0].upper()}).status_code == 302
    sign_in(third := Client())
    assert third.post(SECOND, {"code": codes[0]}).status_code == 400


def test_device_of_another_person_does_not_count(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    enrol(client)
    TOTPDevice.objects.update(user=get_user_model().objects.create_superuser("ben"))

    assert client.get(HOME).headers["Location"].startswith(SECOND)


def test_next_page_stays_on_this_site(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    device = enrol(client)[0]
    sign_in(other := Client())

    answer = other.post(SECOND, {"code": code_of(device, steps=1), "next": "https://evil.example/"})

    assert answer.headers["Location"] == HOME


def test_code_page_is_for_those_who_gave_the_password(client: Client, ana: Any, with_codes: None) -> None:
    assert client.get(SECOND).headers["Location"].startswith(LOGIN)
    client.force_login(get_user_model().objects.create_user("agent"))
    assert client.get(SECOND).headers["Location"].startswith(LOGIN)


def test_lost_second_factor_is_set_up_again(client: Client, ana: Any, with_codes: None, capsys: Any) -> None:
    sign_in(client)
    enrol(client)

    call_command("reset_second_factor", "ana")

    assert "2 devices removed" in capsys.readouterr().out
    assert client.get(HOME).headers["Location"].startswith(SECOND)
    assert "Set up one-time codes" in client.get(SECOND).content.decode()
    with pytest.raises(CommandError, match="There is no user"):
        call_command("reset_second_factor", "eve")


def test_without_the_setting_no_code_is_needed(client: Client, ana: Any) -> None:
    assert sign_in(client).status_code == 302
    assert client.get(HOME).status_code == 200
