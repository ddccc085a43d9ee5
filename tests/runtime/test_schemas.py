"""JSON schemas of strangers: every keyword holds, and neither schema nor arguments can keep a check busy."""

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.definitions.checks import write_stub
from runtime.errors import InvalidArguments
from runtime.schema import MAX_SCHEMA_CHARS, check_arguments, find_schema_faults, find_value_faults

SUITE = Path(__file__).parents[1] / "data/json_schema/cases.jsonl"
CASES = [json.loads(line) for line in SUITE.read_text(encoding="utf-8").splitlines()]
EVIL = "^(a+)+$"


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['keyword']}: {case['description']}"[:70])
def test_the_official_suite_holds(case: dict[str, Any]) -> None:
    fits = [not find_value_faults(case["schema"], value) for value, _ in case["tests"]]

    assert fits == [expected for _, expected in case["tests"]]


# As pydantic, zod and people write them
BOOKING = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "title": "create_booking",
    "properties": {
        "guest": {"$ref": "#/$defs/Guest"},
        "starts_on": {"type": "string", "format": "date"},
        "room": {"type": "string", "pattern": "^[A-Z][0-9]{2,3}$", "examples": ["A12"]},
        "beds": {"type": ["integer", "null"], "minimum": 1, "default": None},
        "pay": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"by": {"const": "card"}, "token": {"type": "string", "minLength": 3}},
                },
                {"type": "object", "properties": {"by": {"const": "cash"}}, "required": ["by"]},
            ],
        },
        "span": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "items": False},
        "labels": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
        "phone": {"type": "string"},
        "country": {"type": "string"},
    },
    "required": ["guest"],
    "dependentRequired": {"phone": ["country"]},
    "allOf": [{"properties": {"note": {"type": "string", "maxLength": 20}}}],
    "$defs": {
        "Guest": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "friends": {"type": "array", "items": {"$ref": "#/$defs/Guest"}},
            },
            "required": ["name"],
        }
    },
}
GUEST = {"name": "Ada"}


def test_a_schema_as_other_tools_have_it_is_taken() -> None:
    assert find_schema_faults(BOOKING) == []

    check_arguments(
        BOOKING,
        {
            "guest": {"name": "Ada", "friends": [{"name": "Bo", "friends": [GUEST]}]},
            "starts_on": "2026-02-28",
            "room": "B204",
            "beds": None,
            "pay": {"by": "cash"},
            "span": [1, 2],
            "labels": {"x-a": "b"},
            "note": "late",
        },
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"guest": {"name": "A", "friends": [{"name": 1}]}}, "guest.friends[0].name should be a string."),
        ({"guest": {}}, "guest.name is missing."),
        ({"guest": GUEST, "starts_on": "tomorrow"}, 'starts_on does not fit format: "date".'),
        ({"guest": GUEST, "room": "b2"}, 'room does not fit pattern: "^[A-Z][0-9]{2,3}$".'),
        ({"guest": GUEST, "beds": 0}, "beds does not fit minimum: 1."),
        ({"guest": GUEST, "beds": "two"}, "beds should be a whole number or null."),
        ({"guest": GUEST, "pay": {"by": "coin"}}, "pay should be an object. pay.by should be 'card'."),
        ({"guest": GUEST, "span": [1, 2, 3]}, "span does not fit items: false."),
        ({"guest": GUEST, "labels": {"x-a": 1}}, "labels.x-a should be a string."),
        ({"guest": GUEST, "labels": {"y": "b"}}, "labels.y is unknown."),
        ({"guest": GUEST, "phone": "1"}, 'The call does not fit dependentRequired: {"phone": ["country"]}.'),
        ({"guest": GUEST, "note": "x" * 21}, "note does not fit maxLength: 20."),
        ({"guest": GUEST, "colour": "red"}, "colour is unknown. The arguments are guest, starts_on,"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        check_arguments(BOOKING, arguments)

    assert said in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "The parameters must be an object"),
        (
            parameters(a={"$ref": "https://example.com/a.json"}),
            "parameters/properties/a: $ref has to name a schema within",
        ),
        (parameters(a={"$ref": "file:///etc/passwd"}), "$ref has to name a schema within this one"),
        (parameters(a={"$ref": "#/$defs/b"}), "$ref has to name a schema within this one"),
        (
            parameters(a={"default": {"minimum": "x"}}, b={"$ref": "#/properties/a/default"}),
            "$ref has to name a schema",
        ),
        (parameters(a={"$id": "https://example.com", "type": "string"}), "$id may only stand at the top"),
        (parameters(a={"type": "text"}), "parameters/properties/a/type: 'text'"),
        (parameters(a={"pattern": "^(?!x).*$"}), "without look-around and back-references"),
        (parameters(a={"patternProperties": {r"(a)\1": {}}}), "without look-around and back-references"),
        (parameters(a={"pattern": "a" * 1_001}), "A pattern may have at most 1,000 characters."),
        (parameters(a={"description": "a" * MAX_SCHEMA_CHARS}), "longer than 50,000 characters"),
    ],
)
def test_a_schema_that_cannot_be_held_to_is_refused(schema: dict[str, Any], said: str) -> None:
    assert said in " ".join(find_schema_faults(schema))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object"}, {"a": 1}, None),
        (parameters(**{f"p{number}": {"type": "null"} for number in range(200)}), {"p199": None}, {"p199": 1}),
        (
            parameters(a={"type": "string", "x-mcp-header": "X-A", "example": "b", "discriminator": {}}),
            {"a": ""},
            {"a": 1},
        ),
        (parameters(a={"type": "integer", "nullable": True, "enum": [1]}), {"a": None}, {"a": 2}),
        (parameters(a={"minimum": 0, "exclusiveMinimum": True}), {"a": 1}, {"a": 0}),
        (parameters(a={"items": [{"type": "null"}], "additionalItems": False}), {"a": [None]}, {"a": [None, 1]}),
        (parameters(a={"items": [{"$id": "#a", "type": "null"}]}, b={"$ref": "#/properties/a/items/0"}), {}, {"b": 1}),
        (
            parameters(a={"dependencies": {"b": ["c"], "d": {"required": ["e"]}}}),
            {"a": {"b": 1, "c": 1}},
            {"a": {"d": 1}},
        ),
        (
            parameters(a={"$ref": "#/definitions/A"}) | {"definitions": {"A": {"type": "null", "$id": "#/A"}}},
            {"a": None},
            {"a": 1},
        ),
    ],
    ids=[
        "empty",
        "many",
        "members of others",
        "nullable",
        "draft 4",
        "tuple",
        "reference",
        "dependencies",
        "definitions",
    ],
)
def test_a_schema_of_another_dialect_holds(schema: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert find_schema_faults(schema) == []

    fits = [not find_value_faults(schema, value) for value in (good, bad)]

    assert fits == [True, False]


@pytest.mark.parametrize("word", ["items", "not"])
def test_a_schema_that_is_nested_too_deep_is_refused(word: str) -> None:
    schema: dict[str, Any] = {}
    for _ in range(2_000):
        schema = {word: schema}

    assert "nested more than 16 levels" in find_schema_faults(parameters(a=schema))[0]


def _branch(levels: int) -> dict[str, Any]:
    """Return a schema that is tried 2 ** levels times."""
    steps = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(levels)}
    return {**parameters(a={"$ref": "#/$defs/s0"}), "$defs": {**steps, f"s{levels}": {"type": "null"}}}


