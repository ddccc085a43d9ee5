"""Heuristics and decisions about them as clients read them."""

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from memory.api.input import OneOf
from memory.api.output import FIRST, ROWS, Answer, Pagination, source
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.retrieval.context import write_body
from memory.review.models import Review


class ReviewAnswer(Answer):
    """One decision by one person, key or policy on one exact text."""

    id: UUID
    heuristic_id: UUID = source("subject_id")
    revision: int = source("revision", "number")
    decision: Annotated[str, OneOf(Review.Decision)]
    content_sha256: str
    reason: str
    reviewer: Annotated[str, Field(description="Label that outlives the account, for example user:ana.")]
    seconds_on_screen: float | None
    request_id: str
    decided_with: Annotated[
        UUID | None, Field(description="The review of the proposal that stood for this one's group.")
    ]
    created_at: datetime


class ReviewPage(BaseModel):
    """Decisions, the newest first."""

    results: list[ReviewAnswer]
    pagination: Pagination


class ServedRevision(Answer):
    """The wording that agents are given now."""

    revision: int = source("number")
    content_sha256: str
    trigger: str
    guideline: str
    avoid: str
    not_when: str
    rationale: str
    polarity: Annotated[str, OneOf(HeuristicRevision.Polarity)]
    scope: Annotated[str, OneOf(HeuristicRevision.Scope)]
    task_id: str
    tags: list[str]
    source_task: str
    valid_until: datetime | None
    expires_after: timedelta | None
    line: str = source("heuristic_id", description="The lesson as one line of a context block, made safe.")
    approved_by: str
    approved_at: datetime | None

    @field_validator("line", mode="before")
    @classmethod
    def _write_line(cls, heuristic_id: UUID, info: ValidationInfo) -> str:
        return write_body({**info.data, "id": heuristic_id})


class EvidenceAnswer(Answer):
    """A run that a lesson cites, and where in it."""

    trajectory_id: UUID
    first_step: int | None
    last_step: int | None
    quote: str
    counts: Annotated[bool, BeforeValidator(lambda approved_at: approved_at is not None)] = source(
        "approved_at",
        description="Whether a reviewer has approved or confirmed it, so that it is in `approved_support` and tasks "
        "like that of the run find the lesson.",
    )


class OtherWording(Answer):
    """A proposal that gives the same advice in other words."""

    heuristic_id: UUID = source("id")
    trigger: str = source("current_revision", "trigger")
    guideline: str = source("current_revision", "guideline")
    avoid: str = source("current_revision", "avoid")
    not_when: str = source("current_revision", "not_when")
    content_sha256: str = source("current_revision", "content_sha256")
    grouped_at: datetime | None


class TallyAnswer(BaseModel):
    """How many runs of its task family, or of the project, speak for and against a proposal, when last counted."""

    failures_met: Annotated[int, Field(description="Failed runs that it would have met.")]
    failures: Annotated[int, Field(description="All failed runs.")]
    successes_contradicted: Annotated[
        int | None,
        Field(description="Successful runs that did what it says to avoid; null if this is not known."),
    ]
    successes: Annotated[int, Field(description="All successful runs.")]


