"""The tools of a run by name: those of ERL, and those of the project."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.models.effects import Effect
from agents.models.runs import Run
from agents.tools.arguments import find_argument_fault
from memory.projects.models import Project
from reflection.llm.chat import ChatTool


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool as the loop sees it. `execute` gets the effect, and returns what the model reads.

    It raises `ToolError` where the agent can do something about what went wrong.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    kind: str
    execute: Callable[[Effect], str] = field(repr=False)
    revision_id: UUID | None = None
    needs_approval: bool = False

    def check(self, arguments: dict[str, Any]) -> str:
        """Return what is wrong with arguments, as a sentence for the agent; "" where nothing is."""
        return find_argument_fault(self.parameters, arguments)

    @property
    def for_model(self) -> ChatTool:
        return ChatTool(name=self.name, description=self.description, parameters=self.parameters)


_core: dict[str, Tool] = {}


def register_core(*tools: Tool) -> None:
    """Offer tools of ERL to all agents."""
    _core.update({tool.name: tool for tool in tools})


def core_names() -> list[str]:
    """Return the names of ERL's own tools."""
    _load()
    return sorted(_core)


def find_tool(run: Run, name: str, *, parent: Effect | None = None) -> Tool | None:
    """Return a tool that a run's agent has; None where it has none of the name."""
    named = next((each for each in run.revision.tools if each["name"] == name), None)
    if named is None:
        return None
    return _resolve(named)


def tools_of(run: Run) -> list[Tool]:
    """Return the tools of a run's agent in their order."""
    return [tool for each in run.revision.tools if (tool := _resolve(each)) is not None]


def _resolve(named: dict[str, Any]) -> Tool | None:
    _load()
    return _core.get(named["name"])


def _load() -> None:
    if not _core:
        from agents.tools import core

        register_core(*core.TOOLS)


def find_tool_faults(project: Project, tools: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what is wrong with the tools of a revision, by place."""
    _load()
    faults: dict[str, list[str]] = {}
    seen: set[str] = set()
    for index, each in enumerate(tools):
        if each["name"] in seen:
            faults[f"/tools/{index}"] = [f"{each['name']} is named twice."]
        elif _resolve(each) is None:
            faults[f"/tools/{index}"] = [f"There is no tool {each['name']}. ERL's own are {', '.join(sorted(_core))}."]
        seen.add(each["name"])
    return faults
