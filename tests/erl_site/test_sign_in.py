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

from erl_site.sign_in.second_factor import seal_authenticator_apps
from memory.sealing import unseal

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


def show_secret(client: Client) -> TOTPDevice:
    """Open the page that sets an app up; return what an app has that scanned the code."""
    secret = re.search(r"<code>([A-Z2-7 ]+)</code>", client.get(SECOND).content.decode())
    assert secret is not None
    return TOTPDevice(key=b32decode(secret[1].replace(" ", "")).hex())


def confirm(client: Client, device: TOTPDevice, password: str = PASSWORD, **more: str) -> Any:
    return client.post(SECOND, {"code": code_of(device), "password": password, **more})


def enrol(client: Client) -> tuple[TOTPDevice, list[str]]:
    device = show_secret(client)
    page = confirm(client, device).content.decode()
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


def test_own_sign_in_clears_no_failures_at_other_names(client: Client, ana: Any) -> None:
    eve = get_user_model().objects.create_superuser("eve", password=PASSWORD)
    fail(client, 9)
    assert sign_in(client, name=eve.username).status_code == 302

    assert fail(client, 1).status_code == 429
    assert AccessAttempt.objects.get().failures_since_start == 10


def test_sign_in_clears_only_the_failures_from_its_address(client: Client, ana: Any) -> None:
    fail(client, 9, REMOTE_ADDR="203.0.113.9")
    fail(client, 9)

    assert sign_in(client).status_code == 302

    assert AccessAttempt.objects.get().ip_address == "203.0.113.9"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::c", 429),  # one network
        ("2001:db8:1:2::1", "2001:db8:1:3::1", 429),  # one site, and one name
        ("2001:db8:1:2::1", "2001:db8:2:2::1", 302),
        ("::ffff:203.0.113.9", "203.0.113.9", 429),
        ("203.0.113.9", "203.0.113.10", 302),
    ],
)
def test_addresses_of_one_network_are_one_client(
    client: Client, ana: Any, first: str, second: str, status: int
) -> None:
    fail(client, 10, REMOTE_ADDR=first)

    assert sign_in(client, REMOTE_ADDR=second).status_code == status


def test_one_network_of_ipv6_does_not_lock_out_the_user(client: Client, ana: Any) -> None:
    answers = [fail(client, 10, REMOTE_ADDR=f"2001:db8:1:{n:x}::1").status_code for n in range(12)]

    assert answers == [429] * 12
    assert sum(AccessAttempt.objects.values_list("failures_since_start", flat=True)) == 10
    assert sign_in(client, REMOTE_ADDR="192.0.2.77").status_code == 302


def test_failures_of_other_names_on_a_site_are_other_clients(client: Client, ana: Any) -> None:
    get_user_model().objects.create_superuser("eve", password=PASSWORD)
    fail(client, 10, REMOTE_ADDR="2001:db8:1:2::1")

    assert sign_in(client, name="eve", REMOTE_ADDR="2001:db8:1:3::1").status_code == 302


def guesses_from_everywhere(count: int) -> None:
    rows = [AccessAttempt(username="ana", ip_address=f"203.0.113.{n}", failures_since_start=10) for n in range(count)]
    AccessAttempt.objects.bulk_create(rows)


def test_botnet_does_not_lock_out_a_browser_that_signed_in_before(client: Client, ana: Any) -> None:
    sign_in(client)
    client.post("/admin/logout/")
    guesses_from_everywhere(10)

    assert sign_in(Client()).status_code == 429
    assert sign_in(client).status_code == 302


def test_browser_that_signed_in_before_does_not_guess_without_limit(client: Client, ana: Any) -> None:
    sign_in(client)
    client.post("/admin/logout/")
    guesses_from_everywhere(20)

    assert sign_in(client).status_code == 429


def test_browser_of_another_person_is_as_any_other(client: Client, ana: Any) -> None:
    get_user_model().objects.create_superuser("eve", password=PASSWORD)
    sign_in(client, name="eve")
    guesses_from_everywhere(10)

    assert sign_in(client).status_code == 429