class HeuristicAnswer(Answer):
    """A heuristic: its status, its newest wording, and the wording that is served, if any."""

    id: UUID
    status: Annotated[str, OneOf(Heuristic.Status)]
    trigger: str = source("current_revision", "trigger")
    guideline: str = source("current_revision", "guideline")
    avoid: str = source("current_revision", "avoid")
    not_when: str = source("current_revision", "not_when")
    rationale: str = source("current_revision", "rationale")
    polarity: Annotated[str, OneOf(HeuristicRevision.Polarity)] = source("current_revision", "polarity")
    scope: Annotated[str, OneOf(HeuristicRevision.Scope)] = source("current_revision", "scope")
    task_id: str = source("current_revision", "task_id")
    tags: list[str] = source("current_revision", "tags")
    source_task: str = source("current_revision", "source_task")
    valid_until: datetime | None = source("current_revision", "valid_until")
    expires_after: timedelta | None = source("current_revision", "expires_after")
    ends_at: datetime | None = source(
        "current_revision",
        "ends_at",
        description="When it ends, by whichever of the two comes first: agents are no longer given it.",
    )
    content_sha256: str = source("current_revision", "content_sha256")
    revision: int = source("current_revision", "number")
    support: Annotated[
        int,
        Field(
            description="The distinct runs that show it: those in `evidence` and, for a proposal with `wordings`, "
            "those of its other wordings."
        ),
    ]
    approved_support: Annotated[
        int,
        Field(description="Those that a reviewer approved with it or confirmed later; ranking counts only these."),
    ]
    usefulness: Annotated[
        float,
        Field(description="From 0 to 1; 0.5 if nothing is known. Whether runs that followed it succeeded."),
    ]
    confidence: float | None
    reflector: Annotated[str, Field(description="The reflector that wrote it, llm or rules; empty if a person did.")]
    reflector_version: str
    model: str
    prompt_version: str
    client: Annotated[str, Field(description="The API client that proposed it.")]
    external_id: Annotated[str, Field(description="The client's own id of this lesson.")]
    metadata: Annotated[dict[str, Any], Field(description="What the client stored with it.")]
    approved_by: str = source("current_revision", "approved_by")
    approved_at: datetime | None = source("current_revision", "approved_at")
    families: Annotated[
        list[str],
        Field(
            description="The task families of its approved evidence. A lesson for the whole project is for these, or, "
            "where it has none, for every task."
        ),
    ]
    served: Annotated[bool, BeforeValidator(bool)] = source(
        "served_revisions", description="Whether agents are now given one of its wordings."
    )
    served_revision: Annotated[ServedRevision | None, FIRST] = source("served_revisions")
    superseded_by_id: UUID | None
    leader_id: Annotated[
        UUID | None,
        Field(
            description="The proposal that represents this one in the queue; a decision on it also decides this one."
        ),
    ]
    tally: TallyAnswer | None = source("review_basis")
    created_at: datetime
    updated_at: datetime

    @field_validator("tally", mode="before")
    @classmethod
    def _find_tally(cls, review_basis: dict[str, Any], info: ValidationInfo) -> Any:
        """Take what was last counted; it says nothing about a lesson that is decided."""
        return (review_basis.get("tally") or None) if info.data["status"] == Heuristic.Status.PROPOSED else None


class HeuristicDetail(HeuristicAnswer):
    """A heuristic with the runs from which it was learnt, and its other wordings."""

    evidence: Annotated[list[EvidenceAnswer], ROWS]
    wordings: list[OtherWording] = source(
        "other_wordings",
        description="The other wordings of its row in the queue. An approval of this one makes them its duplicates and "
        "gives their runs to it.",
    )
    merged_ids: Annotated[list[UUID], BeforeValidator(lambda lessons: [lesson.pk for lesson in lessons.all()])] = (
        source(
            "supersedes",
            description="The lessons that were merged into it, by an approval of its row or by `merge`.",
        )
    )


class HeuristicPage(BaseModel):
    """A page of heuristics."""

    results: list[HeuristicAnswer]
    pagination: Pagination


class BulkError(BaseModel):
    """Why one of many was refused; nothing was changed for it."""

    code: str
    message: Annotated[str, Field(description="A sentence that says what to do next.")]
    retryable: bool
    fields: Annotated[dict[str, list[str]], Field(description="What is wrong and where: JSON pointers into this item.")]


class BulkItem(BaseModel):
    """What became of one of many."""

    index: Annotated[int, Field(ge=0, description="Its place in the request, from 0.")]
    status: Annotated[int, Field(description="The HTTP status that it would have had as a request of its own.")]
    heuristic_id: Annotated[UUID | None, Field(description="Null if it was refused before it was found.")]
    heuristic_status: Annotated[str, OneOf(Heuristic.Status)] | None
    content_sha256: Annotated[str | None, Field(description="The hash of its newest wording.")]
    error: BulkError | None


class BulkAnswer(BaseModel):
    """What became of each, in the order of the request."""

    results: list[BulkItem]
