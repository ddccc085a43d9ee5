"""The bodies of retrieval: what a request may ask, and what an answer says.

Answers are plain dictionaries; the models of answers are for the OpenAPI document.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from memory.api.input import Input, Moment, Name, ReleaseName
from memory.api.output import Pagination
from memory.errors import InvalidSteps
from memory.limits import (
    MAX_BUDGET_TOKENS,
    MAX_NAME_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TASK_CHARS,
    MAX_TOP_K,
)
from memory.redaction.visible_text import is_visible
from memory.runs.tools import read_tool_names

Mode: TypeAlias = Literal["none", "random", "embedding", "lexical", "hybrid", "erl"]
Polarity: TypeAlias = Literal["works", "avoid", "mixed"]
Names: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]], Field(max_length=MAX_TAGS)
]


def _read_tool_names(tools: Any) -> list[str] | None:
    if tools is None:
        return None
    try:
        return list(read_tool_names(tools))
    except InvalidSteps as error:
        raise ValueError(str(error)) from None


class RetrieveQuery(Input):
    """A task to be done, and how many lessons to return."""

    task: Annotated[str, Field(min_length=1, max_length=MAX_TASK_CHARS, description="What is to be done.")]
    task_id: Annotated[
        Name, Field(description="The task family; among otherwise equal lessons, its own come first.")
    ] = ""
    agent: Annotated[Name, Field(description="The requesting agent.")] = ""
    top_k: Annotated[
        int | None,
        Field(ge=1, le=MAX_TOP_K, description="Maximum number of lessons in `context`; the server's default if null."),
    ] = None
    tools: Annotated[
        list[str] | None,
        Field(
            description="The tools that the agent has: names, or definitions as the APIs of models and MCP have "
            "them. A lesson that names another tool of the project is not given. If null, the newest runs of `agent` "
            "say which it has.",
        ),
        BeforeValidator(_read_tool_names, json_schema_input_type=list[str | dict[str, Any]] | None),
    ] = None
    considered: Annotated[
        bool,
        Field(
            description="Whether the answer also has `considered`: the best lessons that were not injected, and why."
        ),
    ] = False
    mode: Annotated[Mode | None, Field(description="How to choose; the server's default if null.")] = None
    budget_tokens: Annotated[
        int | None,
        Field(ge=0, le=MAX_BUDGET_TOKENS, description="Maximum size of `context`; the server's default if null."),
    ] = None
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS)]],
        Field(max_length=MAX_TAGS, description="Only lessons that have all of these tags."),
    ] = Field(default_factory=list)
    polarity: Annotated[Polarity | None, Field(description="Only lessons of this kind; all kinds if null.")] = None
    families: Annotated[
        list[Name],
        Field(max_length=MAX_TAGS, description='Only lessons of one of these task families; "" is of no family.'),
    ] = Field(default_factory=list)
    source_agents: Annotated[Names, Field(description="Only lessons learnt from runs of one of these agents.")] = Field(
        default_factory=list
    )
    status: Annotated[
        Literal["approved"] | None, Field(description="Nothing else is ever served, so it may be left out.")
    ] = None
    seed: Annotated[
        str | None, Field(max_length=MAX_NAME_CHARS, description="Seed of the mode random; the task if null.")
    ] = None

    record: Annotated[
        bool, Field(description="Whether `context` begins with the record of earlier runs: rules, mistakes, scores.")
    ] = True

    session: Annotated[
        Name,
        Field(description="The conversation, user or episode. It stays in one arm while a release is on trial."),
    ] = ""

    release: Annotated[
        str,
        ReleaseName(pattern=r"^([1-9][0-9]{0,6}|[0-9A-Fa-f]{8,64}|)$"),
        Field(description="Answer from this release (number or hash), outside all arms. Empty: what is deployed."),
    ] = ""

    as_of: Annotated[
        Moment | None,
        Field(
            description="For replays: answer with the lessons that were approved by then and had not ended then. What "
            "was withdrawn since is left out. Null: now."
        ),
    ] = None

    boundary: Annotated[
        Literal["fixed", "random"],
        Field(description="`random` puts unpredictable delimiters around `context`; its bytes then never repeat."),
    ] = "fixed"

    @field_validator("task")
    @classmethod
    def _not_blank(cls, task: str) -> str:
        if not is_visible(task):
            raise ValueError("Say what is to be done.")
        return task


class Scores(BaseModel):
    """`score`, and what it is made of: the sum of its parts, times its factors. Those left out change nothing.

    Parts: `meaning`, `words`, `source_task` (what earlier tasks add) and `names`, or `rerank` alone. Factors:
    `usefulness` and `family`. In mode `erl` the score is (`similarity` + `informativeness`) / 20.
    """

    model_config = ConfigDict(extra="allow")


class RetrievedItem(BaseModel):
    """A lesson, and why it was chosen. Members may be added."""

    model_config = ConfigDict(extra="allow")

    id: UUID
    revision: int
    content_sha256: str
    trigger: str
    guideline: str
    avoid: str
    not_when: str
    rationale: str
    polarity: str
    task_id: str
    tags: list[str]
    support: Annotated[int, Field(description="Distinct runs it was learnt from that a reviewer has seen.")]
    scores: Scores
    reason: Annotated[str, Field(description="Why it was chosen, in one sentence.")]
    injected: Annotated[bool, Field(description="Whether it is in `context`.")]
    passed_over: Annotated[str, Field(description="Why it is not, in one sentence; empty if it is.")]
    subtask: Annotated[str, Field(description="The part of the task it is for; empty for the whole.")]
    matched_task: Annotated[str, Field(description="The earlier task that resembles this one, if any.")]


class RetrieveAnswer(BaseModel):
    """The lessons for a task, best first, and the text to put into the prompt."""

    retrieval_id: Annotated[
        UUID | None,
        Field(
            description="Send it with the trajectory: outcomes measure the lessons. Null if the answer could not be "
            "recorded."
        ),
    ]
    mode: Annotated[Mode, Field(description="The mode that answered.")]
    degraded: Annotated[bool, Field(description="Whether a component was unavailable.")]
    degraded_reason: Annotated[str, Field(description="What was unavailable; empty if nothing was.")]
    subtasks: Annotated[list[str], Field(description="The parts of the task; empty if it has only one.")]
    items: Annotated[list[RetrievedItem], Field(description="The lessons in `context`, best first.")]
    considered: Annotated[
        list[RetrievedItem],
        Field(description="The best lessons that are not in `context`; only if the request asked for them."),
    ] = []
    context: Annotated[str, Field(description="The text to inject once, at the top of the prompt; may be empty.")]
    context_sha256: str
    tokens: Annotated[int, Field(description="Approximate number of tokens in `context`.")]
    release: Annotated[
        int | None, Field(description="The number of the release it is from; null if every approval is live at once.")
    ]
    arm: Annotated[
        str,
        Field(
            description="`stable`, `candidate`, `holdout` (no lessons, as a control group) or `pinned`; empty if "
            "nothing is assigned."
        ),
    ]
    covered_by: Annotated[
        UUID | None,
        Field(
            description="Only for a repeated request: the quarantine order that covers words of the answer, which "
            "then has no lessons."
        ),
    ] = None


class LessonsForTask(BaseModel):
    """The lessons for a task as a list."""

    results: list[RetrievedItem]
    considered: list[RetrievedItem] = []
    pagination: Pagination
    retrieval_id: UUID | None
    mode: Mode
    degraded: bool
    degraded_reason: str
    subtasks: list[str]
    context: str
    context_sha256: str
    tokens: int
    release: int | None
    arm: str


class ConsideredLesson(BaseModel):
    """A lesson that was considered but not injected. The nearest ones have the members of `items`, too."""

    model_config = ConfigDict(extra="allow")

    heuristic: UUID
    score: float
    passed_over: Annotated[str, Field(description="Why it was not injected; empty in records of earlier versions.")]


class LinkedRun(BaseModel):
    """A run that was given the answer, and how it ended."""

    trajectory_id: UUID
    outcome: str
    score: float | None
    outcome_source: str


class RetrievalRecord(BaseModel):
    """An answer as it was given, replayed from its record."""

    retrieval_id: UUID
    task: str
    task_id: str
    agent: str
    mode: str
    requested_mode: str
    top_k: int
    budget_tokens: int
    options: Annotated[
        dict[str, Any],
        Field(
            description="Other options of the request, if not the defaults: tags, families, source_agents, polarities, "
            "seed, record, boundary, session, tools, as_of."
        ),
    ]
    candidate_count: int
    degraded: bool
    degraded_reason: str
    subtasks: list[str]
    items: list[dict[str, Any]]
    considered: Annotated[
        list[ConsideredLesson], Field(description="The best lessons that were not injected, best first.")
    ]
    context: Annotated[str, Field(description="What was injected, rebuilt from the served words.")]
    context_is_exact: Annotated[
        bool, Field(description="Whether it has the recorded hash; false if a lesson or run was erased since.")
    ]
    covered_by: Annotated[
        UUID | None,
        Field(description="The quarantine order that covers words of it; `context` is then withheld."),
    ]
    context_sha256: str
    tokens: int
    duration_ms: float
    client: str
    request_id: str
    release: Annotated[int | None, Field(description="The number of the release it is from.")]
    arm: Annotated[str, Field(description="The arm it was given in; empty if nothing was assigned.")]
    unit: Annotated[str, Field(description="What stays in one arm, such as a session.")]
    bucket: Annotated[int | None, Field(description="The unit's place in the draw that decided, from 0 to 999.")]
    created_at: datetime
    runs: Annotated[list[LinkedRun], Field(description="The runs that were given it, oldest first.")]
