"""Tools on offer: names, or definitions in the forms in which the APIs of models and MCP have them.

OpenAI puts a definition into `function`, Bedrock into `toolSpec`. Gemini has several in one entry, beside the tools of
its own (`googleSearch`). MCP's `tools/list` answers with an object that has a list. An entry may also be a server of
MCP, whose tools only the provider knows unless the entry names those that it allows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Json = Any

SERVER_TYPES = ("mcp", "mcp_toolset")  # OpenAI, Anthropic
# The tools that Gemini runs, without the underscores of its Python package (google.genai.types.Tool).
_GEMINI_TOOLS = {
    "codeexecution",
    "computeruse",
    "enterprisewebsearch",
    "exaaisearch",
    "filesearch",
    "googlemaps",
    "googlesearch",
    "googlesearchretrieval",
    "parallelaisearch",
    "retrieval",
    "urlcontext",
}
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def split_tools(entry: Json) -> Iterator[Json]:
    """Yield the tools of one entry, each by itself; an entry in no known form as it is."""
    if not isinstance(entry, Mapping):
        yield entry
        return
    if isinstance(listed := entry.get("tools"), list):
        for tool in listed:
            yield from split_tools(tool)
        return
    for wrapper in ("toolSpec", "systemTool"):
        if isinstance(inner := entry.get(wrapper), Mapping):
            yield inner
            return
    if "cachePoint" in entry:  # where Bedrock may cache
        return
    of_gemini = [name for name in entry if name in _DECLARATIONS or name.replace("_", "").lower() in _GEMINI_TOOLS]
    if of_gemini and not get_tool_name(entry):
        for name in of_gemini:
            declared = entry[name]
            if name in _DECLARATIONS:
                yield from declared if isinstance(declared, list) else ()
            elif declared is not None:
                yield {"type": name, name: declared}
        return
    if is_server(entry) and (names := _list_allowed(entry)):
        yield from names
        return
    yield entry


def get_tool_name(tool: Json) -> str:
    """Return the name of a tool; "" if it has none."""
    if not isinstance(tool, Mapping):
        return tool if isinstance(tool, str) else ""
    definition = get_definition(tool)
    name = definition.get("name") or tool.get("type")  # a tool that the provider runs has only a type
    return name if isinstance(name, str) else ""


def get_definition(tool: Mapping[str, Json]) -> Mapping[str, Json]:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def is_server(entry: Json) -> bool:
    """Tell whether an entry is a server of MCP rather than a tool."""
    if not isinstance(entry, Mapping) or "name" in entry:
        return False
    return entry.get("type") in SERVER_TYPES or any(name in entry for name in ("server_label", "mcp_server_name"))


def _list_allowed(server: Mapping[str, Json]) -> list[str]:
    """Return the names of a server's tools if the entry has all that it allows."""
    allowed = server.get("allowed_tools")
    if isinstance(allowed, Mapping):
        allowed = allowed.get("tool_names")
    default, configs = server.get("default_config"), server.get("configs")
    if isinstance(default, Mapping) and default.get("enabled") is False and isinstance(configs, Mapping):
        allowed = [name for name, config in configs.items() if isinstance(config, Mapping) and config.get("enabled")]
    return [name for name in allowed if isinstance(name, str)] if isinstance(allowed, list) else []
