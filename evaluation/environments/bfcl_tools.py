"""What the leaderboard says about the functions of its services, as tools of an agent."""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.environments.bfcl import read_dialogues

# The leaderboard calls the id of a ticket an integer, and in one dialogue the services have a ticket_001.
TICKET_ID = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": ""}


@cache
def read_tools() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return what the leaderboard says about each function: description and parameters by name, with the class."""
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    folder = Path(importlib.import_module("bfcl_eval").__path__[0]) / "data" / "multi_turn_func_doc"
    classes = sorted({class_name for dialogue in read_dialogues().values() for class_name in dialogue.classes})
    tools = {}
    for name in classes:
        path = folder / config.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            # Before it stands the same text about the whole service in every function.
            description = row["description"].rpartition("Tool description: ")[2]
            schema = _schema(row["parameters"])
            if "ticket_id" in schema["properties"]:
                schema["properties"]["ticket_id"] = TICKET_ID
            tools[f"{name}_{row['name']}"] = description, schema
    return tools


def _schema(said: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in JSON's words; the leaderboard uses Python's for some types."""
    schema = {name: value for name, value in said.items() if name in ("description", "enum", "required")}
    if kind := TYPES.get(said["type"], said["type"]):
        schema["type"] = kind
    if "properties" in said:
        schema["properties"] = {name: _schema(member) for name, member in said["properties"].items()}
    if "items" in said:
        schema["items"] = _schema(said["items"])
    return schema
