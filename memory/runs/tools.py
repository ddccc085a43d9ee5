"""The tools a run had on offer: names, or definitions as the APIs of language models take them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_TOOLS
from memory.runs.steps import Json, read_arguments, read_name


def read_tools(value: Json, *, where: str = "tools") -> list[Any]:
    """Return the tools on offer, checked: each a name or a definition with a name.

    Raises InvalidSteps, naming the place.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidSteps(f"{where} must be a list of names or of tool definitions.")
    if len(value) > MAX_TOOLS:
        raise InvalidSteps(f"{where} has {len(value)} entries. Send at most {MAX_TOOLS}.")
    tools: list[Any] = []
    for number, tool in enumerate(value):
        path = f"{where}[{number}]"
        if isinstance(tool, str):
            tools.append(read_name(tool, where=path))
            continue
        if not isinstance(tool, Mapping) or not _name(tool):
            raise InvalidSteps(f"{path} must be a tool's name, or an object with its name and parameters.")
        read_name(_name(tool), where=f"{path}.name")
        tools.append(read_arguments(tool, where=path))
    return tools


def tool_names(tools: Sequence[Json]) -> Iterator[str]:
    """Yield the name of each tool and of its parameters, as far as its definition has them."""
    for tool in tools:
        if isinstance(tool, str):
            yield tool
        elif isinstance(tool, Mapping):
            yield _name(tool)
            definition = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
            for member in ("parameters", "input_schema", "inputSchema"):
                schema = definition.get(member) if isinstance(definition, Mapping) else None
                properties = schema.get("properties") if isinstance(schema, Mapping) else None
                yield from map(str, properties or ())


def _name(tool: Mapping[str, Json]) -> str:
    function = tool.get("function")
    definition = function if isinstance(function, Mapping) else tool
    name = definition.get("name") or tool.get("type")  # a tool that the provider runs has only a type
    return name if isinstance(name, str) else ""
