"""Write tools and an agent as a Python file that defines the same again."""

import ast
import pprint
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.definitions.python_file import MODULE, RULES
from runtime.definitions.values import AgentDefinition, BlockDefinition, ToolDefinition
from runtime.models.tools import ToolKind, ToolRuntime

_WIDTH = 110


def write_file(tools: Sequence[ToolDefinition], agents: Sequence[AgentDefinition] = ()) -> str:
    """Return a Python file. Read again, it has the same tools and agents.

    Functions and constants that several tools use stand in it once, where they are the same in all of them.
    """
    words = ["agent", "block", "http_tool", "rule", "tool"]
    parts = [f"from {MODULE} import {', '.join(words)}"]
    written: set[str] = set()
    for tool in tools:
        if tool.runtime == ToolRuntime.HTTP:
            parts.append(_write_http_tool(tool))
        elif tool.source:
            parts.append(_write_tool(tool, written))
    here = {tool.name for tool in tools if tool.source}
    parts += [_write_agent(agent, here) for agent in agents]
    return "\n\n\n".join(parts) + "\n"


def _write_tool(tool: ToolDefinition, written: set[str]) -> str:
    """Return a tool with its decorator; what other tools brought along is left out."""
    members: dict[str, Any] = {}
    if tool.uses:
        members["uses"] = list(tool.uses)
    if tool.kind != ToolKind.UNSAFE:
        members["kind"] = tool.kind
    if tool.runtime != ToolRuntime.MONTY:
        members["runtime"] = tool.runtime
    if tool.examples:
        members["examples"] = [
            (dict(example.arguments), example.answer, dict(example.host))
            if example.host
            else (dict(example.arguments), example.answer)
            for example in tool.examples
        ]
    if tool.limits:
        members["limits"] = dict(tool.limits)
    if tool.requires_approval:
        members["requires_approval"] = True
    decorator = _write_call("@tool", members)
    lines: list[str] = []
    source = tool.source.splitlines()
    for first, last in _statements(tool.source):
        text = "\n".join(source[first - 1 : last])
        if text.startswith(f"def {tool.name}("):
            text = f"{decorator}\n{text}"
        elif text in written:
            continue
        written.add(text)
        lines.append(text)
    return "\n\n\n".join(lines)


def _statements(source: str) -> Iterable[tuple[int, int]]:
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.parse(source).body]


def _write_http_tool(tool: ToolDefinition) -> str:
    members: dict[str, Any] = {
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "request": dict(tool.request),
    }
    if tool.kind != ToolKind.UNSAFE:
        members["kind"] = tool.kind
    if tool.requires_approval:
        members["requires_approval"] = True
    return _write_call("http_tool", members, tool.name)


def _write_agent(agent: AgentDefinition, here: set[str]) -> str:
    # Only what differs from the defaults is written.
    empty = AgentDefinition(name=agent.name)
    simple = ("description", "system", "model", "window_tokens", "max_output_tokens", "temperature")
    members = {name: value for name in simple if (value := getattr(agent, name)) != getattr(empty, name)}
    raw = {
        "blocks": [_write_block(item) for item in agent.blocks],
        "tools": [name if name in here else repr(name) for name in agent.tools],
        "rules": [_write_rule(item) for item in agent.rules],
    }
    after = {
        name: dict(getattr(agent, name)) for name in ("model_settings", "limits", "compaction") if getattr(agent, name)
    }
    return _write_call(
        "agent", members, agent.name, raw={name: item for name, item in raw.items() if item}, after=after
    )


def _write_block(block: BlockDefinition) -> str:
    empty = BlockDefinition(label=block.label)
    names = ("value", "description", "limit", "policy", "read_only")
    members = {name: getattr(block, name) for name in names if getattr(block, name) != getattr(empty, name)}
    return ", ".join([f"block({block.label!r}", *(f"{name}={value!r}" for name, value in members.items())]) + ")"


def _write_rule(rule: Mapping[str, Any]) -> str:
    members = [f"{name}={rule[name]!r}" for name in RULES[rule["type"]] if name in rule]
    return f"rule.{rule['type']}({', '.join([repr(rule['tool']), *members])})"


def _write_call(
    name: str,
    members: Mapping[str, Any],
    *positional: Any,
    raw: Mapping[str, Sequence[str]] | None = None,
    after: Mapping[str, Any] | None = None,
) -> str:
    lines = [f"    {value!r}," for value in positional]
    lines += [
        f"    {member}={_indent(pprint.pformat(value, width=_WIDTH, sort_dicts=False))},"
        for member, value in members.items()
    ]
    for member, items in (raw or {}).items():
        lines += [f"    {member}=[", *(f"        {item}," for item in items), "    ],"]
    lines += [
        f"    {member}={_indent(pprint.pformat(value, width=_WIDTH, sort_dicts=False))},"
        for member, value in (after or {}).items()
    ]
    return "\n".join([f"{name}(", *lines, ")"]) if lines else f"{name}()"


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")
