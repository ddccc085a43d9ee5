"""What a definition says, however it was written: in a Python file, or in a request."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.models.tools import ToolKind, ToolRuntime
from memory.api.canonical import canonical_json


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
    blocks: tuple[BlockDefinition, ...] = ()
    tools: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    compaction: Mapping[str, Any] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    rule_lines: tuple[int, ...] = field(default=(), compare=False)
