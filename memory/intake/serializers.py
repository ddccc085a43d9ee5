"""Runs as clients send and read them."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias
from uuid import UUID

from pydantic import BaseModel, Field, RootModel, SkipValidation, WithJsonSchema, field_validator, model_validator
from rest_framework.reverse import reverse

from memory.api.input import (
    WHOLE,
    Dollars,
    Id,
    Input,
    LongText,
    Moment,
    Name,
    OneOf,
    Remarks,
    Share,
    Tags,
    Text,
    UserId,
    wrong_member,
)
from memory.api.output import Answer, Pagination, source
from memory.errors import InvalidSteps
from memory.limits import (
    MAX_REMARKS,
    MAX_STATED_STEPS,
    MAX_SUMMARY_CHARS,
    MAX_TASK_CHARS,
    MAX_TEXT_CHARS,
    MAX_TOKENS,
    JsonLimits,
)
from memory.runs.models import SystemPrompt, Trajectory
from memory.runs.scores import outcome_of
from memory.runs.step_formats import opening_message
from memory.strict_json import InvalidJson, check_json
from memory.transcripts.formats import read_document
from memory.transcripts.log import UnreadableTranscript
from memory.transcripts.messages import is_message

_CALL = {
    "oneOf": [
        {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "arguments": {"type": ["object", "string"]}},
        },
        {"type": "string"},
        {"type": "null"},
    ]
}


class StepInput(BaseModel):
    """One step of a run: every member may be left out."""

    thought: str | None = None
    action: Annotated[
        Any,
        WithJsonSchema(_CALL),
        Field(
            description="The tool call: `{name, arguments}`, or a string such as `search[red shoes]` or "
            '`get_user({"id": 1})`.'
        ),
    ] = None
    observation: Annotated[str | None, Field(description="What the action returned.")] = None
    error: Annotated[str | None, Field(description="What went wrong, if anything did.")] = None
    index: Annotated[int, Field(description="The number of the step, counted from 1.")] = 0


class ChatMessage(BaseModel):
    """A chat message in the format of the OpenAI API; assistant messages may carry tool calls."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[Any, WithJsonSchema({"type": ["string", "array", "null"], "items": {}})] = None
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    tool_call_id: Annotated[str, Field(description="For a tool message: the call it answers.")] = ""
    name: str = ""


class StepOrMessage(RootModel[StepInput | ChatMessage]):
    pass


# For the OpenAPI document; `normalise_steps` decides what is read.
Steps: TypeAlias = SkipValidation[list[StepOrMessage]]
Messages: TypeAlias = SkipValidation[list[ChatMessage]]


class MistakeCard(Input):
    """A mistake in a fixed form, so that its repetitions can be counted."""

    mistake_type: Annotated[Text, Field(max_length=200, description="What kind of mistake it is, in a word or two.")]
    task_id: Annotated[Name, Field(description="The task family; the run's if left out.")] = ""
    worker_id: Annotated[
        Name, Field(description="Which agent, or part of one, made it; the run's agent if left out.")
    ] = ""
    bad_decision: LongText = ""
    correct_decision: LongText = ""
    evidence: LongText = ""
    lesson: LongText = ""

    @model_validator(mode="after")
    def _say_something(self) -> Self:
        if not (self.bad_decision.strip() or self.correct_decision.strip() or self.lesson.strip()):
            raise wrong_member("lesson", "Say what was decided wrongly, what would have been right, or the lesson.")
        return self


class RunOutcome(Input):
    """How a run ended."""

    outcome: Annotated[
        str,
        OneOf(Trajectory.Outcome),
        Field(description="If it is left out the score decides: success from 0.85, failure below 0.5, else unknown."),
    ] = ""
    score: Annotated[Share | None, Field(description="How well it went, from 0 to 1.")] = None
    outcome_source: Annotated[
        str, OneOf(Trajectory.OutcomeSource), Field(description="Who judged the outcome; the agent itself if left out.")
    ] = ""
    reflect: Annotated[
        bool | None, Field(description="Whether to queue a reflection; null leaves it to the project.")
    ] = None

    @model_validator(mode="after")
    def _fit_outcome_and_score(self) -> Self:
        if self.score is not None and not self.outcome:
            self.outcome = outcome_of(self.score)
        if (self.outcome, self.score) in ((Trajectory.Outcome.SUCCESS, 0.0), (Trajectory.Outcome.FAILURE, 1.0)):
            raise wrong_member(
                "outcome", f"A {self.outcome} cannot have the score {self.score}. Correct one of the two."
            )
        return self


