"""Tools as clients send and read them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import ContentHash, Input, OneOf, Text
from memory.api.output import Pagination
from memory.limits import MAX_TEXT_CHARS
from memory.review.models import Review
from runtime.definitions.values import Example, ToolDefinition
from runtime.models.tools import Tool, ToolKind, ToolRevision, ToolRuntime, ToolStatus
from runtime.sandbox import SandboxLimits, SandboxStatus

MAX_EXAMPLES = 20
MAX_USES = 50
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$", description="The function's name.")]


class ExampleInput(Input):
    """A call and its answer; both are tried before the tool is stored."""

    arguments: dict[str, Any]
    answer: Any
    host: Annotated[dict[str, Any], Field(description="What the functions in `uses` answer meanwhile.")] = {}


class ToolInput(Input):
    """A tool. One of the runtime `http` has a `request`, the others a `source`."""

    name: ToolName
    description: Annotated[Text, Field(max_length=8_000, description="What it does; the model reads this.")]
    parameters: Annotated[dict[str, Any], Field(description="JSON schema of the arguments, an object.")]
    source: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="Python that defines the function.")] = ""
    uses: Annotated[list[ToolName], Field(max_length=MAX_USES, description="Tools that the source may call.")] = []
    kind: Annotated[str, OneOf(ToolKind)] = ToolKind.UNSAFE.value
    runtime: Annotated[str, OneOf(ToolRuntime)] = ToolRuntime.MONTY.value
    examples: Annotated[list[ExampleInput], Field(max_length=MAX_EXAMPLES)] = []
    limits: Annotated[
        dict[str, float],
        Field(description=f"Of one call: {', '.join(SandboxLimits.__slots__)}. Left out, the defaults hold."),
    ] = {}
    request: Annotated[
        dict[str, Any],
        Field(description="method, url with {argument} in it, headers, secret_headers, seconds, max_bytes."),
    ] = {}
    requires_approval: Annotated[bool, Field(description="Unless a person allowed an agent to call it.")] = False

    def as_definition(self) -> ToolDefinition:
        """Return what was sent as a definition."""
        return ToolDefinition(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            source=self.source,
            uses=tuple(self.uses),
            kind=self.kind,
            runtime=self.runtime,
            examples=tuple(
                Example(arguments=example.arguments, answer=example.answer, host=example.host)
                for example in self.examples
            ),
            # A client may send 5.0, and all limits but the seconds are whole numbers.
            limits={
                name: int(value) if name != "seconds" and value.is_integer() else value
                for name, value in self.limits.items()
            },
            request=self.request,
            requires_approval=self.requires_approval,
        )


class ToolDecisionInput(Input):
    """The content that was read."""

    sha256: Annotated[ContentHash, Field(description="The hash of the revision that was read.")]


class TryInput(Input):
    """A call that changes nothing."""

    arguments: dict[str, Any]
    mode: Annotated[
        str,
        Field(
            pattern="^(dry|shadow)$",
            description="`dry`: functions in `uses` answer what `host` says. `shadow`: those of kind pure are called.",
        ),
    ] = "dry"
    host: Annotated[dict[str, Any], Field(description="What functions in `uses` answer, by name.")] = {}


class ToolRevisionAnswer(BaseModel):
    """A tool as it was at one time."""

    number: int
    description: str
    parameters: dict[str, Any]
    source: str
    uses: list[str]
    kind: Annotated[str, OneOf(ToolKind)]
    runtime: Annotated[str, OneOf(ToolRuntime)]
    examples: list[Any]
    limits: dict[str, Any]
    request: dict[str, Any]
    requires_approval: bool
    sha256: str
    status: Annotated[str, OneOf(ToolStatus)]
    created_by: str
    created_at: datetime
    decided_by: str
    decided_at: datetime | None


class ToolAnswer(BaseModel):
    """A tool: what is in force, and what was stored last."""

    id: UUID
    name: str
    current: ToolRevisionAnswer | None
    latest: ToolRevisionAnswer


class ToolPage(BaseModel):
    """Tools by name."""

    results: list[ToolAnswer]
    pagination: Pagination


class HostCallAnswer(BaseModel):
    """A call of the tool, and what it was answered."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    answer: Any
    error: str


class TryAnswer(BaseModel):
    """How the call ended."""

    status: Annotated[str, Field(json_schema_extra={"enum": [str(each) for each in SandboxStatus]})]
    value: Any
    error: str
    output: str
    output_is_cut: bool
    duration_ms: float
    calls: list[HostCallAnswer]


def describe_tools(tools: Iterable[Tool], latest: Mapping[UUID, ToolRevision]) -> list[dict[str, Any]]:
    """Return tools as clients read them. One query. `latest` is the revision of each that was stored last."""
    tools = list(tools)
    in_force = [tool.current for tool in tools if tool.current is not None]
    decided = Review.objects.newest_of([*in_force, *(latest[tool.pk] for tool in tools)])
    return [
        {
            "id": tool.pk,
            "name": tool.name,
            "current": _describe(tool.current, decided) if tool.current else None,
            "latest": _describe(latest[tool.pk], decided),
        }
        for tool in tools
    ]


def describe_tool(tool: Tool, latest: ToolRevision) -> dict[str, Any]:
    """Return a tool as clients read it."""
    (described,) = describe_tools([tool], {tool.pk: latest})
    return described


def _describe(revision: ToolRevision, decided: Mapping[UUID, Review]) -> dict[str, Any]:
    review = decided.get(revision.pk)
    plain = ToolRevisionAnswer.model_fields.keys() - {"sha256", "decided_by", "decided_at"}
    return {name: getattr(revision, name) for name in plain} | {
        "sha256": revision.content_sha256,
        "decided_by": review.reviewer if review is not None else "",
        "decided_at": review.created_at if review is not None else None,
    }
