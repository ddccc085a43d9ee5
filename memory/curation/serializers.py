"""Heuristics as clients propose, review and read them."""

import json
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, Self

from drf_spectacular.utils import extend_schema_field
from pydantic import Field, SkipValidation, model_validator
from rest_framework import serializers

from memory.api.base import represent
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
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision, Review
from memory.heuristics.text import Citation, HeuristicText
from memory.limits import (
    MAX_EVIDENCE,
    MAX_LESSON_METADATA_CHARS,
    MAX_LESSON_TEXT_CHARS,
    MAX_PROPOSALS_AT_ONCE,
    MAX_REASON_CHARS,
    MAX_TASK_CHARS,
    MAX_TRIGGER_CHARS,
)
from memory.retrieval.context import write_body

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
    source_task: Annotated[str, Field(max_length=MAX_TASK_CHARS, description="The task it was learnt from.")] = ""

    def text(self, *, base: HeuristicText | None = None) -> HeuristicText:
        """Return the words of the lesson, on top of an earlier wording where there is one.

        Raises:
            InvalidInput: it is for a task family and names none.
        """
        words = {name: value for name, value in self.sent().items() if name in TEXT_MEMBERS}
        if "tags" in words:
            words["tags"] = tuple(words["tags"])
        if base is None:
            words.setdefault("scope", _Scope.TASK_FAMILY if self.task_id else _Scope.PROJECT)
            text = HeuristicText(**words)
        else:
            text = replace(base, **words)
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
            metadata=self.metadata if "metadata" in self.model_fields_set else None,
            evidence=tuple(each.cited_run() for each in self.evidence),
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


class ReviewSerializer(serializers.ModelSerializer[Review]):
    """One decision by one person, key or policy on one exact text."""

    heuristic_id = serializers.UUIDField(read_only=True)
    revision = serializers.IntegerField(source="revision.number", read_only=True)

    class Meta:
        model = Review
        fields = [
            "id",
            "heuristic_id",
            "revision",
            "decision",
            "content_sha256",
            "reason",
            "reviewer",
            "seconds_on_screen",
            "request_id",
            "decided_with",
            "created_at",
        ]
        read_only_fields = fields


class ServedRevisionSerializer(serializers.ModelSerializer[HeuristicRevision]):
    """The wording that agents are given now."""

    revision = serializers.IntegerField(source="number", read_only=True)
    line = serializers.SerializerMethodField()

    class Meta:
        model = HeuristicRevision
        fields = ["revision", "content_sha256", *TEXT_MEMBERS, "line", "approved_by", "approved_at"]
        read_only_fields = fields

    @extend_schema_field(serializers.CharField(help_text="It as it stands in a context block, made safe, in one line."))
    def get_line(self, revision: HeuristicRevision) -> str:
        return write_body({**asdict(revision.as_text()), "id": revision.heuristic_id})


class EvidenceSerializer(serializers.ModelSerializer[Evidence]):
    """A run that a lesson cites, and where in it."""

    trajectory_id = serializers.UUIDField(read_only=True)
    counts = serializers.SerializerMethodField()

    class Meta:
        model = Evidence
        fields = ["trajectory_id", "first_step", "last_step", "quote", "counts"]
        read_only_fields = fields

    @extend_schema_field(
        serializers.BooleanField(
            help_text="Whether a reviewer has approved or confirmed it, so that it is in `approved_support` and tasks "
            "like that of the run find the lesson."
        )
    )
    def get_counts(self, evidence: Evidence) -> bool:
        return evidence.approved_at is not None


class OtherWordingSerializer(serializers.ModelSerializer[Heuristic]):
    """A proposal that gives the same advice in other words."""

    heuristic_id = serializers.UUIDField(source="id", read_only=True)
    trigger = serializers.CharField(source="current_revision.trigger")
    guideline = serializers.CharField(source="current_revision.guideline")
    avoid = serializers.CharField(source="current_revision.avoid")
    not_when = serializers.CharField(source="current_revision.not_when")
    content_sha256 = serializers.CharField(source="current_revision.content_sha256")

    class Meta:
        model = Heuristic
        fields = ["heuristic_id", "trigger", "guideline", "avoid", "not_when", "content_sha256", "grouped_at"]
        read_only_fields = fields


@extend_schema_field({"type": "object", "additionalProperties": True})
class LessonMetadataField(serializers.JSONField):
    """What the client keeps with a lesson."""


class TallySerializer(serializers.Serializer[Any]):
    """How many runs of its task family, or of the project, speak for and against a proposal, when last counted."""

    failures_met = serializers.IntegerField(help_text="Failed runs that it would have met.")
    failures = serializers.IntegerField(help_text="All failed runs.")
    successes_contradicted = serializers.IntegerField(
        allow_null=True, help_text="Successful runs that did what it says to avoid; null where that is not known."
    )
    successes = serializers.IntegerField(help_text="All successful runs.")


