"""What a definition says, however it was written: in a Python file, or in a request."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from memory.api.canonical import canonical_json
from memory.api.input import WHOLE, Id, Input, Name
from memory.limits import MAX_TEXT_CHARS
from runtime.limits import Compacting, Limits, ModelSettings
from runtime.models.tools import ToolKind, ToolRuntime

MAX_WINDOW_TOKENS = 10_000_000
AgentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="Unique in the project.")]
Tokens = Annotated[int, Field(ge=1, le=MAX_WINDOW_TOKENS), WHOLE]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A call, what it answers, and what the host functions answer to the tool meanwhile."""

    arguments: Mapping[str, Any]
    answer: Any
    host: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"arguments": dict(self.arguments), "answer": self.answer, "host": dict(self.host)}


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDefinition:
    """A tool as it is defined. `lines` are the lines of its file in which the lines of its source stand."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    source: str = ""
    uses: tuple[str, ...] = ()
    kind: str = ToolKind.UNSAFE
    runtime: str = ToolRuntime.MONTY
    examples: tuple[Example, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    requires_approval: bool = False
    # Where a tool stands in a file does not make it another tool.
    lines: tuple[int, ...] = field(default=(), compare=False)

    def content(self) -> dict[str, Any]:
        """Return everything that makes it what it is, as JSON."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "source": self.source,
            "uses": list(self.uses),
            "kind": str(self.kind),
            "runtime": str(self.runtime),
            "examples": [example.as_json() for example in self.examples],
            "limits": dict(self.limits),
            "request": dict(self.request),
            "requires_approval": self.requires_approval,
        }

    @property
    def sha256(self) -> str:
        return hashlib.sha256(canonical_json(self.content())).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockDefinition:
    """A block of memory that an agent has from the start."""

    label: str
    value: str = ""
    description: str = ""
    limit: int | None = None
    policy: str = "direct"
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentDefinition:
    """An agent as it is defined. `tools` are names: of tools in the project, and of those that are part of ERL."""

    name: str
    description: str = ""
    system: str = ""
    model: str = ""
    window_tokens: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[BlockDefinition, ...] = ()
    tools: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    compaction: Mapping[str, Any] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    rule_lines: tuple[int, ...] = field(default=(), compare=False)
    block_lines: tuple[int, ...] = field(default=(), compare=False)


_BLOCK_BY_NAME = (
    'Send an object with a label and the id of a block, such as {"label": "customer", "block": "<id>"}. POST /blocks '
    "makes a block, and GET /blocks lists them with their ids."
)


class AgentBlock(Input):
    """A block of memory under the label by which this agent knows it."""

    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,99}$")]
    block: Annotated[Id, Field(description="The id of the block.")]

    @model_validator(mode="before")
    @classmethod
    def _explain_name(cls, sent: Any) -> Any:
        if isinstance(sent, str):
            raise PydanticCustomError(
                "block",
                "{text}",
                {"text": _BLOCK_BY_NAME},
            )
        return sent


class AgentMembers(Input):
    """What an agent is. Each change makes a revision that stays."""

    description: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="For people.")] = ""
    system: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="The instructions.")] = ""
    model: Annotated[Name, Field(description="Empty for the server's own.")] = ""
    window_tokens: Annotated[Tokens, Field(description="Size of the context window.")] = 32_000
    max_output_tokens: Annotated[
        Tokens | None,
        Field(
            description="Of one answer of the model. Without it 8,000, or 16,000 where `thinking` is set, but at most "
            "a quarter or half of the window."
        ),
    ] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    model_settings: ModelSettings = Field(default_factory=ModelSettings)
    blocks: Annotated[list[AgentBlock], Field(max_length=100)] = Field(default_factory=list)
    tools: Annotated[
        list[Name],
        Field(max_length=200, description="Names: of ERL's own tools, and of tools of the project that are in force."),
    ] = Field(default_factory=list)
    rules: Annotated[
        list[dict[str, Any]],
        Field(max_length=200, description='Such as `{"type": "requires_approval", "tool": "refund"}`.'),
    ] = Field(default_factory=list)
    limits: Limits = Field(default_factory=Limits)
    compaction: Compacting = Field(default_factory=Compacting)


class AgentInput(AgentMembers):
    """A new agent."""

    name: AgentName
