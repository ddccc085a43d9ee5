"""The schemas of the tools in the strict converters of those who offer them to a model."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from agents.strict_schema import ensure_strict_json_schema
from google.genai import types

from memory.mcp.tools import BY_NAME, TOOLS

pytestmark = pytest.mark.nightly


def from_json_schema(schema: dict[str, Any]) -> Any:
    return types.Schema.from_json_schema(json_schema=types.JSONSchema.model_validate(schema))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("convert", [from_json_schema, types.Schema.model_validate, ensure_strict_json_schema])
def test_schema_is_converted(convert: Callable[[dict[str, Any]], Any], tool: Any) -> None:
    assert convert(deepcopy(tool.describe()["inputSchema"]))


def test_strict_model_can_leave_out_what_it_does_not_know() -> None:
    schema = ensure_strict_json_schema(deepcopy(BY_NAME["record_run"].describe()["inputSchema"]))

    kinds = [part["type"] for part in schema["properties"]["retrieval_id"]["anyOf"]]
    assert "retrieval_id" in schema["required"]
    assert kinds == ["string", "null"]
