"""Store what a file defines, and write what is stored as a file."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from memory.blocks.edits import NewBlock, create_block
from memory.blocks.models import Block
from memory.blocks.serializers import BlockInput
from memory.errors import InvalidInput, MemoryAppError
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.strict_json import check_json
from runtime.definitions.export import write_file
from runtime.definitions.python_file import read_definitions
from runtime.definitions.storage import Stored, as_definition, save_tool
from runtime.definitions.values import AgentDefinition, AgentInput, BlockDefinition, ToolDefinition
from runtime.errors import Fault, InvalidDefinition
from runtime.limits import Compacting, Limits
from runtime.models.agents import Agent, AgentRevision
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, create_agent, revise_agent
from runtime.tools.catalogue import pin_tools


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a file changed: each tool and agent by name, and whether it has a new revision."""

    tools: dict[str, bool]
    agents: dict[str, bool]


@transaction.atomic
def load_file(project: Project, text: str, *, by: Actor) -> Loaded:
    """Store the tools and agents of a file and put them in force. What has not changed stays as it is.

    Raises:
        InvalidDefinition: nothing was stored; with every fault that was found, and its line.
    """
    read = read_definitions(text)
    # Tools of the file may use each other before any of them is stored.
    schemas = {tool.name: tool.parameters for tool in read.tools}
    stored: dict[str, Stored] = {}
    faults: list[Fault] = []
    for tool in read.tools:
        try:
            stored[tool.name] = save_tool(project, tool, by=by, approve=True, others=schemas)
        except InvalidDefinition as error:
            faults += error.faults
    # Raised only now, so that a person sees all faults at once.
    if faults:
        raise InvalidDefinition(faults)
    # After the tools, which agents pin.
    agents = {agent.name: save_agent(project, agent, by=by) for agent in read.agents}
    return Loaded(tools={name: entry.created for name, entry in stored.items()}, agents=agents)


@transaction.atomic
def save_agent(project: Project, definition: AgentDefinition, *, by: Actor) -> bool:
    """Make an agent what its definition says; return whether that is new.

    Its tools are pinned to the revisions in force. A block it has already keeps its value: the definition says only how
    a block begins.

    Raises:
        InvalidDefinition: it is not as it should be.
    """
    agent = Agent.objects.filter(project=project, name=definition.name).select_related("current").first()
    before = agent.current if agent else None
    try:
        spec = _make_spec(project, definition, before, by=by)
        if agent is None:
            create_agent(
                project, name=definition.name, spec=spec, by=by, description=definition.description, may_allow=True
            )
            return True
        after = revise_agent(agent, spec=spec, by=by, description=definition.description, may_allow=True)
    except InvalidInput as error:
        raise InvalidDefinition(
            [
                Fault(f"{definition.name}, {at.strip('/')}: {text}", _find_line(definition, at))
                for at, texts in error.fields.items()
                for text in texts
            ]
        ) from None
    except MemoryAppError as error:
        raise InvalidDefinition([Fault(f"{definition.name}: {error}", definition.line or None)]) from None
    return before is None or after.current is None or after.current.pk != before.pk


def _make_spec(project: Project, definition: AgentDefinition, before: AgentRevision | None, *, by: Actor) -> AgentSpec:
    read = _read_agent(definition)
    there = {block["label"]: block for block in before.blocks} if before else {}
    return AgentSpec(
        system=read.system,
        model=read.model,
        window_tokens=read.window_tokens,
        max_output_tokens=read.max_output_tokens,
        temperature=read.temperature,
        model_settings=read.model_settings,
        tools=tuple(pin_tools(project, definition.tools)),
        blocks=tuple(
            _take_block(project, block, place=f"/blocks/{index}", there=there, by=by)
            for index, block in enumerate(definition.blocks)
        ),
        rules=tuple(read.rules),
        limits=read.limits,
        compaction=read.compaction,
    )


def _read_agent(definition: AgentDefinition) -> AgentInput:
    """Read an agent as a request that makes one is read, so that a file may say the same and no more."""
    names = ("name", "description", "system", "model", "window_tokens", "max_output_tokens", "temperature")
    sent = {name: value for name in names if (value := getattr(definition, name)) is not None}
    sent |= {"tools": list(definition.tools), "rules": [dict(rule) for rule in definition.rules]}
    sent |= {name: getattr(definition, name) for name in ("limits", "compaction", "model_settings")}
    check_json(sent)
    return AgentInput.from_body(sent)