class OutcomeInput(RunOutcome):
    """How a run ended, known only after it was recorded."""

    @model_validator(mode="after")
    def _say_how_it_ended(self) -> Self:
        if not self.outcome and self.score is None:
            raise wrong_member("outcome", "Send the outcome, the score or both.")
        return self


class StepsInput(Input):
    """The next steps of an open run."""

    steps: Annotated[
        SkipValidation[list[StepInput]],
        Field(description="Steps in ERL's own format. The `index` of the first says where they belong."),
    ]

    @model_validator(mode="after")
    def _be_steps(self) -> Self:
        if not isinstance(self.steps, list) or not self.steps:
            raise wrong_member("steps", "Send a list of steps.")
        if is_message(self.steps[0]):
            raise wrong_member("steps", "Send steps here. A chat log is recorded whole, with POST /trajectories.")
        return self


class FinishInput(RunOutcome):
    """How an open run ended."""

    ended_at: Annotated[Moment | None, Field(description="When the run ended; now if left out.")] = None
    tokens: Annotated[
        Annotated[int, Field(ge=0, le=MAX_TOKENS, json_schema_extra={"format": "int64"}), WHOLE] | None,
        Field(description="Model tokens the run used."),
    ] = None
    cost_usd: Annotated[Dollars | None, Field(description="What the run cost, in US dollars.")] = None
    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS, description="The run in a few sentences.")] = ""
    mistakes: Annotated[Remarks, Field(description="What went wrong, a sentence each.")] = Field(default_factory=list)
    successes: Annotated[Remarks, Field(description="What went well, a sentence each.")] = Field(default_factory=list)

    def ending(self) -> dict[str, Any]:
        """Return what `finish_run` sets."""
        return {name: value for name, value in self.sent().items() if name != "reflect" and value is not None}


