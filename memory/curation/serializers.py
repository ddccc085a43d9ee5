"""Heuristics and decisions about them as clients read them."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.api.base import represent
from memory.curation.input import TEXT_MEMBERS
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.retrieval.context import write_body
from memory.review.models import Review


class ReviewSerializer(serializers.ModelSerializer[Review]):
    """One decision by one person, key or policy on one exact text."""

    heuristic_id = serializers.UUIDField(source="subject_id", read_only=True)
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
