"""The tools of a run by name: those of ERL, and those of the project."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F

from memory.projects.models import Project
from memory.retrieval.safe_text import clean_text
from reflection.llm.chat import ChatTool
from runtime.errors import InvalidArguments
from runtime.models.effects import Effect
from runtime.models.runs import Run
from runtime.models.tools import ToolKind, ToolRevision, ToolRuntime
from runtime.schema import check_arguments
from runtime.tools.custom import EXECUTORS


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopTool:
    """A tool as the loop sees it. `execute` gets the effect, and returns a text or what can be written as JSON.

    It raises a `MemoryAppError` with a sentence for the agent where the agent can do something about it.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    kind: str
    execute: Callable[[Effect], Any] = field(repr=False)
    revision: ToolRevision | None = None
    needs_approval: bool = False

    def find_fault(self, arguments: dict[str, Any]) -> str:
        """Return what is wrong with arguments, as a sentence for the agent; "" where nothing is."""
        try:
            check_arguments(self.parameters, arguments)
        except InvalidArguments as error:
            return str(error)
        return ""

    @property
    def for_model(self) -> ChatTool:
        """The tool as the model reads it: what describes it and its parameters is safe in a prompt."""
        return ChatTool(
            name=self.name, description=clean_text(self.description), parameters=_clean_descriptions(self.parameters)
        )


def _clean_descriptions(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_clean_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {name: _clean_descriptions(part) for name, part in schema.items()}
    read = {name: clean_text(schema[name]) for name in ("description", "title") if isinstance(schema.get(name), str)}
    return cleaned | read


ALWAYS_OFFERED = ("read_result", "conversation_search")  # where a text of ERL refers to them
_core: dict[str, LoopTool] = {}
_more: list[LoopTool] = []


def add_core_tools(*tools: LoopTool) -> None:
    """Add tools of ERL that belong to a package above this one."""
    _more.extend(tools)


def core_tools() -> dict[str, LoopTool]:
    """Return ERL's own tools by name."""
    if not _core:
        # Imported here, because these modules import this one.
        from runtime.tools import core, memory_tools

        _core.update({tool.name: tool for tool in (*core.TOOLS, *memory_tools.TOOLS, *_more)})
    return _core


def find_tool(run: Run, name: str, *, parent: Effect | None = None) -> LoopTool | None:
    """Return a tool that a run's agent has, or that a tool in the sandbox may use; None where it has none of the name.

    An agent's tools are pinned by its revision, except those that read its own conversation. A tool uses what is in
    force.
    """
    if parent is not None:
        uses = parent.tool_revision.uses if parent.tool_revision else ()
        return _find_current(run.project_id, name) if name in uses else None
    pin = next((entry for entry in run.revision.tools if entry["name"] == name), None)
    if pin is None and name in ALWAYS_OFFERED:
        return core_tools()[name]
    return None if pin is None else _find_named(run.project_id, pin)


def tools_of(run: Run) -> list[LoopTool]:
    """Return the tools of a run's agent in their order."""
    return [tool for entry in run.revision.tools if (tool := _find_named(run.project_id, entry)) is not None]


def pin_tools(project: Project, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return tools as a revision of an agent names them, each of the project's with the revision that is in force."""
    pinned: list[dict[str, Any]] = []
    for name in names:
        tool = _find_current(project.pk, name)
        revision = tool.revision if tool else None
        pinned.append({"name": name, "revision": str(revision.pk)} if revision else {"name": name})
    return pinned


def find_tool_faults(project: Project, tools: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what is wrong with the tools of a revision, by place."""
    faults: dict[str, list[str]] = {}
    seen: set[str] = set()
    for index, entry in enumerate(tools):
        name = entry["name"]
        if name in seen:
            faults[f"/tools/{index}"] = [f"{name} is named twice."]
        elif _find_named(project.pk, entry) is None:
            own = ", ".join(sorted(core_tools()))
            faults[f"/tools/{index}"] = [
                f"No approved tool {name} can be run here. Store it and have it approved. ERL's own tools are {own}."
            ]
        seen.add(name)
    return faults


def _find_named(project_id: UUID, named: dict[str, Any]) -> LoopTool | None:
    if "revision" not in named:
        return core_tools().get(named["name"])
    revisions = ToolRevision.objects.approved().filter(project=project_id, tool__name=named["name"])
    return _from_revision(revisions.select_related("tool").filter(pk=named["revision"]).first())


def _find_current(project_id: UUID, name: str) -> LoopTool | None:
    if name in core_tools():
        return core_tools()[name]
    current = ToolRevision.objects.filter(tool__project=project_id, tool__name=name, tool__current__isnull=False)
    return _from_revision(current.filter(tool__current=F("pk")).select_related("tool").first())


def _from_revision(revision: ToolRevision | None) -> LoopTool | None:
    execute = EXECUTORS.get(revision.runtime) if revision else None
    if revision is None or execute is None:
        return None
    # What a tool in the sandbox does to the world, it does by calls of its host, which are effects of their own kind.
    kind = revision.kind if revision.runtime == ToolRuntime.HTTP else ToolKind.PURE
    return LoopTool(
        name=revision.tool.name,
        description=revision.description,
        parameters=revision.parameters,
        kind=kind,
        execute=execute,
        revision=revision,
        needs_approval=revision.requires_approval,
    )