class TrajectoryInput(RunOutcome):
    """A run to record."""

    task: Annotated[
        Text,
        Field(
            max_length=MAX_TASK_CHARS,
            description="What the run was asked to do. If it is missing, the task is the first user message of a chat "
            "log, or else the `task_id`.",
        ),
    ] = ""
    task_id: Annotated[Name, Field(description="The task family, such as `airline.cancel`.")] = ""
    steps: Annotated[Steps, Field(description="What the agent did, in order, or its chat log.")] = Field(
        default_factory=list
    )
    messages: Annotated[Messages, Field(description="The chat log, instead of steps.")] = Field(default_factory=list)
    transcript: Annotated[
        SkipValidation[dict[str, Any] | list[Any]],
        Field(
            description="A log of the run in any format that docs/integrations.md lists, instead of steps or messages. "
            "Its task, tools, model, times and outcome are used where you do not send your own."
        ),
    ] = Field(default_factory=dict)
    open: Annotated[
        bool, Field(description="Whether more steps follow: POST …/steps adds them, POST …/finish ends the run.")
    ] = False
    parent_id: Annotated[Name, Field(description="The run that called this one: its id, or its `external_id`.")] = ""
    step_count: Annotated[
        Annotated[int, Field(ge=0, le=MAX_STATED_STEPS), WHOLE] | None,
        Field(description="How many steps the run had, if the steps are not sent."),
    ] = None
    agent: Annotated[Name, Field(description="Which agent ran.")] = ""
    user_id: UserId = ""
    model: Annotated[Name, Field(description="Which language model it ran on.")] = ""
    tags: Annotated[Tags, Field(description="Words to filter by.")] = Field(default_factory=list)
    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS, description="The run in a few sentences.")] = ""
    mistakes: Annotated[Remarks, Field(description="What went wrong, a sentence each.")] = Field(default_factory=list)
    successes: Annotated[Remarks, Field(description="What went well, a sentence each.")] = Field(default_factory=list)
    mistake_cards: Annotated[list[MistakeCard], Field(max_length=MAX_REMARKS)] = Field(default_factory=list)
    tokens: Annotated[
        Annotated[int, Field(ge=0, le=MAX_TOKENS, json_schema_extra={"format": "int64"}), WHOLE] | None,
        Field(description="Model tokens the run used."),
    ] = None
    cost_usd: Annotated[Dollars | None, Field(description="What the run cost, in US dollars.")] = None
    external_id: Annotated[
        Name,
        Field(
            description="Your own id for the run, unique in the project. Recording the same run again changes nothing."
        ),
    ] = ""
    tools: Annotated[
        SkipValidation[list[str | dict[str, Any]]],
        Field(description="The available tools: names, or definitions with name and JSON schema."),
    ] = Field(default_factory=list)
    system_prompt: Annotated[
        str,
        Field(
            max_length=MAX_TEXT_CHARS,
            description="What the agent was told before the run: its instructions or policy. Stored once per project. "
            "If it is missing, the system messages of a chat log are taken.",
        ),
    ] = ""
    started_at: Annotated[
        Moment | None, Field(description="When the run began; the time of recording if left out.")
    ] = None
    ended_at: Annotated[Moment | None, Field(description="When the run ended.")] = None
    metadata: Annotated[dict[str, Any], Field(description="Anything else you want to store with the run.")] = Field(
        default_factory=dict
    )
    retrieval_id: Annotated[
        Id | None,
        Field(
            description="The answer of POST /retrieve that the run was given; the run's outcome measures those lessons."
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _read_transcript(cls, body: Any) -> Any:
        """Put what a log says in place of it."""
        if not isinstance(body, Mapping) or "transcript" not in body:
            return body
        if "steps" in body or "messages" in body:
            raise wrong_member("transcript", "Send either a transcript, or steps, or messages.")
        sent = {name: value for name, value in body.items() if name != "transcript"}
        try:
            reading = read_document(body["transcript"])
        except UnreadableTranscript as error:
            raise wrong_member("transcript", str(error)) from None
        if reading.problems or reading.faults:
            said = [f"{place}: {reason}" for place, reason in reading.problems]
            raise wrong_member("transcript", "; ".join([*reading.faults, *said]))
        if len(reading.transcripts) + len(reading.own) != 1:
            raise wrong_member("transcript", f"Send one run at a time. This holds {reading.summary()}.")
        read = dict(reading.own[0][1]) if reading.own else reading.transcripts[0].fields()
        if {"outcome", "score"} & sent.keys():
            read = {name: value for name, value in read.items() if name not in ("outcome", "score", "outcome_source")}
        metadata = sent.get("metadata")
        if isinstance(metadata, Mapping | None) and isinstance(read.get("metadata"), Mapping):
            sent["metadata"] = {**read["metadata"], **(metadata or {})}
        for name, max_chars in (("task", MAX_TASK_CHARS), ("system_prompt", MAX_TEXT_CHARS)):
            if isinstance(read.get(name), str):
                read[name] = read[name][:max_chars]
        return {**read, **sent}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        try:
            check_json(self.metadata, limits=JsonLimits(text_chars=MAX_TEXT_CHARS))
        except InvalidJson as error:
            raise wrong_member("metadata", error.reason) from None
        if self.open and {"outcome", "score", "reflect"} & self.model_fields_set:
            raise wrong_member("open", "Send the outcome, the score and reflect when the run is finished.")
        for name in ("steps", "messages"):
            if getattr(self, name) is None:
                raise wrong_member(name, "Send a list, or leave this member out.")
        if "messages" in self.model_fields_set:
            if "steps" in self.model_fields_set:
                raise wrong_member("messages", "Send either steps or messages, not both.")
            self.steps = {"messages": self.messages}  # type: ignore[assignment]
        if self.started_at and self.ended_at and self.ended_at < self.started_at:
            raise wrong_member("ended_at", "A run cannot end before it began.")
        if self.step_count is not None and self.steps:
            raise wrong_member("step_count", "Leave this out if you send the steps: they are counted.")
        if not self.task:
            self.task = self._find_task()
        return self

    def _find_task(self) -> str:
        """Take what a chat log was asked to do as the task, or the name of the family, where no task is named."""
        messages: Any = self.steps.get("messages") if isinstance(self.steps, dict) else self.steps
        task = ""
        if isinstance(messages, list):
            with suppress(InvalidSteps):  # recording says what is wrong with the steps
                task = opening_message(messages)
        if not (task.strip() or self.task_id.strip()):
            raise wrong_member("task", "Say what the run was asked to do.")
        return task[:MAX_TASK_CHARS] if task.strip() else self.task_id

    def run(self) -> dict[str, Any]:
        """Return the run as `record_trajectory` takes it."""
        run = self.sent()
        run.pop("messages", None)
        run.pop("reflect", None)
        run.pop("transcript", None)
        if run.pop("open", False):
            run["is_open"] = True
        if (stated := run.pop("step_count", None)) is not None:
            run["stated_step_count"] = stated
        if "mistake_cards" in run:
            run["mistake_cards"] = [card.sent() for card in self.mistake_cards]
        return run


class ActionAnswer(BaseModel):
    """A tool call."""

    name: Annotated[str, Field(description="The tool.")]
    arguments: Annotated[dict[str, Any], Field(description="Its arguments by name.")]


class RunStepAnswer(BaseModel):
    """One step of a run as it is stored."""

    index: Annotated[int, Field(ge=1, description="Counts from 1.")]
    thought: str
    action: ActionAnswer | None
    observation: Annotated[str, Field(description="What the action returned.")]
    error: Annotated[str, Field(description="What went wrong, if anything did.")]
    metadata: Annotated[dict[str, Any], Field(description="Anything else the log says about the step.")] = Field(
        default_factory=dict
    )


class TrajectoryLinks(BaseModel):
    reflections: Annotated[str, Field(description="The reflections on this run.")]


# Read when they were recorded, and kept in normal form since.
StoredSteps: TypeAlias = SkipValidation[list[RunStepAnswer]]
StoredCards: TypeAlias = SkipValidation[list[MistakeCard]]


class TrajectoryItem(Answer):
    """A run in a list: all but its steps."""

    id: UUID
    external_id: str
    task: str
    task_id: str
    outcome: Annotated[str, OneOf(Trajectory.Outcome)]
    score: float | None
    outcome_source: Annotated[str, OneOf(Trajectory.OutcomeSource)]
    agent: str
    user_id: str
    model: str
    tags: list[str]
    summary: str
    mistakes: list[str]
    successes: list[str]
    mistake_cards: StoredCards
    tokens: int | None
    cost_usd: Annotated[float | None, Field(ge=0)]
    tools: Annotated[
        SkipValidation[list[str | dict[str, Any]]], Field(description="The tools on offer, as they were sent.")
    ]
    started_at: datetime | None
    ended_at: datetime | None
    metadata: dict[str, Any]
    redactions: Annotated[dict[str, int], Field(description="What was removed, by kind.")]
    retrieval_id: UUID | None
    parent_id: Annotated[UUID | None, Field(description="The run that called this one.")]
    open: bool = source("is_open", description="Whether more steps may come.")
    client: str
    created_at: datetime
    outcome_at: datetime | None
    step_count: int


class TrajectoryAnswer(TrajectoryItem):
    """A run with its steps in one format."""

    step_count: int = source("number_of_steps")
    system_prompt: Annotated[str, Field(description="What the agent was told before the run.")]
    steps: StoredSteps
    links: TrajectoryLinks = source("pk")

    @field_validator("system_prompt", mode="before")
    @classmethod
    def _read_text(cls, prompt: SystemPrompt | None) -> str:
        return prompt.text if prompt else ""

    @field_validator("links", mode="before")
    @classmethod
    def _link(cls, pk: UUID) -> TrajectoryLinks:
        # The reflections belong to another app, which this one does not know: only the address is shared.
        root = reverse("api:trajectory-list").removesuffix("trajectories")
        return TrajectoryLinks(reflections=f"{root}reflections?trajectory={pk}")


class TrajectoryPage(BaseModel):
    """Runs, the newest first."""

    results: list[TrajectoryItem]
    pagination: Pagination