class HeuristicSerializer(serializers.ModelSerializer[Heuristic]):
    """A heuristic: its status, its newest wording, and the wording that is served, if any."""

    trigger = serializers.CharField(source="current_revision.trigger")
    guideline = serializers.CharField(source="current_revision.guideline")
    avoid = serializers.CharField(source="current_revision.avoid")
    not_when = serializers.CharField(source="current_revision.not_when")
    rationale = serializers.CharField(source="current_revision.rationale")
    polarity = serializers.ChoiceField(source="current_revision.polarity", choices=HeuristicRevision.Polarity.choices)
    scope = serializers.ChoiceField(source="current_revision.scope", choices=HeuristicRevision.Scope.choices)
    task_id = serializers.CharField(source="current_revision.task_id")
    tags = serializers.ListField(child=serializers.CharField(), source="current_revision.tags")
    source_task = serializers.CharField(source="current_revision.source_task")
    content_sha256 = serializers.CharField(source="current_revision.content_sha256")
    revision = serializers.IntegerField(source="current_revision.number")
    approved_by = serializers.CharField(source="current_revision.approved_by")
    approved_at = serializers.DateTimeField(source="current_revision.approved_at", allow_null=True)
    served = serializers.SerializerMethodField()
    served_revision = serializers.SerializerMethodField()
    superseded_by_id = serializers.UUIDField(allow_null=True)
    leader_id = serializers.UUIDField(
        allow_null=True,
        help_text="The proposal that represents this one in the queue; a decision on it also decides this one.",
    )
    support = serializers.IntegerField(
        help_text="The distinct runs that show it: those in `evidence` and, for a proposal with `wordings`, those of "
        "its other wordings."
    )
    approved_support = serializers.IntegerField(
        help_text="Those of them that a reviewer approved with it or confirmed later; ranking counts only these."
    )
    tally = serializers.SerializerMethodField()
    metadata = LessonMetadataField(read_only=True)

    class Meta:
        model = Heuristic
        fields = [
            "id",
            "status",
            *TEXT_MEMBERS,
            "content_sha256",
            "revision",
            "support",
            "approved_support",
            "usefulness",
            "confidence",
            "reflector",
            "reflector_version",
            "model",
            "prompt_version",
            "client",
            "external_id",
            "metadata",
            "approved_by",
            "approved_at",
            "served",
            "served_revision",
            "superseded_by_id",
            "leader_id",
            "tally",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.BooleanField(help_text="Whether agents are given a wording of it now."))
    def get_served(self, heuristic: Heuristic) -> bool:
        return bool(heuristic.served_revisions)  # type: ignore[attr-defined]

    @extend_schema_field(TallySerializer(allow_null=True))
    def get_tally(self, heuristic: Heuristic) -> dict[str, Any] | None:
        tally = heuristic.review_basis.get("tally") if heuristic.status == Heuristic.Status.PROPOSED else None
        return represent(TallySerializer, tally) if tally else None

    @extend_schema_field(ServedRevisionSerializer(allow_null=True))
    def get_served_revision(self, heuristic: Heuristic) -> dict[str, Any] | None:
        served = heuristic.served_revisions  # type: ignore[attr-defined]
        return represent(ServedRevisionSerializer, served[0]) if served else None


class PageSerializer(serializers.Serializer[Any]):
    limit = serializers.IntegerField(min_value=0)
    offset = serializers.IntegerField(min_value=0)
    total = serializers.IntegerField(min_value=0)


class HeuristicPageSerializer(serializers.Serializer[Any]):
    """A page of heuristics."""

    results = HeuristicSerializer(many=True)
    pagination = PageSerializer()


class BulkErrorSerializer(serializers.Serializer[Any]):
    """Why one of many was refused; nothing was changed for it."""

    code = serializers.CharField()
    message = serializers.CharField(help_text="A sentence that says what to do next.")
    retryable = serializers.BooleanField()
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()),
        help_text="What is wrong where: JSON pointers into this one.",
    )


class BulkItemSerializer(serializers.Serializer[Any]):
    """What became of one of many."""

    index = serializers.IntegerField(min_value=0, help_text="Its place in the request, from 0.")
    status = serializers.IntegerField(help_text="The status it would have been answered with by itself.")
    heuristic_id = serializers.UUIDField(allow_null=True, help_text="Null where it was refused before it was found.")
    heuristic_status = serializers.ChoiceField(choices=Heuristic.Status.choices, allow_null=True)
    content_sha256 = serializers.CharField(allow_null=True, help_text="The hash of its newest wording.")
    error = BulkErrorSerializer(allow_null=True)


class BulkSerializer(serializers.Serializer[Any]):
    """What became of each, in the order of the request."""

    results = BulkItemSerializer(many=True)


class HeuristicDetailSerializer(HeuristicSerializer):
    """A heuristic with the runs it was learnt from, and its other wordings."""

    evidence = EvidenceSerializer(many=True)
    wordings = OtherWordingSerializer(
        source="other_wordings",
        many=True,
        help_text="The other wordings of its row in the queue. An approval of this one makes them its duplicates and "
        "gives their runs to it.",
    )
    merged_ids: serializers.ManyRelatedField = serializers.PrimaryKeyRelatedField(  # type: ignore[assignment]
        source="supersedes",
        many=True,
        read_only=True,
        help_text="The lessons that were merged into it, by an approval of its row or by `merge`.",
    )

    class Meta(HeuristicSerializer.Meta):
        fields = [*HeuristicSerializer.Meta.fields, "evidence", "wordings", "merged_ids"]
        read_only_fields = fields
