"""What clients send about heuristics: lessons, evidence, decisions."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SkipValidation, model_validator
from pydantic_core import PydanticCustomError

from memory.api.input import (
    WHOLE,
    ContentHash,
    Id,
    Input,
    LongText,
    Moment,
    Name,
    OneOf,
    Share,
    Tags,
    Text,
    wrong_member,
)
from memory.curation.client_lessons import CitedRun, ClientLesson
from memory.curation.decisions import MAX_AT_ONCE
from memory.errors import InvalidInput
from memory.heuristics.models import HeuristicRevision
from memory.heuristics.text import Citation, HeuristicText
from memory.limits import (
    MAX_EVIDENCE,
    MAX_LESSON_METADATA_CHARS,
    MAX_LESSON_TEXT_CHARS,
    MAX_PROPOSALS_AT_ONCE,
    MAX_REASON_CHARS,
    MAX_TASK_CHARS,
    MAX_TRIGGER_CHARS,
    MAX_VALID_DAYS,
)
from memory.transcripts.lesson_blocks import cut_lesson_blocks

TEXT_MEMBERS = (
    "trigger",
    "guideline",
    "avoid",
    "not_when",
    "rationale",
    "polarity",
    "scope",
    "task_id",
    "tags",
    "source_task",
    "valid_until",
    "expires_after",
)
_Scope = HeuristicRevision.Scope

Trigger = Annotated[
    Text, Field(max_length=MAX_TRIGGER_CHARS, description="When it applies; must be observable before acting.")
]
Guideline = Annotated[Text, Field(max_length=MAX_LESSON_TEXT_CHARS, description="What to do then.")]
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Why; kept with the decision.")]
HashRead = Annotated[
    ContentHash | None,
    Field(description="The hash of the wording you read; if it changed since, the request is refused."),
]
ReadAt = Annotated[
    Moment | None,
    Field(description="When you read it: evidence linked later does not count yet. Default: now."),
]
_SEND_HASH = (
    "Send the hash of the wording you read: read the heuristic (GET /api/v1/heuristics/{id}), decide on that text, and "
    "send its content_sha256."
)


def _as_duration(value: Any) -> Any:
    # Pydantic takes a number for seconds, and who writes 30 means days.
    if not isinstance(value, str | timedelta | None):
        raise PydanticCustomError("duration", "Write a duration such as P30D for 30 days.")
    return value


class HeuristicWording(Input):
    """The words of a lesson that may be left out."""

    avoid: Annotated[LongText, Field(description="What not to do.")] = ""
    not_when: Annotated[LongText, Field(description="When it does not apply.")] = ""
    rationale: Annotated[LongText, Field(description="Why; for reviewers, not for agents.")] = ""
    polarity: Annotated[
        str,
        OneOf(HeuristicRevision.Polarity),
        Field(description="Whether it says what works, what to avoid, or both; mixed if left out."),
    ] = ""
    scope: Annotated[
        str,
        OneOf(HeuristicRevision.Scope),
        Field(description="Where it applies; if left out, in the given task family, or else in the whole project."),
    ] = ""
    task_id: Annotated[Name, Field(description="The task family.")] = ""
    tags: Annotated[Tags, Field(description="Words to filter by.")] = Field(default_factory=list)
    source_task: Annotated[
        str,
        Field(max_length=MAX_TASK_CHARS, description="The task it was learnt from."),
        AfterValidator(cut_lesson_blocks),
    ] = ""
    valid_until: Annotated[
        Moment | None,
        Field(description="When agents stop being given it, for example the end of an offer; null: never."),
    ] = None
    expires_after: Annotated[
        timedelta | None,
        Field(
            strict=False,
            gt=timedelta(),
            le=timedelta(days=MAX_VALID_DAYS),
            description="How long agents are given it after its approval, such as `P30D`; null: no limit.",
        ),
        BeforeValidator(_as_duration),
    ] = None

    def text(self, *, base: HeuristicText | None = None) -> HeuristicText:
        """Return the words of the lesson, on top of an earlier wording where there is one.

        Raises:
            InvalidInput: it is for a task family and names none.
        """
        words = {name: value for name, value in self.sent().items() if name in TEXT_MEMBERS}
        if "tags" in words:
            # The text is frozen and hashable, which a list is not.
            words["tags"] = tuple(words["tags"])
        if base is None:
            words.setdefault("scope", _Scope.TASK_FAMILY if self.task_id else _Scope.PROJECT)
            text = HeuristicText(**words)
        else:
            text = replace(base, **words)
        # Only where these are sent: an older lesson that lacks its family can still have other words changed.
        if words.keys() & {"scope", "task_id"} and text.scope == _Scope.TASK_FAMILY and not text.task_id:
            fault = "Name the task family, or send the scope project for a lesson that applies everywhere."
            raise InvalidInput({"/task_id": [fault]})
        return text


class EvidenceInput(Input):
    """A recorded run that a lesson is drawn from, and where in it."""

    trajectory_id: Annotated[Name, Field(description="A run of this project, by its id or its `external_id`.")]
    first_step: Annotated[int | None, Field(ge=1, description="The first step that shows it, from 1."), WHOLE] = None
    last_step: Annotated[int | None, Field(ge=1, description="The last; the first if left out."), WHOLE] = None
    quote: Annotated[LongText, Field(description="Words of these steps, as the run has them.")] = ""

    @model_validator(mode="after")
    def _order_steps(self) -> Self:
        if self.last_step is not None and (self.first_step is None or self.last_step < self.first_step):
            raise wrong_member("last_step", "Send the first step too, and a last step that is not before it.")
        return self

    def cited_run(self) -> CitedRun:
        last = self.first_step if self.last_step is None else self.last_step
        citation = Citation(first_step=self.first_step, last_step=last, quote=self.quote)
        return CitedRun(named=self.trajectory_id, citation=citation)


class HeuristicInput(HeuristicWording):
    """A lesson to propose. It is not served until a person approves it."""

    trigger: Trigger
    guideline: Guideline
    confidence: Annotated[Share | None, Field(description="How sure its author is, from 0 to 1.")] = None
    external_id: Annotated[
        Name,
        Field(description="Your own id of this lesson, unique among those of your client. Sent again, it is updated."),
    ] = ""
    metadata: Annotated[
        dict[str, Any],
        Field(
            description=f"Anything you want to keep with it, at most {MAX_LESSON_METADATA_CHARS:,} characters as JSON. "
            "Agents are never given it."
        ),
    ] = Field(default_factory=dict)
    evidence: Annotated[
        list[EvidenceInput],
        Field(max_length=MAX_EVIDENCE, description="The runs it is drawn from; they count once it is approved."),
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _bound_metadata(self) -> Self:
        if len(json.dumps(self.metadata, ensure_ascii=False)) > MAX_LESSON_METADATA_CHARS:
            raise wrong_member("metadata", f"Send at most {MAX_LESSON_METADATA_CHARS:,} characters of JSON.")
        return self

    def lesson(self) -> ClientLesson:
        """Return it as `bring_lesson` takes it."""
        return ClientLesson(
            text=self.text(),
            confidence=self.confidence,
            external_id=self.external_id,
            # Sent empty, it clears what is there; left out, it keeps that.
            metadata=self.metadata if "metadata" in self.model_fields_set else None,
            evidence=tuple(piece.cited_run() for piece in self.evidence),
        )


class MoreEvidence(Input):
    """More runs that show a lesson."""

    evidence: Annotated[
        list[EvidenceInput],
        Field(min_length=1, max_length=MAX_EVIDENCE, description="The runs; they count once a reviewer has seen them."),
    ]


class HeuristicsInput(Input):
    """Lessons to propose. Each is taken or refused by itself."""

    heuristics: Annotated[
        list[SkipValidation[HeuristicInput]],
        Field(min_length=1, max_length=MAX_PROPOSALS_AT_ONCE, description="The lessons."),
    ]


class DecisionItem(Input):
    """One decision on exactly the wording that was read."""

    heuristic_id: Annotated[Id, Field(description="The heuristic to decide on.")]
    decision: Annotated[Literal["approve", "reject"], Field(description="What is decided.")]
    content_sha256: Annotated[
        ContentHash, Field(description="The hash of the wording you read; if it changed since, this one is refused.")
    ]
    read_at: ReadAt = None
    reason: Reason = ""


class DecisionsInput(Input):
    """Decisions to take. Each is taken or refused by itself."""

    decisions: Annotated[
        list[SkipValidation[DecisionItem]], Field(min_length=1, max_length=MAX_AT_ONCE, description="The decisions.")
    ]


class HeuristicPatch(HeuristicWording):
    """The words to change; what is left out stays as it is."""

    trigger: Trigger = ""
    guideline: Guideline = ""
    content_sha256: HashRead = None


class Withdrawal(Input):
    """Why a heuristic should no longer be served."""

    reason: Reason = ""


class Decision(Input):
    """A reviewer's decision."""

    content_sha256: HashRead = None
    reason: Reason = ""


class Approval(Decision):
    """An approval of exactly the wording that was read."""

    content_sha256: Annotated[
        ContentHash, Field(description="The hash of the wording you read; if it changed since, the request is refused.")
    ]
    read_at: ReadAt = None

    @model_validator(mode="before")
    @classmethod
    def _names_the_wording(cls, body: Any) -> Any:
        if isinstance(body, dict) and body.get("content_sha256") is None:
            raise wrong_member("content_sha256", _SEND_HASH)
        return body


class Merge(Decision):
    """Which heuristic stays, and with which wording."""

    into_id: Annotated[Id, Field(description="The heuristic that stays.")]
    take_wording: Annotated[
        bool,
        Field(
            description="Whether the one that stays takes over this one's words; false if left out. This approves "
            "them if the lesson that stays is approved, so it needs `content_sha256`."
        ),
    ] = False
    into_sha256: HashRead = None

    @model_validator(mode="after")
    def _names_the_wording_it_takes(self) -> Self:
        if self.take_wording and self.content_sha256 is None:
            raise wrong_member("content_sha256", _SEND_HASH)
        return self
