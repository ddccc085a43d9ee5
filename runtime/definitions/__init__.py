"""Tools and agents as they are written in a Python file.

    from runtime.definitions import agent, block, http_tool, rule, tool

ERL reads such a file as source and never imports it (runtime/definitions/python_file.py). These names are for people:
an editor knows them, and the file can be imported in tests of the tools, where `tool` leaves a function as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def tool(
    *,
    uses: Sequence[str] = (),
    kind: str = "unsafe",
    examples: Sequence[tuple[Any, ...]] = (),
    limits: Mapping[str, Any] | None = None,
    runtime: str = "monty",
    requires_approval: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function as a tool."""
    return lambda function: function


def http_tool(name: str, **members: Any) -> dict[str, Any]:
    """Declare a request to a service as a tool."""
    return {"name": name, **members}


def agent(name: str, **members: Any) -> dict[str, Any]:
    """Declare an agent."""
    return {"name": name, **members}


def block(label: str, value: str = "", **members: Any) -> dict[str, Any]:
    """Declare a block of an agent's memory."""
    return {"label": label, "value": value, **members}


class Rules:
    """The rules about tools: `rule.run_first("get_user")`."""

    def __getattr__(self, kind: str) -> Callable[..., dict[str, Any]]:
        return lambda tool, *values, **members: {"type": kind, "tool": tool, "values": values, **members}


rule = Rules()
