"""Agents, runs and decisions as clients send and read them."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from memory.api.input import ContentHash, Id, Input, Name, OneOf, Text, UserId, wrong_member
from memory.api.output import Pagination
from memory.limits import MAX_REASON_CHARS, MAX_TASK_CHARS, MAX_TEXT_CHARS
from runtime.api.conversation_shapes import AttachmentInput
from runtime.approvals import CallDecision
from runtime.definitions.values import AgentMembers
from runtime.limits import Limits
from runtime.models.agents import Agent, AgentRevision
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run, RunStatus, Step, StepStatus, StopReason, WaitsFor
from runtime.models.tools import ToolKind
from runtime.progress import ModelAttempt, waits_for
from runtime.revisions import AgentSpec

Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Why; a rejected agent reads it.")]


class AgentPatch(AgentMembers):
    """What to change; what is left out stays as it is."""


class AllowToolInput(Input):
    """A tool that a person has read and trusts this agent with."""

    tool: Annotated[Name, Field(min_length=1, description="The name of a tool of the agent.")]
    sha256: Annotated[
        ContentHash | None, Field(description="The hash of the revision that was read; none for ERL's own tools.")
    ] = None


class RunInput(Input):
    """What an agent is to do."""

    input: Annotated[Text, Field(max_length=MAX_TASK_CHARS, description="The message of the user.")]
    attachments: Annotated[
        list[AttachmentInput],
        Field(max_length=10, description="Images and files of the message, if the model takes them."),
    ] = []
    conversation: Annotated[Id | None, Field(description="Where to go on; a new conversation if left out.")] = None
    task_id: Annotated[Name, Field(description="The task family.")] = ""
    user_id: UserId = ""
    limits: Annotated[Limits | None, Field(description="The agent's own if left out.")] = None
    open_run: Annotated[
        str,
        Field(
            pattern="^(refuse|replace)$",
            description="What becomes of a run that goes on in the conversation: with `refuse` the answer is 409, with "
            "`replace` it is cancelled and this message takes its place.",
        ),
    ] = "refuse"


class ResumeInput(Input):
    """How far the run may go this time."""

    limits: Annotated[Limits | None, Field(description="The agent's own if left out.")] = None


class DecisionInput(Input):
    """A decision about a call that waits."""

    decision: Annotated[
        str,
        OneOf(CallDecision),
        Field(
            description="`approve` lets it happen, `edit` with other arguments, `reject` does not, and `answer` is "
            "given to the agent in place of the tool's result. Of a call about which it is not known whether it "
            "happened, `approve` carries it out again, `reject` says that it did not happen, and `answer` what it "
            "returned."
        ),
    ]
    arguments_sha256: Annotated[ContentHash, Field(description="The hash of the arguments that you read.")]
    reason: Reason = ""
    arguments: Annotated[dict[str, Any] | None, Field(description="For `edit`: all arguments.")] = None
    answer: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="For `answer`.")] = ""

    @model_validator(mode="after")
    def _fit_the_decision(self) -> "DecisionInput":
        if (self.decision == CallDecision.EDIT) != (self.arguments is not None):
            raise wrong_member("arguments", "Send arguments with the decision edit, and only with it.")
        if self.decision != CallDecision.ANSWER and self.answer:
            raise wrong_member("answer", "Send an answer only with the decision answer.")
        return self


class RevisionAnswer(BaseModel):
    """What an agent was at one time."""

    number: int
    sha256: str
    system: str
    model: str
    window_tokens: int
    max_output_tokens: int
    temperature: float | None
    model_settings: dict[str, Any]
    blocks: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    limits: dict[str, Any]
    compaction: dict[str, Any]
    created_by: str
    created_at: datetime


class AgentAnswer(BaseModel):
    """An agent as it is now."""

    id: UUID
    name: str
    description: str
    created_by: str
    created_at: datetime
    archived_at: datetime | None
    current: RevisionAnswer


class AgentPage(BaseModel):
    """Agents, the newest first."""

    results: list[AgentAnswer]
    pagination: Pagination


class RevisionPage(BaseModel):
    """Revisions of an agent, the newest first."""

    results: list[RevisionAnswer]
    pagination: Pagination


class RunAnswer(BaseModel):
    """A run. `trajectory` is its record among all runs of the project, once it has ended."""

    id: UUID
    agent: UUID
    agent_name: str
    agent_revision: int
    conversation: UUID
    user_id: str
    resumes: UUID | None
    status: Annotated[str, OneOf(RunStatus)]
    waits_for: Annotated[
        str,
        OneOf(WaitsFor),
        Field(description="What a run that goes on waits for; `later` is the next try, or tomorrow's budget."),
    ]
    stop_reason: Annotated[str, OneOf(StopReason)]
    error: str
    task: str
    task_id: str
    reply: Annotated[str | None, Field(description="The newest message to the user; null where there is none.")]
    release: int | None
    arm: str
    retrieval: UUID | None
    trajectory: UUID | None
    steps_taken: int
    input_tokens: int
    output_tokens: int
    cost_usd: str
    events: Annotated[int, Field(description="How many events it has written.")]
    limits: dict[str, Any]
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunPage(BaseModel):
    """Runs, the newest first."""

    results: list[RunAnswer]
    pagination: Pagination


class AttemptAnswer(BaseModel):
    """A question of a step that had no answer. A request that was given up may have been paid."""

    code: str
    error: str
    at: datetime


class StepAnswer(BaseModel):
    """A step: one question to the model and its answer."""

    seq: int
    status: Annotated[str, OneOf(StepStatus)]
    prompt_sha256: str
    prompt_tokens: int
    through: Annotated[int, Field(description="The last message that the model read.")]
    model: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cost_usd: str
    attempts: Annotated[list[AttemptAnswer], Field(description="What was asked before without an answer.")]
    started_at: datetime
    finished_at: datetime | None


class StepPage(BaseModel):
    """Steps, in their order."""

    results: list[StepAnswer]
    pagination: Pagination


class EffectAnswer(BaseModel):
    """A call of a tool. `parent` is the call of the tool in the sandbox that made it."""

    id: UUID
    run: UUID
    step: int
    index: int
    parent: UUID | None
    replaces: UUID | None
    tool: str
    kind: Annotated[str, OneOf(ToolKind)]
    status: Annotated[str, OneOf(Effect.Status)]
    arguments: dict[str, Any]
    arguments_sha256: str
    needs_approval: bool
    result: str
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class EffectPage(BaseModel):
    """Calls of tools, in their order."""

    results: list[EffectAnswer]
    pagination: Pagination


class ApprovalAnswer(BaseModel):
    """A question to people about a call. `about_unknown`: it was started, and nothing knows how it ended."""

    id: UUID
    run: UUID
    agent: UUID
    effect: EffectAnswer
    about_unknown: bool
    status: Annotated[str, OneOf(Approval.Status)]
    reason: str
    requested_at: datetime
    expires_at: datetime | None
    decided_by: str
    decided_at: datetime | None


class ApprovalPage(BaseModel):
    """Questions to people, the newest first."""

    results: list[ApprovalAnswer]
    pagination: Pagination


def describe_revision(revision: AgentRevision) -> dict[str, Any]:
    columns = {"sha256": "content_sha256"}
    return {name: getattr(revision, columns.get(name, name)) for name in RevisionAnswer.model_fields}


def describe_agent(agent: Agent) -> dict[str, Any]:
    assert agent.current is not None  # every agent has one
    plain = ("id", "name", "description", "created_by", "created_at", "archived_at")
    return {name: getattr(agent, name) for name in plain} | {"current": describe_revision(agent.current)}


def describe_run(run: Run, *, reply: str | None = None) -> dict[str, Any]:
    plain = ["id", "status", "stop_reason", "error", "task", "task_id", "arm", "steps_taken", "input_tokens"]
    plain += ["output_tokens", "created_by", "created_at", "started_at", "finished_at"]
    return {name: getattr(run, name) for name in plain} | {
        "agent": run.agent_id,
        "agent_name": run.agent.name,
        "agent_revision": run.revision.number,
        "conversation": run.conversation_id,
        "user_id": run.conversation.user_id,
        "resumes": run.resumes_id,
        "reply": reply,
        "waits_for": waits_for(run),
        "release": run.release.number if run.release else None,
        "retrieval": run.retrieval_id,
        "trajectory": run.trajectory_id,
        "cost_usd": f"{run.cost_usd:.6f}",
        "events": run.events_written,
        "limits": {
            "max_steps": run.max_steps,
            "max_tokens": run.max_tokens,
            "max_cost_usd": None if run.max_cost_usd is None else float(run.max_cost_usd),
            "max_seconds": run.max_seconds,
            "approval_seconds": run.approval_seconds,
        },
    }


def describe_step(step: Step, attempts: Iterable[ModelAttempt]) -> dict[str, Any]:
    related = {"cost_usd": f"{step.cost_usd:.6f}", "attempts": [asdict(attempt) for attempt in attempts]}
    return {name: getattr(step, name) for name in StepAnswer.model_fields.keys() - related.keys()} | related


def describe_effect(effect: Effect) -> dict[str, Any]:
    related = {
        "run": effect.run_id,
        "step": effect.step.seq,
        "parent": effect.parent_id,
        "replaces": effect.replaces_id,
    }
    plain = EffectAnswer.model_fields.keys() - related.keys()
    return {name: getattr(effect, name) for name in plain} | related


def describe_approval(approval: Approval) -> dict[str, Any]:
    related = {
        "run": approval.run_id,
        "agent": approval.run.agent_id,
        "effect": describe_effect(approval.effect),
    }
    plain = ApprovalAnswer.model_fields.keys() - related.keys()
    return {name: getattr(approval, name) for name in plain} | related


def spec_members(sent: AgentMembers, names: set[str]) -> dict[str, Any]:
    """Return what was sent of an agent, in the form of a spec; its tools are still names."""
    members = {name: getattr(sent, name) for name in names & set(AgentSpec.__slots__)}
    if "blocks" in members:
        members["blocks"] = tuple({"label": block.label, "block": str(block.block)} for block in sent.blocks)
    if "rules" in members:
        members["rules"] = tuple(sent.rules)
    return members
