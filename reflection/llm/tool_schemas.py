"""Schemas of arguments as people publish them, in the one dialect that ERL checks and that every provider takes.

Tools of others come with JSON Schema of any draft since the fourth, or as OpenAPI 3.0 has it, and with members of their
own, such as `x-mcp-header`. The stored schema stays as it was sent; what is checked and what a model is offered is the
same schema in the draft 2020-12, without the words that it does not know.
"""

import json
import re
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]
MAX_SCHEMA_DEPTH = 16
# Where a schema holds others
BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
ALONE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "contains"),
    *("not", "if", "then", "else", "contentSchema"),
)
_KEYWORDS = {
    *Draft202012Validator.VALIDATORS,
    *(*BY_NAME, *LISTED, *ALONE, "minContains", "maxContains"),
    *("$id", "$anchor", "$dynamicAnchor", "title", "description", "default", "examples"),
    *("deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
}
# OpenAI and Anthropic refuse these at the beginning of a schema
_NOT_AT_THE_TOP = ("allOf", "anyOf", "oneOf", "not", "enum", "const")
_ITEM = re.compile(r"/items/(?=[0-9])")


def modernize(schema: Any, depth: int = 0) -> Any:
    """Return a schema in the draft 2020-12, without words that it does not know; what is nested too deep stays."""
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH:
        # True and false are schemas, too.
        return schema
    modern: Schema = {}
    renamed = _rename(schema)
    if depth == 0 and isinstance(renamed.get("definitions"), dict):
        renamed["$defs"] = renamed.pop("definitions") | renamed.get("$defs", {})
    for word, value in renamed.items():
        if word in BY_NAME and isinstance(value, dict):
            value = {name: modernize(inner, depth + 1) for name, inner in value.items()}
        elif word in LISTED and isinstance(value, list):
            value = [modernize(inner, depth + 1) for inner in value]
        elif word in ALONE:
            value = modernize(value, depth + 1)
        if word in _KEYWORDS:
            modern[word] = value
    if "array" in _types_of(modern):
        # OpenAI refuses an array without it.
        modern.setdefault("items", {})
    return modern


def _types_of(schema: Schema) -> list[Any]:
    kinds = schema.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def _rename(schema: Schema) -> Schema:
    """Return a schema, but not those in it, in the words of the draft 2020-12."""
    schema = dict(schema)
    # Some generators note here where the schema stands.
    if str(schema.get("$id", "")).startswith("#"):
        del schema["$id"]
    # Up to draft 2019-09 a list here described a tuple.
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if "additionalItems" in schema:
            schema["items"] = schema["additionalItems"]
    if isinstance(dependencies := schema.get("dependencies"), dict):
        lists = {name: dependency for name, dependency in dependencies.items() if isinstance(dependency, list)}
        schemas = {name: dependency for name, dependency in dependencies.items() if name not in lists}
        schema["dependentRequired"] = lists | schema.get("dependentRequired", {})
        schema["dependentSchemas"] = schemas | schema.get("dependentSchemas", {})
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # A boolean in draft 4 and in OpenAPI 3.0, a number since.
        if isinstance(is_exclusive := schema.get(bound), bool):
            del schema[bound]
            if is_exclusive and limit in schema:
                schema[bound] = schema.pop(limit)
    if schema.get("nullable") is True and "type" in schema:
        schema["type"] = [*_types_of(schema), "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    if "example" in schema:
        schema.setdefault("examples", [schema["example"]])
    if isinstance(reference := schema.get("$ref"), str):
        reference = re.sub("^#/definitions/", "#/$defs/", reference)
        schema["$ref"] = _ITEM.sub("/prefixItems/", reference)
    return schema


def write_tool(description: str, parameters: Schema) -> tuple[str, Schema]:
    """Return what a model reads of a tool: its description, and its schema as every provider takes it.

    What no provider takes at the beginning of a schema is said in the description. Calls are checked here anyway.
    """
    schema = {"type": "object", "properties": {}} | modernize(parameters)
    rules = {word: schema.pop(word) for word in _NOT_AT_THE_TOP if word in schema}
    # Told in words instead: a call that breaks them is refused here.
    if rules:
        written = json.dumps(rules, ensure_ascii=False, separators=(",", ":"))
        description = f"{description}\n\nThe arguments also have to fit this JSON Schema: {written}"
    return description, schema
