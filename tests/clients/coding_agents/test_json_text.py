"""A JSON text is changed in one place, and every other character stays."""

import json
from typing import Any

import pytest
from erl_client.coding_agents.json_text import END, BrokenText, find, insert, parse, remove
from hypothesis import given, settings
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
LAYOUTS = st.sampled_from([None, 0, 2, 4, "\t"])
many = settings(max_examples=60, deadline=None)
OURS = {"command": "erl", "args": ["mcp"], "where": {"deep": [1, "é"]}}


@many
@given(value=VALUES, indent=LAYOUTS, ascii_only=st.booleans())
def test_any_json_is_read_as_python_reads_it(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert parse(text).value == value


@many
@given(value=OBJECTS, indent=LAYOUTS, ending=st.sampled_from(["", "\n", "\r\n\r\n"]))
def test_inserted_member_is_added_and_its_removal_leaves_what_was(
    value: dict[str, Any], indent: Any, ending: str
) -> None:
    value.pop("erl", None)
    text = json.dumps(value, indent=indent).replace("\n", "\r\n" if "\r" in ending else "\n") + ending

    longer = insert(text, ("erl",), OURS)

    assert json.loads(longer) == {**value, "erl": OURS}
    assert json.loads(remove(longer, ("erl",))) == value
    assert not value or remove(longer, ("erl",)) == text


@many
@given(before=st.lists(VALUES, max_size=3), after=OBJECTS, indent=LAYOUTS)
def test_item_is_added_to_a_list_in_the_middle(before: list[Any], after: dict[str, Any], indent: Any) -> None:
    value = {"hooks": {"Stop": before, "more": 1}, "after": after}

    longer = insert(json.dumps(value, indent=indent), ("hooks", "Stop", END), OURS)

    assert json.loads(longer) == {"hooks": {"Stop": [*before, OURS], "more": 1}, "after": after}
    assert json.loads(remove(longer, ("hooks", "Stop", len(before)))) == value


@many
@given(value=st.dictionaries(st.text(), VALUES, min_size=1, max_size=5), indent=LAYOUTS, number=st.integers(0, 4))
def test_any_member_can_be_removed(value: dict[str, Any], indent: Any, number: int) -> None:
    name = [*value][number % len(value)]

    shorter = remove(json.dumps(value, indent=indent), (name,))

    assert json.loads(shorter) == {other: value[other] for other in value if other != name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[\n  1, // one\n  "ours",\n  2\n]', "[\n  1, // one\n  2\n]"),
        ('[\n  1, // one\n  "ours"\n]', "[\n  1 // one\n]"),
        ('[1, // one\n  "ours"]', "[1 // one\n]"),
        ('[1, /* one */ "ours" /* two */, 2]', "[1, /* one */ /* two */ 2]"),
    ],
)
def test_comment_of_a_neighbour_takes_nothing_away(text: str, expected: str) -> None:
    shorter = remove(text, ([*parse(text).value].index("ours"),))

    assert shorter == expected
    assert parse(shorter).value == [value for value in parse(text).value if value != "ours"]


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{}", ("a",), '{\n  "a": 1\n}'),
        ("{\n}\n", ("a",), '{\n  "a": 1\n}\n'),
        ("{}", ("a", "b", END), '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'),
        ('{\r\n\t"b": 2\r\n}\r\n', ("a",), '{\r\n\t"b": 2,\r\n\t"a": 1\r\n}\r\n'),
        ('{\n  // mine\n  "b": 2, // two\n}', ("a",), '{\n  // mine\n  "b": 2,\n  "a": 1, // two\n}'),
        ('{"b": {"c": [/* none */]}}', ("b", "c", END), '{"b": {"c": [\n      1/* none */\n    ]}}'),
    ],
)
def test_layout_of_the_file_is_kept(text: str, path: tuple[str | int, ...], expected: str) -> None:
    assert insert(text, path, 1) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{"a": 1, "b": 2,}', ("b",), '{"a": 1,}'),
        ('{\n  "a": 1,\n}', ("a",), "{}"),
        ('{\n  // mine\n  "a": 1 // ours\n}', ("a",), "{\n  // mine\n   // ours\n}"),
        ('{"a": 1, // one\n "b": 2}', ("b",), '{"a": 1 // one\n}'),
        ('{"a": [1, 2, 3]}', ("a", 1), '{"a": [1, 3]}'),
    ],
)
def test_removed_value_takes_its_comma_along(text: str, path: tuple[str | int, ...], expected: str) -> None:
    assert remove(text, path) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: a value is expected."),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3: a comma or the closing bracket is expected."),
        ('{\n  "a": tru\n}', "line 2: a value is expected."),
        ('{"a": 01}', "line 1: a value is expected."),
        ("{a: 1}", "line 1: a name in double quotes is expected."),
        ('{"a" 1}', "line 1: a colon is expected."),
        ('{"a": 1', "line 1: a comma or the closing bracket is expected."),
        ('{"a": [1}', "line 1: a comma or the closing bracket is expected."),
        ('{"a": "\\q"}', "line 1: a value is expected."),
        ('{"a": 1,\n"a": 2}', "line 2: the name 'a' appears twice."),
        ("{}\n\n}", "line 3: nothing may follow the end."),
        ("[]", "line 1: the file must be an object."),
        ('{\n "a": []}', "line 2: a must be an object."),
    ],
)
def test_broken_text_is_refused_with_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(BrokenText) as refusal:
        insert(text, ("a", "b"), 1)

    assert str(refusal.value) == reason


def test_nothing_is_found_where_nothing_is() -> None:
    assert find('{"a": {}}', ("a", "b", "c")) is None
