import json
import struct
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory.api.canonical import canonical_json, canonical_request, fingerprint, is_same_fingerprint

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
many = settings(max_examples=150, deadline=None)

# RFC 8785 appendix B: the bits of a double and how it is written
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "written"), NUMBERS.items())
def test_double_is_written_as_the_rfc_says(bits: str, written: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))

    assert canonical_json(number).decode() == written


def test_names_are_sorted_as_the_rfc_says() -> None:
    document = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}

    assert list(json.loads(canonical_json(document))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


def test_text_is_escaped_as_the_rfc_says() -> None:
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f\u2028\u007f"

    assert canonical_json(text).decode() == '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u2028\u007f"'


@pytest.mark.parametrize("spelling", ["100", "1e2", "100.0", "1.0E+2", "10000e-2"])
def test_equal_numbers_have_one_spelling(spelling: str) -> None:
    assert canonical_json(json.loads(spelling)) == b"100"


def test_large_ids_differ_in_their_last_digit() -> None:
    assert canonical_json(9223372036854775806) != canonical_json(9223372036854775807)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\ud800": 1}, object(), {1, 2}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical_json(value)


@given(values)
@many
def test_canonical_form_reads_back_as_the_same_value(value: Any) -> None:
    assert same(json.loads(canonical_json(value)), value)


@given(values)
@many
def test_canonical_form_is_its_own_canonical_form(value: Any) -> None:
    once = canonical_json(value)

    assert canonical_json(json.loads(once)) == once


@given(values, st.randoms(use_true_random=False))
@many
def test_other_spellings_of_a_document_are_the_same(value: Any, random: Any) -> None:
    assert canonical_json(json.loads(respell(value, random))) == canonical_json(value)


def respell(value: Any, random: Any) -> str:
    """Write a value with other white space, member order, escapes and number formats."""
    space: str = random.choice(["", " ", "\n\t"])
    if isinstance(value, dict):
        members = [f"{respell(k, random)}{space}:{space}{respell(v, random)}" for k, v in value.items()]
        random.shuffle(members)
        return "{" + f"{space},".join(members) + space + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(respell(item, random) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=random.choice([True, False]))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 and random.random() < 0.5:
        return f"{value}.0"
    return json.dumps(value)


@given(values, values)
@many
def test_different_documents_are_different(one: Any, other: Any) -> None:
    assume(not same(one, other))

    assert canonical_json(one) != canonical_json(other)


def same(one: Any, other: Any) -> bool:
    """Equality in JSON's terms: true is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return one == other or (float(one) == float(other) and (isinstance(one, float) or isinstance(other, float)))
    return bool(one == other)


REQUEST: dict[str, Any] = {
    "method": "POST",
    "route": "api/v1/trajectories/<uuid:pk>",
    "arguments": [("pk", "1")],
    "query": [("a", "1"), ("b", "2")],
    "body": b'{"steps":[1,2],"task":"x"}',
}


@pytest.mark.parametrize(
    "change",
    [
        {"method": "PATCH"},
        {"route": "api/v1/trajectories"},
        {"arguments": [("pk", "2")]},
        {"query": [("a", "1")]},
        {"query": [("a", "2"), ("b", "1")]},
        {"body": b'{"steps":[2,1],"task":"x"}'},
        {"body": b"{}"},
    ],
    ids=str,
)
def test_any_change_of_the_request_changes_its_fingerprint(change: dict[str, Any]) -> None:
    before = fingerprint(canonical_request(**REQUEST))

    assert not is_same_fingerprint(before, canonical_request(**REQUEST | change))


def test_order_of_the_query_does_not_matter() -> None:
    before = fingerprint(canonical_request(**REQUEST))

    assert is_same_fingerprint(before, canonical_request(**REQUEST | {"query": [("b", "2"), ("a", "1")]}))


def test_fingerprint_needs_our_secret() -> None:
    canonical = canonical_request(**REQUEST)

    assert fingerprint(canonical, secret="one") != fingerprint(canonical, secret="two")


def test_fingerprint_survives_a_new_secret_key() -> None:
    canonical = canonical_request(**REQUEST)
    with override_settings(SECRET_KEY="old"):
        before = fingerprint(canonical)

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["older", "old"]):
        assert is_same_fingerprint(before, canonical)


def test_fingerprint_of_a_forgotten_secret_key_is_another() -> None:
    canonical = canonical_request(**REQUEST)
    with override_settings(SECRET_KEY="old"):
        before = fingerprint(canonical)

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=[]):
        assert not is_same_fingerprint(before, canonical)