def _take_block(
    project: Project, definition: BlockDefinition, *, place: str, there: dict[str, dict[str, Any]], by: Actor
) -> dict[str, Any]:
    """Return a block as a revision names it: the one that the agent has by this label, or a new one."""
    try:
        read = _read_block(definition)
        return there.get(read.label) or _make_block(project, read, by=by)
    except InvalidInput as error:
        raise InvalidInput({place + at: texts for at, texts in error.fields.items()}) from None
    except MemoryAppError as error:
        raise InvalidInput({place: [str(error)]}) from None


def _read_block(definition: BlockDefinition) -> BlockInput:
    sent = {name: getattr(definition, name) for name in ("label", "value", "description", "policy", "read_only")}
    sent |= {} if definition.limit is None else {"char_limit": definition.limit}
    check_json(sent)
    return BlockInput.from_body(sent)


def _make_block(project: Project, read: BlockInput, *, by: Actor) -> dict[str, Any]:
    return {"label": read.label, "block": str(create_block(project, NewBlock(**read.model_dump()), by=by).pk)}


def _find_line(definition: AgentDefinition, place: str) -> int | None:
    """Return the line of a rule or block that is wrong, else that of the agent."""
    kind, index, *_ = [*place.strip("/").split("/"), ""]
    lines = {"rules": definition.rule_lines, "blocks": definition.block_lines}.get(kind, ())
    if index.isdecimal() and int(index) < len(lines):
        return lines[int(index)]
    return definition.line or None


def export_agent(agent: Agent) -> str:
    """Return a file that defines an agent as it is, with the tools of the project that it has and those they use."""
    revision = agent.current
    assert revision is not None, "every agent has a revision"
    pinned = ToolRevision.objects.filter(pk__in=[tool["revision"] for tool in revision.tools if "revision" in tool])
    tools = _with_used(agent.project, pinned.select_related("tool").order_by("tool__name"))
    return write_file(tools, [_describe_agent(agent, revision)])


def _with_used(project: Project, revisions: Iterable[ToolRevision]) -> list[ToolDefinition]:
    """Return tools, each after those that it uses."""
    definitions: dict[str, ToolDefinition] = {}

    def add(revision: ToolRevision) -> None:
        if revision.tool.name in definitions:
            return
        # Entered before the tools that it uses, so that two that use each other come to an end.
        definitions[revision.tool.name] = definition = as_definition(revision)
        used = Tool.objects.filter(project=project, name__in=definition.uses, current__isnull=False)
        for tool in used.select_related("current__tool").order_by("name"):
            assert tool.current is not None  # by the filter
            add(tool.current)
        # Entered again, since its place is after them.
        definitions[revision.tool.name] = definitions.pop(revision.tool.name)

    for revision in revisions:
        add(revision)
    return list(definitions.values())


def _describe_agent(agent: Agent, revision: AgentRevision) -> AgentDefinition:
    blocks = Block.objects.select_related("current").in_bulk([entry["block"] for entry in revision.blocks])
    by_id = {str(pk): block for pk, block in blocks.items()}
    usual = {"limits": Limits().model_dump(), "compaction": Compacting().model_dump()}
    return AgentDefinition(
        name=agent.name,
        description=agent.description,
        system=revision.system,
        model=revision.model,
        window_tokens=revision.window_tokens,
        max_output_tokens=revision.max_output_tokens,
        temperature=revision.temperature,
        model_settings=revision.model_settings,
        blocks=tuple(
            _describe_block(entry["label"], by_id[entry["block"]])
            for entry in revision.blocks
            if entry["block"] in by_id
        ),
        tools=tuple(entry["name"] for entry in revision.tools),
        rules=tuple(revision.rules),
        limits=_other_than(usual["limits"], revision.limits),
        compaction=_other_than(usual["compaction"], revision.compaction),
    )


def _describe_block(label: str, block: Block) -> BlockDefinition:
    return BlockDefinition(
        label=label,
        value=block.current.value if block.current else "",
        description=block.description,
        limit=block.char_limit,
        policy=block.policy,
        read_only=block.read_only,
    )


def _other_than(usual: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if usual.get(name) != value}
