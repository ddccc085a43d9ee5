"""Reflections as clients ask for and read them."""

from typing import Annotated, Any, Self

from drf_spectacular.utils import extend_schema_field
from pydantic import Field, model_validator
from rest_framework import serializers
from rest_framework.reverse import reverse

from memory.api.input import Id, Input, wrong_member
from memory.curation.serializers import HeuristicSerializer
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


class ProposalFindingSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField(help_text="A sentence for the reviewer.")


class ProposalSerializer(serializers.ModelSerializer[Proposal]):
    """What a reflection did with one lesson."""

    heuristic_id = serializers.UUIDField(read_only=True)
    effect = serializers.ChoiceField(
        choices=Proposal.Effect.choices,
        help_text="`new`: a proposal with a row of its own. `support`: the lesson exists, and the run became evidence "
        "of it. `group`: a proposal that joined the row of another with the same advice, `near_id`. `merge`: a "
        "proposal with a row of its own that a reviewer may merge into `near_id`.",
    )
    near_id = serializers.UUIDField(read_only=True, allow_null=True, help_text="The lesson it is close to.")
    similarity = serializers.FloatField(
        allow_null=True, help_text="How close in meaning, from 0 to 1; null where nothing was compared."
    )
    findings = ProposalFindingSerializer(many=True, help_text="What the checks found for the reviewer.")

    class Meta:
        model = Proposal
        fields = ["heuristic_id", "effect", "near_id", "similarity", "findings"]
        read_only_fields = fields


class ReflectionErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class ReflectionLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    trajectory = serializers.CharField()


class ReflectionSerializer(serializers.ModelSerializer[Reflection]):
    """One pass of a reflector over one run: its status, its cost and its result."""

    trajectory_id = serializers.UUIDField(read_only=True)
    finished = serializers.SerializerMethodField()
    reflector = serializers.CharField(read_only=True)
    reflector_version = serializers.CharField(read_only=True)
    prompt_version = serializers.CharField(read_only=True)
    heuristics_proposed = serializers.IntegerField(read_only=True)
    skip_reason = serializers.CharField(read_only=True, help_text="Why nothing was proposed.")
    cost_usd = serializers.FloatField(read_only=True)
    proposals = ProposalSerializer(many=True, read_only=True)
    error = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    class Meta:
        model = Reflection
        fields = [
            "id",
            "trajectory_id",
            "status",
            "finished",
            "attempts",
            "available_at",
            "reflector",
            "reflector_version",
            "model",
            "prompt_version",
            "heuristics_proposed",
            "proposals",
            "skip_reason",
            "error",
            "input_tokens",
            "output_tokens",
            "cost_usd",
            "requested_by",
            "request_id",
            "created_at",
            "started_at",
            "finished_at",
            "links",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.BooleanField(help_text="Whether it is done or dead."))
    def get_finished(self, reflection: Reflection) -> bool:
        return reflection.status not in Reflection.LIVE

    @extend_schema_field(ReflectionErrorSerializer(allow_null=True))
    def get_error(self, reflection: Reflection) -> dict[str, str] | None:
        if not reflection.last_error_code:
            return None
        return {"code": reflection.last_error_code, "message": reflection.last_error}

    @extend_schema_field(ReflectionLinksSerializer)
    def get_links(self, reflection: Reflection) -> dict[str, str]:
        return {
            "self": reverse("reflection_api:reflection", args=[reflection.pk]),
            "trajectory": reverse("api:trajectory", args=[reflection.trajectory_id]),
        }


class ReflectionWithLessonsSerializer(ReflectionSerializer):
    """A reflection and, once it is finished, what it proposed or supported."""

    lessons = HeuristicSerializer(
        many=True,
        allow_null=True,
        read_only=True,
        help_text="The lessons it proposed or supported, as they are now, in the order of `proposals`. Null until it "
        "is finished, and for a key without the scope `heuristics:read`.",
    )

    class Meta(ReflectionSerializer.Meta):
        fields = [*ReflectionSerializer.Meta.fields, "lessons"]
        read_only_fields = fields
