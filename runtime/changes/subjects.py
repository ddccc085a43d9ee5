"""An agent's revision as the subject of a trial, whether its tools are in force or only proposed."""

from typing import Any

from reflection.llm.chat import ChatTool
from reflection.llm.registry import provider_of
from runtime.changes.trials import Subject
from runtime.context.prompt import read_tools
from runtime.definitions.storage import as_definition, find_schemas
from runtime.definitions.values import ToolDefinition
from runtime.limits import Limits, ModelSettings
from runtime.models.agents import AgentRevision
from runtime.models.runs import Run
from runtime.models.tools import ToolRevision, ToolRuntime
from runtime.tools.catalogue import core_tools

REHEARSED_STEPS = 50


def tools_of_revision(revision: AgentRevision) -> list[tuple[ChatTool, ToolDefinition | None]]:
    """Return the tools of a revision in their order, with the definitions of those of the project."""
    pinned = {each["revision"] for each in revision.tools if "revision" in each}
    found = {str(each.pk): each for each in ToolRevision.objects.filter(pk__in=pinned).select_related("tool")}
    tools: list[tuple[ChatTool, ToolDefinition | None]] = []
    for each in revision.tools:
        if "revision" in each and each["revision"] in found:
            definition = as_definition(found[each["revision"]])
            tools.append((_for_model(definition), definition))
        elif each["name"] in core_tools():
            tools.append((core_tools()[each["name"]].for_model, None))
    return tools


def subject_of(revision: AgentRevision, run: Run, *, lessons: str = "") -> Subject:
    """Return a revision that works on the task of a recorded run, with the memory and lessons which that run had.

    Args:
        lessons: a block with others, which it has besides.
    """
    head = revision.system + run.head.removeprefix(run.revision.system)
    tools = tools_of_revision(revision)
    sources = {each.name: each for _, each in tools if each is not None and each.runtime == ToolRuntime.MONTY}
    uses = {name for each in sources.values() for name in each.uses}
    return Subject(
        head="\n\n".join(part for part in (head, lessons) if part),
        tools=tuple(tool for tool, _ in tools) if tools else read_tools([]),
        sources=sources,
        schemas=find_schemas(run.project, uses),
        rules=tuple(revision.rules),
        max_output_tokens=revision.max_output_tokens,
        temperature=revision.temperature,
        model_settings=ModelSettings.model_validate(revision.model_settings),
        window_tokens=revision.window_tokens,
        limits=Limits(
            max_steps=min(run.max_steps, REHEARSED_STEPS),
            max_tokens=run.max_tokens,
            max_cost_usd=run.max_cost_usd,
            max_seconds=run.max_seconds,
        ),
        provider=provider_of(revision.model),
    )


def _for_model(definition: ToolDefinition) -> ChatTool:
    parameters: dict[str, Any] = dict(definition.parameters)
    return ChatTool(name=definition.name, description=definition.description, parameters=parameters)
