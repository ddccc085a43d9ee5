"""Tools on offer in the forms that the APIs of models and MCP take, as their own packages write them."""

from typing import Any

import pytest
from anthropic.types.beta import BetaMCPToolsetParam
from google.genai import types as gemini
from mcp import types as mcp
from openai.types.responses.tool_param import Mcp

from memory.errors import InvalidSteps
from memory.runs.tools import describe_tools, read_tool_names, read_tools

SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
DECLARATION = gemini.FunctionDeclaration(name="cancel", description="Cancel it.", parameters_json_schema=SCHEMA)
GEMINI = gemini.Tool(function_declarations=[DECLARATION], google_search=gemini.GoogleSearch())
# As in https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Tool.html
BEDROCK = {"toolSpec": {"name": "cancel", "description": "Cancel it.", "inputSchema": {"json": SCHEMA}}}
MCP_TOOL = mcp.Tool(name="cancel", description="Cancel it.", input_schema=SCHEMA)
MCP_LIST = mcp.ListToolsResult(tools=[MCP_TOOL])
SERVER: Mcp = {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example/mcp"}
TOOLSET: BetaMCPToolsetParam = {"type": "mcp_toolset", "mcp_server_name": "shop"}


@pytest.mark.parametrize(
    "entry",
    [
        gemini.Tool(function_declarations=[DECLARATION]).model_dump(exclude_none=True),
        gemini.Tool(function_declarations=[DECLARATION]).model_dump(exclude_none=True, by_alias=True),
        BEDROCK,
        MCP_TOOL.model_dump(exclude_none=True, by_alias=True),
        MCP_LIST.model_dump(exclude_none=True, by_alias=True, mode="json"),
    ],
)
def test_definition_says_name_description_and_parameters(entry: Any) -> None:
    (tool,) = describe_tools(read_tools([entry]))
    assert (tool.name, tool.description, tool.parameters) == ("cancel", "Cancel it.", ("order_id",))


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        (GEMINI.model_dump(exclude_none=True, by_alias=True), {"cancel", "googleSearch"}),
        ({"systemTool": {"name": "nova_grounding"}}, {"nova_grounding"}),
        ({"cachePoint": {"type": "default"}}, set()),
        (SERVER | {"allowed_tools": ["cancel", "track"]}, {"cancel", "track"}),
        (SERVER | {"allowed_tools": {"tool_names": ["cancel"]}}, {"cancel"}),
        (TOOLSET | {"default_config": {"enabled": False}, "configs": {"cancel": {"enabled": True}}}, {"cancel"}),
    ],
)
def test_entry_says_which_tools_it_has(entry: Any, names: set[str]) -> None:
    assert set(read_tool_names([entry])) == names


@pytest.mark.parametrize("server", [SERVER, TOOLSET, TOOLSET | {"configs": {"cancel": {"enabled": True}}}])
def test_server_without_its_tools_is_kept_with_a_run_and_refused_in_a_question(server: Any) -> None:
    assert read_tools([server]) == [server]
    with pytest.raises(InvalidSteps, match=r"^tools\[0\] is a server of MCP, without its tools\. Send the tools"):
        read_tool_names([server])
