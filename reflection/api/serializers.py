"""Reflections as clients ask for and read them."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from rest_framework.reverse import reverse

from memory.api.input import Id, Input, OneOf, wrong_member
from memory.api.output import ROWS, Answer, Pagination, source
from memory.curation.serializers import HeuristicAnswer
from memory.intake.serializers import TrajectoryInput
from reflection.reflectors.models import Proposal, Reflection


class ReflectInput(Input):
    """The run to reflect on: one that is recorded, by its id, or one to record now."""

    trajectory_id: Annotated[Id, Field(description="A run that is recorded.")] = None  # type: ignore[assignment]
    trajectory: TrajectoryInput = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _name_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise wrong_member("trajectory_id", "Send either trajectory_id or trajectory.")
        return self


class ProposalFinding(BaseModel):
    code: str
    message: Annotated[str, Field(description="A sentence for the reviewer.")]
    words: Annotated[list[str], Field(description="The words of the lesson that it is about, if any.")] = []


class ProposalAnswer(Answer):
    """What a reflection did with one lesson."""

    heuristic_id: UUID
    effect: Annotated[
        str,
        OneOf(Proposal.Effect),
        Field(
            description="`new`: a proposal with a row of its own. `support`: the lesson exists, and the run became "
            "evidence of it. `group`: a proposal that joined the row of another with the same advice, `near_id`. "
            "`merge`: a proposal with a row of its own that a reviewer may merge into `near_id`."
        ),
    ]
    near_id: Annotated[UUID | None, Field(description="The lesson it is close to.")]
    similarity: Annotated[
        float | None, Field(description="How close in meaning, from 0 to 1; null where nothing was compared.")
    ]
    findings: Annotated[list[ProposalFinding], Field(description="What the checks found for the reviewer.")]


class ReflectionFailure(BaseModel):
    code: str
    message: str


class ReflectionLinks(BaseModel):
    self: str
    trajectory: str


class ReflectionAnswer(Answer):
    """One pass of a reflector over one run: its status, its cost and its result."""

    id: UUID
    trajectory_id: UUID
    status: Annotated[str, OneOf(Reflection.Status)]
    finished: Annotated[bool, BeforeValidator(lambda status: status not in Reflection.LIVE)] = source(
        "status", description="Whether it is done or dead."
    )
    attempts: int
    available_at: datetime
    reflector: str
    reflector_version: str
    model: str
    prompt_version: str
    heuristics_proposed: int
    proposals: Annotated[list[ProposalAnswer], ROWS]
    skip_reason: Annotated[
        str, Field(description="Why nothing was proposed, or what was left out: one sentence for each lesson.")
    ]
    carried_by: Annotated[
        UUID | None, Field(description="The reflection on another try of the same task that also did this one's work.")
    ]
    error: ReflectionFailure | None
    input_tokens: int
    output_tokens: int
    cost_usd: float
    requested_by: str
    request_id: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    links: ReflectionLinks = source("pk")

    @field_validator("links", mode="before")
    @classmethod
    def _link(cls, pk: UUID, info: ValidationInfo) -> dict[str, str]:
        return {
            "self": reverse("reflection_api:reflection", args=[pk]),
            "trajectory": reverse("api:trajectory", args=[info.data["trajectory_id"]]),
        }


class ReflectionWithLessons(ReflectionAnswer):
    """A reflection and, once it is finished, what it proposed or supported."""

    lessons: Annotated[
        list[HeuristicAnswer] | None,
        Field(
            description="The lessons it proposed or supported, as they are now, in the order of `proposals`. Null "
            "until it is finished, and for a key without the scope `heuristics:read`."
        ),
    ]


class ReflectionPage(BaseModel):
    """Reflections, the newest first."""

    results: list[ReflectionAnswer]
    pagination: Pagination
