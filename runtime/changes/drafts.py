"""What a language model proposes, read strictly: what is not what was asked for is unusable, with the reason."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.limits import JsonLimits
from memory.strict_json import InvalidJson, parse_json
from reflection.llm.base import closed_object
from reflection.reflectors.llm_answer import UnusableAnswer, describe, read_object
from runtime.changes.proposals import ProposedChange
from runtime.definitions.values import Example, ToolDefinition
from runtime.models.changes import Change

MOST_CANDIDATES = 4
MOST_READ = 20  # of an answer that has more than it was asked for
_LIMITS = JsonLimits(depth_levels=20, values=5_000, text_chars=50_000)
_FROZEN = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """The proposals of an answer, and why each of the other candidates could not be used."""

    proposals: tuple[ProposedChange, ...] = ()
    unusable: tuple[str, ...] = ()


class _Draft(BaseModel):
    model_config = _FROZEN

    kind: Literal["prompt", "rules", "settings", "tool"]
    reason: str = Field(min_length=1, max_length=2_000)
    content: str = Field(min_length=1, max_length=50_000)


class _Answer(BaseModel):
    model_config = _FROZEN

    candidates: list[Any] = Field(max_length=MOST_READ)


class _Rules(BaseModel):
    model_config = _FROZEN

    rules: list[dict[str, Any]] = Field(max_length=100)


class _Settings(BaseModel):
    model_config = _FROZEN

    max_output_tokens: int = Field(gt=0)


class _ToolExample(BaseModel):
    model_config = _FROZEN

    arguments: dict[str, Any]
    answer: Any
    host: dict[str, Any] = {}


class _Tool(BaseModel):
    model_config = _FROZEN

    name: str = Field(max_length=100)
    description: str = Field(max_length=4_000)
    parameters: dict[str, Any]
    source: str = Field(max_length=50_000)
    # JSON knows no tuples, and strict mode would refuse its lists.
    uses: tuple[str, ...] = Field(default=(), strict=False)
    examples: tuple[_ToolExample, ...] = Field(default=(), max_length=20, strict=False)


def read_answer(text: str, *, finish_reason: str, evidence: dict[str, Any]) -> Read:
    """Return the proposals of an answer, each with this evidence. One candidate that cannot be used spoils no other."""
    try:
        candidates = _Answer.model_validate(read_object(text, finish_reason=finish_reason, limits=_LIMITS)).candidates
    except ValidationError as error:
        return Read(unusable=(describe(error),))
    except UnusableAnswer as error:
        return Read(unusable=(error.reason,))
    proposals: list[ProposedChange] = []
    unusable: list[str] = []
    if len(candidates) > MOST_CANDIDATES:
        unusable.append(f"There are {len(candidates)} candidates; at most {MOST_CANDIDATES} were asked for.")
    for candidate in candidates[:MOST_CANDIDATES]:
        try:
            proposals.append(_read_draft(_Draft.model_validate(candidate), evidence))
        except ValidationError as error:
            unusable.append(describe(error))
        except InvalidJson as error:
            unusable.append(f"The content is not usable JSON. {error}")
    return Read(proposals=tuple(proposals), unusable=tuple(unusable))


def answer_schema() -> dict[str, Any]:
    """Return the JSON schema of the answer, in the subset that providers take."""
    text = {"type": "string"}
    kinds = {"type": "string", "enum": ["prompt", "rules", "settings", "tool"]}
    candidate = closed_object({"kind": kinds, "reason": text, "content": text})
    return closed_object({"candidates": {"type": "array", "items": candidate}})


def _read_draft(draft: _Draft, evidence: dict[str, Any]) -> ProposedChange:
    common: dict[str, Any] = {"reason": draft.reason.strip(), "evidence": evidence, "source": Change.Source.SLEEP}
    match draft.kind:
        case "prompt":
            return ProposedChange(system=draft.content, **common)
        case "rules":
            rules = _Rules.model_validate({"rules": _parse(draft.content)}).rules
            return ProposedChange(rules=tuple(rules), **common)
        case "settings":
            settings = _Settings.model_validate(_parse(draft.content))
            return ProposedChange(max_output_tokens=settings.max_output_tokens, **common)
        case "tool":
            return ProposedChange(tools=(read_tool(_parse(draft.content)),), **common)


def read_tool(value: Any) -> ToolDefinition:
    """Return a tool that a model wrote as JSON.

    Raises:
        ValidationError: it is something else.
    """
    sent = _Tool.model_validate(value)
    return ToolDefinition(
        name=sent.name,
        description=sent.description,
        parameters=sent.parameters,
        source=sent.source,
        uses=sent.uses,
        examples=tuple(
            Example(arguments=example.arguments, answer=example.answer, host=example.host) for example in sent.examples
        ),
    )


def _parse(content: str) -> Any:
    return parse_json(content.encode(), limits=_LIMITS)
