"""Redaction (reliability D7) removes secrets, keeps everything else, and takes linear time."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from memory.redaction import redact, redact_text
from tests.memory.redaction_families import FAMILIES, growth
from tests.memory.redaction_forms import Form, read_forms, survives
from tests.memory.synthetic_secrets import Planted, plant_secrets

DATA = Path(__file__).resolve().parent.parent / "data"
PUBLIC_RUNS = [
    json.loads(line)
    for name in ("tau_airline", "webshop")
    for line in (DATA / name / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
]
GITHUB = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
PASSWORD = "tr0ub4dor&3"
# Forms that would need to know what a column, a second item or a bare pair means
NOT_FOUND = {
    "YAML list", "JSON text, list", "table row", "CSV", "pgpass", "username slash password", "member auth pair",
}  # fmt: skip


def is_left(planted: Planted, text: str) -> bool:
    """Return whether the end of the secret, which no prefix rule matches by chance, is still there."""
    return planted.needle[-8:] in text


def missed(planted: list[Planted]) -> list[Planted]:
    return [p for p in planted if is_left(p, redact_text(p.text))]


# ── Recall and false positives ────────────────────────────────────────────────────────────────────────────────────
def test_recall_on_synthetic_secrets_is_at_least_99_percent() -> None:
    planted = plant_secrets(seed=20_251_121, per_kind=15)

    assert len(planted) >= 1_000
    assert len(missed(planted)) <= len(planted) / 100, missed(planted)[:5]


@pytest.mark.parametrize("planted", plant_secrets(seed=1, per_kind=1), ids=lambda p: p.kind)
def test_every_kind_of_secret_is_redacted(planted: Planted) -> None:
    assert not is_left(planted, redact_text(planted.text))


def test_secrets_in_nested_values_are_redacted_in_one_pass() -> None:
    planted = plant_secrets(seed=2, per_kind=2)
    value = {"steps": [{"observation": p.text, "arguments": {"text": [p.text]}} for p in planted]}

    stored = json.dumps(redact(value).value, ensure_ascii=False)

    assert [p for p in planted if p.needle in stored] == []


@pytest.mark.parametrize("form", read_forms("forms"), ids=lambda form: form.form)
def test_form_is_redacted(form: Form) -> None:
    left = [secret for secret in form.secrets if survives(secret, redact(form.given).value)]

    assert bool(left) == (form.form in NOT_FOUND)


def test_recall_on_held_out_forms_is_at_least_80_percent() -> None:
    held_out = read_forms("held_out")

    assert len(held_out) == 100
    assert sum(any(survives(each, redact(form.given).value) for each in form.secrets) for form in held_out) <= 20


def test_public_trajectories_lose_nothing_but_email_addresses() -> None:
    wrong = [run["id"] for run in PUBLIC_RUNS if set(redact(run).counts) - {"email"}]

    assert len(PUBLIC_RUNS) >= 50
    assert wrong == []


def test_public_trajectories_keep_their_ids_and_prices() -> None:
    before = json.dumps(PUBLIC_RUNS)
    after = json.dumps(redact(PUBLIC_RUNS).value)

    for kept in ("credit_card_", "gift_card_", "certificate_", "$", "[B0", "olivia_gonzalez_2305"):
        assert after.count(kept) == before.count(kept)


@pytest.mark.parametrize(
    "text",
    [
        "The password is required.",
        "Enter your password: it must have eight characters",
        "Forgot password: click the link",
        "password: ********",
        "password=${DB_PASSWORD}",
        'password = os.environ["DB_PASSWORD"]',
        "api_key: <your key here>",
        "total_tokens=1234567890, token_count: 812",
        "next_page_token is empty",
        "token_id=550e8400-e29b-41d4-a716-446655440000",
        "secret_name: prod-db-7f3a9c21",
        "token: the",
        "a cookie: chocolate chip",
        "basic economy tickets cannot be changed",
        "order 4532015112830367 shipped",  # looks like a card, fails Luhn
        "DE89370400440532013001",  # looks like an IBAN, fails mod 97
        "0.4111111111111111 of the whole",
        "4111-1111-1111-1111-1111",
        "2024-05-28T15:04:05.123456Z",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit 5491924a46e6803e23ccf8fd4a6c67b9e7d1f0aa",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "task-based risk-sensitive desk-research",
        "gift_card_2929732, credit_card_9969263, HAT188, Z7GOZK",
        "ISBN 978-3-16-148410-0, EAN 4006381333931",
        "user@localhost and @decorator and a @ b",
        "git@github.com:org/repo",
        "https://user@example.com/path",
        "1234567890",
        "http://localhost:8000/api:v1",
        "key: value",
        "keyboard: mechanical-keyboard-87",
        "[REDACTED:password:0a1b2c3d]",
        "mysql -u root -p shop < dump.sql",
        "docker run -u 1000:1000 -p 8080:80 web",
        "mkdir -p build/release2025",
        "def login(password): return check(password)",
        "passengers: 3, passport: required",
        "bypass=true, pass: 12 tests, fail: 0",
        "<password/> and <password></password>",
        "curl -u $USER:$PASSWORD https://example.com",
        "the code is 12345 and error code: 500123",
        "spin 12345, pin the version: 12345.6",
        "50% of %d, 100%25 and a%20b%2Fc",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMgbm90IGEgc2VjcmV0",  # base64 of a harmless sentence
        "1-2-3 and 123-45 and 000-12-3456 and 123-00-4567",
        "the token count is 512 and the key is primary",
        "&quot;name&quot;: &quot;ana&quot;",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    assert redact_text(text) == text


# ── What stands in its place ──────────────────────────────────────────────────────────────────────────────────────
def test_placeholder_names_the_kind_and_hides_the_rest() -> None:
    assert redact_text(f"token {GITHUB} here").startswith("token [REDACTED:github_token:")
    assert redact_text(f"token {GITHUB} here").endswith("] here")


def test_equal_secrets_have_equal_placeholders() -> None:
    first, second = redact([GITHUB, f"again {GITHUB}"]).value

    assert second == f"again {first}"


def test_different_secrets_have_different_placeholders() -> None:
    first, second = redact([GITHUB, GITHUB[:-1] + "9"]).value

    assert first != second


def test_another_secret_key_gives_another_placeholder() -> None:
    with override_settings(SECRET_KEY="one"):
        first = redact_text(GITHUB)
    with override_settings(SECRET_KEY="two"):
        second = redact_text(GITHUB)

    assert first != second


def test_counts_name_each_kind() -> None:
    found = redact({"a": GITHUB, "b": "ana@example.com, bob@example.com", "password": PASSWORD})

    assert found.counts == {"email": 2, "github_token": 1, "password": 1}


def test_a_clean_value_is_returned_as_it_is() -> None:
    value = {"task": "buy a red shirt", "n": [1, 2.5, None, True]}

    assert redact(value).value is value
    assert redact(value).counts == {}


def test_the_given_value_is_not_changed() -> None:
    value = {"steps": [{"observation": GITHUB}], GITHUB: [GITHUB]}
    before = json.dumps(value)

    redact(value)

    assert json.dumps(value) == before


def test_secrets_in_keys_are_redacted_and_keys_keep_their_order() -> None:
    value = redact({"first": 1, GITHUB: 2, "ana@example.com": 3, "last": 4}).value

    names = list(value)
    assert names[0] == "first"
    assert names[1].startswith("[REDACTED:github_token:")
    assert names[2].startswith("[REDACTED:email:")
    assert list(value.values()) == [1, 2, 3, 4]


# ── Members by name ───────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("member", "secret"),
    [
        ("password", "correct horse battery staple"),
        ("Password", "hunter2"),
        ("db_password", "hunter2"),
        ("secret", "s3cr3t-value"),
        ("clientSecret", "abcdefgh12345678"),
        ("token", "a9f8e7d6c5b4a3f2"),
        ("access_token", "a9f8e7d6c5b4a3f2"),
        ("api_key", "0123456789abcdef"),
        ("X-API-Key", "0123456789abcdef"),
        ("Authorization", "Basic YW5hOmh1bnRlcjI="),
        ("phone", "030 1234567"),
        ("ssn", "078-05-1120"),
    ],
)
def test_member_named_as_secret_loses_its_value(member: str, secret: str) -> None:
    assert secret not in json.dumps(redact({member: secret}).value)


@pytest.mark.parametrize(
    "value",
    [
        {"password": ""},
        {"password": None},
        {"password": {"type": "string"}},
        {"token": "the", "logprob": -0.2},
        {"tokens": 1200},
        {"next_page_token": "CAUQAA1234567890abcdef"},
        {"phone": "iPhone 12"},
        {"secret": True},
        {"api_key": "${API_KEY}"},
        {"password": {"type": "string", "description": "of the account, at least 8 characters"}},
        {"passengers": ["ana", "bob"], "pass": True},
        {"pin": "top left"},
    ],
)
def test_member_without_a_secret_keeps_its_value(value: dict[str, Any]) -> None:
    assert redact(value).value == value


def test_number_in_a_password_member_is_redacted() -> None:
    assert redact({"password": 20251121}).counts == {"password": 1}


def test_card_given_as_number_is_redacted() -> None:
    assert redact({"n": 4111111111111111}).counts == {"card": 1}


def test_value_next_to_a_sensitive_name_is_redacted() -> None:
    assert redact({"name": "Authorization", "value": "Bearer abc"}).value["name"] == "Authorization"
    assert redact({"field": "password", "text": PASSWORD}).counts == {"password": 1}


# ── Stability and hostile input ───────────────────────────────────────────────────────────────────────────────────
def test_redacting_planted_secrets_twice_changes_nothing() -> None:
    once = [redact_text(p.text) for p in plant_secrets(seed=3, per_kind=3)]

    assert [redact_text(text) for text in once] == once


@pytest.mark.parametrize("name", ["to\u212aen", "COO\u212a\u0130E: session", "api_\u212aEY"])
def test_name_with_letters_that_become_ascii_in_lower_case_is_read(name: str) -> None:
    assert "a9f8e7d6c5b4a3f2" not in redact_text(f"{name}=a9f8e7d6c5b4a3f2")


def test_redacting_a_redacted_value_counts_nothing() -> None:
    once = redact({"password": PASSWORD, "log": f"password={PASSWORD} for ana@example.com"}).value

    assert redact(once).counts == {}


_FRAGMENTS = [
    "password=", "token: ", '"', "\\", "@", "a@b.co", "+1 212-555-0199", "://", "u:p@", "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----", GITHUB, "eyJhbGciOiJIUzI1", ".", " ", "[REDACTED:", "]", "key", "\x1e", "\u0130",
    "+12345678", "(212) 555-1234", "078-05-1120", "%40", "%3D", "&#64;", "cGFzc3dvcmQ9V2ludDNyZmVsbA==", " --password ",
    "mysql -p", "password:\n  ", "<password>", "</", "the password is ", "Wint3rfell", "-", "_", ",", "\u00a0",
    "4111111111111111", "Authorization: Bearer ", "abc123DEF456ghi789", "DE89370400440532013000", "é", "\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(_FRAGMENTS) | st.text(max_size=8), max_size=12).map("".join))
def test_redacting_any_text_twice_changes_nothing(text: str) -> None:
    once = redact_text(text)

    assert redact_text(once) == once


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(_FRAGMENTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_redacting_any_value_keeps_its_shape(value: Any) -> None:
    def shape(item: Any) -> Any:
        if isinstance(item, dict):
            return [shape(child) for child in item.values()]
        return [shape(child) for child in item] if isinstance(item, list) else None

    assert shape(redact(value).value) == shape(value)


def test_very_deep_value_is_redacted() -> None:
    value: Any = GITHUB
    for _ in range(50_000):
        value = [value]

    assert redact(value).counts == {"github_token": 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_no_faster_than_a_hostile_text(family: str) -> None:
    growths = (growth(family, (4_096, 8_192, 16_384, 32_768), rounds=rounds)[0] for rounds in (3, 5, 7))

    assert any(exponent <= 1.1 for exponent in growths)  # the first that is free of noise


@pytest.mark.timeout(60)
def test_a_megabyte_of_random_letters_takes_linear_time() -> None:
    text = "".join(random.Random(1).choices("abcdef0123456789-_.@:/+= \n", k=1_000_000))

    once = redact_text(text)

    assert redact_text(once) == once


@pytest.mark.parametrize("text", ["password\uff1aZx81qq12", "pwd\uff1dZx81qq12", "ana\uff20example.com"])
def test_signs_of_east_asian_keyboards_are_read(text: str) -> None:
    assert sum(redact(text).counts.values()) == 1
