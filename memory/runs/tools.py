"""The tools a run had on offer: names, or definitions as the APIs of language models take them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_TOOLS
from memory.runs.episode import OfferedTool
from memory.runs.steps import Json, read_arguments, read_name
from memory.transcripts.offered_tools import get_definition, get_tool_name, is_server, split_tools

# Where the APIs of models and MCP have the parameters.
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
NAMELESS_SERVER = "is a server of MCP, without its tools. Send the tools that it lists (`tools/list`), or their names."


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
    for number, entry in enumerate(value):
        path = f"{where}[{number}]"
        for tool in split_tools(entry):
            name = get_tool_name(tool)
            if not name and is_server(tool):
                raise InvalidSteps(f"{path} {NAMELESS_SERVER}")
            if not name:
                raise InvalidSteps(f"{path} must be a tool's name, or an object with its name and parameters.")
            read_name(name, where=path if isinstance(tool, str) else f"{path}.name")
            tools.append(name.strip() if isinstance(tool, str) else read_arguments(tool, where=path))
    if len(tools) > MAX_TOOLS:
        raise InvalidSteps(f"{where} has {len(tools)} tools. Send at most {MAX_TOOLS}.")
    return tools


def read_tool_names(value: Json) -> tuple[str, ...]:
    """Return the names of the tools of a question, in any form in which `read_tools` takes them.

    Raises InvalidSteps, naming the place: also for a server whose tools are not known, as any lesson may name one.
    """
    tools = read_tools(value)
    for number, tool in enumerate(tools):
        if is_server(tool):
            raise InvalidSteps(f"tools[{number}] {NAMELESS_SERVER}")
    return tuple(map(get_tool_name, tools))


def tool_names(tools: Sequence[Json]) -> Iterator[str]:
    """Yield the name of each tool and of its parameters, as far as its definition has them."""
    for tool in describe_tools(tools):
        yield tool.name
        yield from tool.parameters


def describe_tools(tools: Sequence[Json]) -> Iterator[OfferedTool]:
    """Yield each tool with what its definition says of it, in the form of any model's API."""
    for tool in tools:
        if isinstance(tool, str):
            yield OfferedTool(name=tool)
        elif isinstance(tool, Mapping):
            definition = get_definition(tool)
            description = definition.get("description")
            yield OfferedTool(
                name=get_tool_name(tool),
                description=description if isinstance(description, str) else "",
                parameters=_list_parameters(definition),
            )


def _list_parameters(definition: Mapping[str, Json]) -> tuple[str, ...]:
    for member in _SCHEMAS:
        schema = definition.get(member)
        if isinstance(schema, Mapping) and isinstance(schema.get("json"), Mapping):
            schema = schema["json"]  # Bedrock
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            return tuple(str(name) for name in schema["properties"])
    return ()
