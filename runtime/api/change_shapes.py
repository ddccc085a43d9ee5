"""Changes of agents as clients send and read them."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import WHOLE, ContentHash, Id, Input, OneOf, Text
from memory.api.output import Pagination
from memory.errors import InvalidInput
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.limits import MAX_REASON_CHARS, MAX_TEXT_CHARS
from runtime.api.tool_shapes import ToolInput, ToolName
from runtime.changes.kinds import NEVER, ChangeKind
from runtime.changes.policy import explain, last_shadow
from runtime.changes.proposals import ProposedChange, new_tools
from runtime.changes.rehearsals import tabulate
from runtime.changes.served import read_wordings
from runtime.limits import Compacting, ModelSettings, Retrieving
from runtime.models.agents import ChangesBy
from runtime.models.changes import Change, ChangeRung, ChangeSource, CheckVerdict, EvaluationRow

MAX_CASES = 100
MAX_LESSONS = 10
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Why; kept with the change.")]


class CaseInput(Input):
    """Recorded calls of the agent for which a tool stands, in their order."""

    tool: ToolName
    arguments: dict[str, Any]
    effects: Annotated[list[Id], Field(min_length=1, max_length=100, description="Ids of the calls.")]


class ChangeInput(Input):
    """A change of an agent. What is left out stays as it is."""

    agent: Annotated[Id, Field(description="The id of the agent.")]
    reason: Annotated[Text, Field(max_length=MAX_REASON_CHARS, description="Why it should be better.")]
    kind: Annotated[
        str,
        Field(
            json_schema_extra={"enum": ["", *ChangeKind.values, *NEVER]},
            description="What it is about, if you want to say. Of these, "
            f"{', '.join(NEVER)} never evolve and are refused with `never_evolves`.",
        ),
    ] = ""
    system: Annotated[str | None, Field(max_length=MAX_TEXT_CHARS, description="The instructions.")] = None
    tools: Annotated[
        list[ToolInput],
        Field(max_length=10, description="Tools of the runtime monty that it gets; each replaces one of its name."),
    ] = []
    without_tools: Annotated[list[ToolName], Field(max_length=50, description="Tools that it no longer has.")] = []
    rules: Annotated[list[dict[str, Any]] | None, Field(max_length=200, description="All of its rules.")] = None
    compaction: Compacting | None = None
    max_output_tokens: Annotated[int | None, Field(ge=1, le=10_000_000), WHOLE] = None
    model_settings: ModelSettings | None = None
    lessons: Annotated[
        list[Id],
        Field(max_length=MAX_LESSONS, description="Ids of proposed lessons. Trying the change approves them."),
    ] = []
    retrieval: Retrieving | None = None
    cases: Annotated[
        list[CaseInput], Field(max_length=MAX_CASES, description="Recorded calls that new tools have to make again.")
    ] = []

    def as_proposal(self) -> ProposedChange:
        """Return what was sent as a proposal."""
        if self.kind not in ("", *ChangeKind.values, *NEVER):
            raise InvalidInput({"/kind": [f"Send one of {', '.join([*ChangeKind.values, *NEVER])}."]})
        cases = [
            {"tool": item.tool, "arguments": item.arguments, "effects": [str(id) for id in item.effects]}
            for item in self.cases
        ]
        return ProposedChange(
            reason=self.reason,
            kind=self.kind,
            system=self.system,
            tools=tuple(item.as_definition() for item in self.tools),
            without_tools=tuple(self.without_tools),
            rules=None if self.rules is None else tuple(self.rules),
            compaction=self.compaction,
            max_output_tokens=self.max_output_tokens,
            model_settings=self.model_settings,
            lessons=tuple(self.lessons),
            retrieval=self.retrieval,
            evidence={"cases": cases} if cases else {},
        )


class ReasonInput(Input):
    """A decision."""

    reason: Why = ""


class TrialInput(Input):
    """A trial of a change."""

    sha256: Annotated[ContentHash, Field(description="The `sha256` of the change that was read.")]
    percent: Annotated[float, Field(gt=0, le=100, description="Share of the units that get it.")] = 10.0
    reason: Why = ""


class EvolutionInput(Input):
    """How an agent evolves. What is left out stays."""

    changes_by: Annotated[str | None, Field(pattern="^(people|policy)$", description="Who lets changes run.")] = None
    sleep_after_runs: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="After so many runs ERL looks for changes; null for never."),
        WHOLE,
    ] = None  # fmt: skip


class EvolutionAnswer(BaseModel):
    """How an agent evolves."""

    agent: UUID
    changes_by: Annotated[str, OneOf(ChangesBy)]
    sleep_after_runs: int | None


class CheckAnswer(BaseModel):
    """One check and what it found."""

    attempt: int
    name: str
    verdict: Annotated[str, OneOf(CheckVerdict)]
    said: str
    figures: dict[str, Any]
    made_by: str
    made_at: datetime


class ShadowRunAnswer(BaseModel):
    """What the change did with the task of one recorded run."""

    run: UUID
    family: str
    ended: bool
    same: int
    missing: int
    new_reads: int
    new_writes: int
    steps_before: int
    steps_after: int
    tokens_before: int
    tokens_after: int


class DivergenceAnswer(BaseModel):
    """Calls of one tool: those of both, those of the recorded runs only, and those of the candidate only.

    Of the same calls, `late` are those that were made after a call which acts and which they came before.
    """

    tool: str
    same: int
    late: int
    missing: int
    new_reads: int
    new_writes: int


class ChangeAnswer(BaseModel):
    """A change and how far it has come. `sha256` is the hash of everything that it changes."""

    id: UUID
    agent: UUID
    number: int
    kinds: list[str]
    reason: str
    source: Annotated[str, OneOf(ChangeSource)]
    rung: Annotated[str, OneOf(ChangeRung)]
    base: int
    target: int
    sha256: str
    parent: UUID | None
    release: int | None
    created_by: str
    created_at: datetime
    decided_by: str
    decided_at: datetime | None
    decision: str


class BroughtLesson(BaseModel):
    """A lesson that a change brings, in the wording that is approved with it."""

    id: UUID
    status: Annotated[str, OneOf(Heuristic.Status)]
    content_sha256: str
    trigger: str
    guideline: str
    avoid: str
    not_when: str


class ChangeDetail(ChangeAnswer):
    """A change with its evidence. `objections` say what stands in its way: why the policy would not try it,
    why it cannot be tried at this moment, or why it was stopped.
    """

    evidence: dict[str, Any]
    tools: list[str]
    lessons: list[BroughtLesson]
    retrieval: Annotated[dict[str, int], Field(description="How many lessons runs are given, if it changes that.")]
    checks: list[CheckAnswer]
    shadow: list[ShadowRunAnswer]
    divergences: list[DivergenceAnswer]
    objections: list[str]


class ChangePage(BaseModel):
    """Changes, the newest first."""

    results: list[ChangeAnswer]
    pagination: Pagination


def describe_change(change: Change) -> dict[str, Any]:
    """Return a change as clients read it."""
    same = ("id", "number", "kinds", "reason", "source", "rung", "created_by", "created_at", "decided_by", "decided_at")
    return {name: getattr(change, name) for name in same} | {
        "agent": change.agent_id,
        "base": change.base.number,
        "target": change.target.number,
        "sha256": change.sha256,
        "parent": change.parent_id,
        "release": change.release.number if change.release else None,
        "decision": change.decision,
    }


def describe_change_fully(change: Change) -> dict[str, Any]:
    """Return a change with what was found about it."""
    rows = last_shadow(change)
    return describe_change(change) | {
        "evidence": change.evidence,
        "tools": [item.tool.name for item in new_tools(change)],
        "lessons": [_describe_lesson(item) for item in read_wordings(change)],
        "retrieval": change.retrieval,
        "checks": [_describe_check(item) for item in change.checks.order_by("attempt", "index")],
        "shadow": [_describe_shadow(item) for item in rows],
        "divergences": [
            {name: getattr(item, name) for name in DivergenceAnswer.model_fields} for item in tabulate(rows)
        ],
        "objections": explain(change),
    }


def _describe_lesson(wording: HeuristicRevision) -> dict[str, Any]:
    words = {name: getattr(wording, name) for name in ("content_sha256", "trigger", "guideline", "avoid", "not_when")}
    return words | {"id": wording.heuristic_id, "status": wording.heuristic.status}


def _describe_check(check: EvaluationRow) -> dict[str, Any]:
    return {name: getattr(check, name) for name in CheckAnswer.model_fields}


def _describe_shadow(row: EvaluationRow) -> dict[str, Any]:
    members = {"run": row.run_id, "family": row.name}
    return members | {name: row.figures[name] for name in ShadowRunAnswer.model_fields if name not in members}
