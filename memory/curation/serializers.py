"""Heuristics as clients propose, review and read them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.api.fields import Choice, Flag, Id, Name, Number, OptionalText, StrictSerializer, Tags, Text
from memory.api.reuse import represent
from memory.effects.models import HeuristicFeedback
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision, Review
from memory.heuristics.text import HeuristicText

SHA256 = r"^[0-9a-f]{64}$"
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


class ContentHash(serializers.RegexField):
    """The hash of the wording that the caller read."""

    def __init__(self, **options: Any) -> None:
        help_text = "The hash of the wording you read; if it changed since, the request is refused."
        super().__init__(regex=SHA256, required=False, allow_null=True, help_text=help_text, **options)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class HeuristicTextSerializer(StrictSerializer):
    """The words of a lesson."""

    trigger = Text(max_length=2_000, help_text="When it applies; something to be seen before acting.")
    guideline = Text(max_length=8_000, help_text="What to do then.")
    avoid = OptionalText(max_length=8_000, help_text="What not to do.")
    not_when = OptionalText(max_length=8_000, help_text="When it does not apply.")
    rationale = OptionalText(max_length=8_000, help_text="Why; for reviewers, not for agents.")
    polarity = Choice(
        choices=HeuristicRevision.Polarity.choices,
        required=False,
        help_text="Whether it says what works, what to avoid, or both; mixed if left out.",
    )
    scope = Choice(
        choices=HeuristicRevision.Scope.choices,
        required=False,
        help_text="Where it holds; if left out, in the task family that is named, else in the whole project.",
    )
    task_id = Name(help_text="The task family.")
    tags = Tags(help_text="Words to filter by.")
    source_task = OptionalText(max_length=60_000, help_text="The task it was learnt from.")


class HeuristicInputSerializer(HeuristicTextSerializer):
    """A lesson to propose. It is not served until a person approves it."""

    confidence = Number(
        min_value=0, max_value=1, required=False, allow_null=True, help_text="How sure its author is, from 0 to 1."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        family, everywhere = HeuristicRevision.Scope.TASK_FAMILY, HeuristicRevision.Scope.PROJECT
        attrs.setdefault("scope", family if attrs.get("task_id") else everywhere)
        check_scope(scope=attrs["scope"], task_id=attrs.get("task_id", ""))
        return attrs


class HeuristicPatchSerializer(HeuristicTextSerializer):
    """The words to change; what is left out stays as it is."""

    content_sha256 = ContentHash()


class DecisionSerializer(StrictSerializer):
    """A reviewer's decision."""

    content_sha256 = ContentHash()
    reason = OptionalText(max_length=4_000, help_text="Why; kept with the decision.")


class WithdrawalSerializer(StrictSerializer):
    """Why a heuristic is no longer to be served."""

    reason = OptionalText(max_length=4_000, help_text="Why; kept with the decision.")


class MergeSerializer(DecisionSerializer):
    """Which heuristic stays, and in whose words."""

    into_id = Id(help_text="The heuristic that stays.")
    take_wording = Flag(
        required=False, help_text="Whether the one that stays takes over this one's words; false if left out."
    )
    into_sha256 = ContentHash()


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
            "created_at",
        ]
        read_only_fields = fields


class FeedbackInputSerializer(StrictSerializer):
    """What an agent says about a lesson it was given."""

    verdict = Choice(choices=HeuristicFeedback.Verdict.choices, help_text="What the run did with the lesson.")
    trajectory_id = Id(required=False, allow_null=True, help_text="The run this is about.")
    retrieval_id = Id(required=False, allow_null=True, help_text="Or the answer that gave the lesson.")
    helpful = Flag(required=False, allow_null=True, help_text="Whether it helped, if that is known.")
    comment = OptionalText(max_length=4_000, help_text="Anything else, for reviewers.")


class FeedbackSerializer(serializers.ModelSerializer[HeuristicFeedback]):
    heuristic_id = serializers.UUIDField(read_only=True)
    trajectory_id = serializers.UUIDField(read_only=True, allow_null=True)
    retrieval_id = serializers.UUIDField(read_only=True, allow_null=True)

    class Meta:
        model = HeuristicFeedback
        fields = [
            "id",
            "heuristic_id",
            "verdict",
            "helpful",
            "comment",
            "trajectory_id",
            "retrieval_id",
            "client",
            "created_at",
        ]
        read_only_fields = fields


class ServedRevisionSerializer(serializers.ModelSerializer[HeuristicRevision]):
    """The wording that agents are given now."""

    revision = serializers.IntegerField(source="number", read_only=True)

    class Meta:
        model = HeuristicRevision
        fields = ["revision", "content_sha256", *TEXT_MEMBERS, "approved_by", "approved_at"]
        read_only_fields = fields


class EvidenceSerializer(serializers.ModelSerializer[Evidence]):
    trajectory_id = serializers.UUIDField(read_only=True)

    class Meta:
        model = Evidence
        fields = ["trajectory_id", "first_step", "last_step", "quote"]
        read_only_fields = fields


class HeuristicSerializer(serializers.ModelSerializer[Heuristic]):
    """A heuristic: its newest wording, where it stands, and the wording that is served, if any."""

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

    class Meta:
        model = Heuristic
        fields = [
            "id",
            "status",
            *TEXT_MEMBERS,
            "content_sha256",
            "revision",
            "support",
            "confidence",
            "reflector",
            "reflector_version",
            "model",
            "prompt_version",
            "client",
            "approved_by",
            "approved_at",
            "served",
            "served_revision",
            "superseded_by_id",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.BooleanField(help_text="Whether agents are given a wording of it now."))
    def get_served(self, heuristic: Heuristic) -> bool:
        return bool(heuristic.served_revisions)  # type: ignore[attr-defined]

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


class HeuristicDetailSerializer(HeuristicSerializer):
    """A heuristic with the runs it is drawn from."""

    evidence = EvidenceSerializer(many=True)

    class Meta(HeuristicSerializer.Meta):
        fields = [*HeuristicSerializer.Meta.fields, "evidence"]
        read_only_fields = fields


def check_scope(*, scope: str, task_id: str) -> None:
    """Refuse a lesson for a task family that names none."""
    if scope == HeuristicRevision.Scope.TASK_FAMILY and not task_id:
        raise serializers.ValidationError(
            {"task_id": ["Name the task family, or send the scope project for a lesson that holds everywhere."]}
        )


def heuristic_text_from(values: dict[str, Any], *, base: HeuristicText | None = None) -> HeuristicText:
    """Build the words of a lesson from validated members, on top of an earlier wording."""
    words = {name: values[name] for name in TEXT_MEMBERS if name in values}
    if "tags" in words:
        words["tags"] = tuple(words["tags"])
    before = {name: getattr(base, name) for name in TEXT_MEMBERS} if base is not None else {}
    return HeuristicText(**before | words)