# Without a limit each of these is busy for minutes, and the test with it.
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_branch(40), 1),
        (parameters(a={"$ref": "#/properties/a"}), 1),
        (parameters(a={"uniqueItems": True}), [{"n": number} for number in range(20_000)]),
        (parameters(a={"items": {"anyOf": [{"const": number} for number in range(500)]}}), [-1] * 100_000),
    ],
    ids=["branching references", "a reference to itself", "objects compared each with each", "many alternatives"],
)
def test_a_check_that_takes_too_many_steps_is_given_up(schema: dict[str, Any], value: Any) -> None:
    assert find_schema_faults(schema) == []

    with pytest.raises(InvalidArguments, match="too long or too deeply nested to be checked"):
        check_arguments(schema, {"a": value})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (parameters(a={"pattern": EVIL}), "a" * 5_000 + "!"),
        (parameters(a={"patternProperties": {EVIL: {}}, "additionalProperties": False}), {"a" * 5_000 + "!": 1}),
        (parameters(a={"patternProperties": {EVIL: {}}, "unevaluatedProperties": False}), {"a" * 5_000 + "!": 1}),
        (parameters(a={"$schema": "http://json-schema.org/draft-07/schema#", "pattern": EVIL}), "a" * 5_000 + "!"),
        (parameters(a={"propertyNames": {"pattern": EVIL}}), {"a" * 5_000 + "!": 1}),
    ],
    ids=["pattern", "patternProperties", "unevaluatedProperties", "$schema", "propertyNames"],
)
def test_patterns_never_backtrack(schema: dict[str, Any], value: Any) -> None:
    assert find_schema_faults(schema) == []

    with pytest.raises(InvalidArguments):
        check_arguments(schema, {"a": value})


def test_a_schema_chooses_no_other_dialect() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "dependentRequired": {"b": ["c"]}}

    with pytest.raises(InvalidArguments, match="a does not fit dependentRequired"):
        check_arguments(parameters(a=old), {"a": {"b": 1}})


def test_long_lists_of_texts_are_checked() -> None:
    check_arguments(parameters(a={"uniqueItems": True}), {"a": [str(number) for number in range(5_000)]})


def test_stubs_take_what_python_has_no_word_for() -> None:
    options = {"enum": [{"a": 1}]}
    schema = parameters(a={"type": ["string", "null"]}, b={"$ref": "#/$defs/b"}, c=options, d=True) | {
        "required": ["a"]
    }

    assert write_stub("f", schema) == "def f(a: str | None, b: Any = ..., c: Any = ..., d: Any = ...) -> Any: ..."
    assert write_stub("f", {"type": "object"}) == "def f(*values: Any, **named: Any) -> Any: ..."
    assert write_stub("f", parameters(**{"user-id": {}})) == "def f(*values: Any, **named: Any) -> Any: ..."