def test_only_the_sign_in_page_gets_the_cookie_of_the_browser(client: Client, ana: Any) -> None:
    cookie = sign_in(client).cookies["erl_signed_in_before"]

    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (LOGIN, True, "Lax")
    assert "ana" not in cookie.value
    assert not sign_in(Client(), "guess").cookies.get("erl_signed_in_before")


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
    device = show_secret(client)
    assert 'class="qr-dark" d="M' in client.get(SECOND + "?next=/admin/memory/review/").content.decode()
    device = show_secret(client)

    shown = confirm(client, device, next="/admin/memory/review/")

    codes = re.findall(r"<li><code>([a-z2-7 ]+)</code>", shown.content.decode())
    assert len(codes) == len(set(codes)) == 10
    assert 'href="/admin/memory/review/"' in shown.content.decode()
    assert client.get(HOME).status_code == 200
    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert not kept & {code.replace(" ", "") for code in codes}  # hashes only


def test_secret_is_shown_once(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    first = show_secret(client)
    second = show_secret(client)

    wrong = client.post(SECOND, {"code": "000000", "password": PASSWORD})

    assert first.key != second.key
    assert (wrong.status_code, "Time-based secret" in wrong.content.decode()) == (400, False)
    assert confirm(client, first).status_code == 400  # it is no longer the secret of this session
    assert confirm(client, second).status_code == 200


def test_secret_that_another_session_was_shown_opens_nothing(client: Client, ana: Any, with_codes: None) -> None:
    thief = Client()
    sign_in(thief)
    seen = show_secret(thief)
    sign_in(client)
    device, _ = enrol(client)

    assert seen.key != device.key
    assert confirm(thief, seen).status_code == 400
    assert thief.get(HOME).status_code == 302
    assert [unseal(app.key) for app in TOTPDevice.objects.all()] == [device.key]


def test_session_alone_sets_no_app_up(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    device = show_secret(client)

    answers = [confirm(client, device, password=password) for password in ("", "guess")]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert "This password is wrong." in answers[1].content.decode()
    assert not TOTPDevice.objects.exists()


def test_guessing_the_password_while_setting_up_is_throttled(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    device = show_secret(client)

    answers = [confirm(client, device, password="guess") for _ in range(10)]

    assert answers[-1].status_code == 429
    assert confirm(client, device).status_code == 429


def test_no_app_is_set_up_where_none_is_required(client: Client, ana: Any) -> None:
    sign_in(client)

    assert client.get(SECOND).headers["Location"] == HOME
    assert client.post(SECOND, {"code": "123456", "password": PASSWORD}).headers["Location"] == HOME
    assert not TOTPDevice.objects.exists()


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


def test_key_of_an_app_is_stored_sealed_and_outlives_the_secret_key(
    client: Client, ana: Any, with_codes: None, settings: Any
) -> None:
    sign_in(client)
    device, _ = enrol(client)
    assert TOTPDevice.objects.get().key.startswith("sealed:")
    former, settings.SECRET_KEY = settings.SECRET_KEY, "n" * 50
    settings.SECRET_KEY_FALLBACKS = [former]

    assert seal_authenticator_apps() == 1

    settings.SECRET_KEY_FALLBACKS = []
    sign_in(other := Client())
    assert other.post(SECOND, {"code": code_of(device, steps=1)}).headers["Location"] == HOME


def test_app_of_release_1_still_opens_the_admin(client: Client, ana: Any, with_codes: None) -> None:
    sign_in(client)
    device, _ = enrol(client)
    TOTPDevice.objects.update(key=device.key)
    sign_in(other := Client())

    assert other.post(SECOND, {"code": code_of(device, steps=1)}).headers["Location"] == HOME

    assert TOTPDevice.objects.get().key == device.key  # until periodic work seals it
    assert seal_authenticator_apps() == 1


def test_app_whose_key_is_lost_leaves_the_backup_codes(
    client: Client, ana: Any, with_codes: None, settings: Any
) -> None:
    sign_in(client)
    device, codes = enrol(client)
    settings.SECRET_KEY = "n" * 50
    sign_in(other := Client())

    assert other.post(SECOND, {"code": code_of(device, steps=1)}).status_code == 400
    assert other.post(SECOND, {"code": codes[0]}).headers["Location"] == HOME


def test_backup_code_works_once_and_wrong_codes_wait(client: Client, ana: Any, with_codes: None, settings: Any) -> None:
    settings.OTP_STATIC_THROTTLE_FACTOR = 60  # seconds: a busy machine takes longer than the usual one
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


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example/", "javascript:alert(1)", ""])
def test_sign_in_with_a_refused_target_leads_to_the_admin(client: Client, ana: Any, target: str) -> None:
    answer = client.post(f"{LOGIN}?next={target}", {"username": "ana", "password": PASSWORD, "next": target})

    assert (answer.status_code, answer.headers["Location"]) == (302, HOME)
