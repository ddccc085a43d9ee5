"""Parts of chat logs."""

from typing import Any


def call(name: str, arguments: Any = "{}", id_: str = "c1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
