"""The tool by which an agent proposes a change of itself during a run. Nothing changes before others have decided."""

from typing import Any

from pydantic import ValidationError

from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from reflection.reflectors.llm_answer import describe
from runtime.changes.drafts import read_tool
from runtime.changes.kinds import NEVER, ChangeKind
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.definitions.values import ToolDefinition
from runtime.errors import ToolError
from runtime.models.changes import Change
from runtime.models.effects import Effect
from runtime.tools.catalogue import LoopTool
from runtime.tools.core import object_schema


def propose(effect: Effect) -> str:
    """Write down a change of the agent that calls this."""
    sent, run = effect.arguments, effect.run
    proposal = ProposedChange(
        reason=sent["reason"],
        kind=sent["kind"],
        system=sent.get("system"),
        tools=(_read_tool(sent["tool"]),) if sent.get("tool") else (),
        evidence={"runs": [str(run.pk)]},
        source=Change.Source.AGENT,
    )
    if not sent["reason"].strip():
        raise ToolError("Write in reason why it would be better.")
    try:
        change = propose_change(run.agent, proposal, by=Actor(label=f"agent:{run.agent.name}"))
    except ToolError:
        raise
    except MemoryAppError as refusal:
        raise ToolError(str(refusal)) from None
    return f"Change {change.number} is proposed. It is checked and rehearsed, and others decide whether you get it."


def _read_tool(sent: dict[str, Any]) -> ToolDefinition:
    try:
        return read_tool(sent)
    except ValidationError as error:
        raise ToolError(
            f"The tool cannot be read: {describe(error)} Send name, description, parameters, source, uses and examples "
            "with arguments, answer and host."
        ) from None


_TEXT = {"type": "string"}
TOOLS = (
    LoopTool(
        name="propose_change",
        description="Propose a change of yourself: other instructions, or a tool of your own in Python that makes "
        "several calls in one. It is checked and rehearsed on recorded runs, and others decide. These can never be "
        f"changed: {', '.join(NEVER)}.",
        parameters=object_schema(
            ["kind", "reason"],
            kind=_TEXT | {"description": f"{ChangeKind.PROMPT.value} or {ChangeKind.TOOL.value}."},
            reason=_TEXT | {"description": "Why it would be better, in one or two sentences."},
            system=_TEXT | {"description": "All of your instructions, as they should be."},
            tool={
                "type": "object",
                "description": "name, description, parameters (JSON schema), source (a Python function of that name), "
                "uses (tools that it calls), examples ({arguments, answer, host}).",
            },
        ),
        kind=Effect.Kind.LOCAL,
        execute=propose,
    ),
)
