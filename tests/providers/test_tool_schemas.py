"""Tools whose schemas are published in other dialects are offered to each provider as it takes them."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.tools.catalogue import core_tools
from tests.providers.laboratory import DONE, LOOK, Laboratory, end_of, make_tool

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]

PUBLISHED: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "page": {"type": "integer", "example": 3, "x-mcp-header": "X-Page"},
        "words": {"type": "array"},
        "place": {
            "type": "array",
            "items": [{"type": "integer"}, {"$ref": "#/definitions/Name"}],
            "additionalItems": False,
        },
        "by": {"type": "string", "nullable": True},
        "more": {"type": "object", "dependencies": {"a": ["b"]}, "discriminator": {"propertyName": "a"}},
        **{f"p{number}": {"type": "string"} for number in range(60)},
    },
    "definitions": {"Name": {"type": "string"}},
    "anyOf": [{"required": ["page"]}, {"required": ["by"]}],
    "x-github-event": "look",
}


@pytest.mark.parametrize("schema", [PUBLISHED, {"type": "object"}], ids=["published", "empty"])
def test_tool_of_another_dialect_is_called(
    lab: Laboratory, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(core_tools(), "look", replace(make_tool(), parameters=schema))

    run = lab.run(lab.make_agent(), LOOK, DONE)

    assert (end_of(run), run.effects.count()) == (("end_turn", "It is in Graz."), 1)
