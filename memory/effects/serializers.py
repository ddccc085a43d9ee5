"""What agents say about lessons, as they send and read it."""

from typing import Annotated

from pydantic import Field
from rest_framework import serializers

from memory.api.input import Id, Input, OneOf
from memory.effects.models import HeuristicFeedback
from memory.limits import MAX_REASON_CHARS


class FeedbackInput(Input):
    """What an agent says about a lesson it was given."""

    verdict: Annotated[str, OneOf(HeuristicFeedback.Verdict), Field(description="What the run did with the lesson.")]
    trajectory_id: Annotated[Id | None, Field(description="The run this is about.")] = None
    retrieval_id: Annotated[Id | None, Field(description="Or the answer that gave the lesson.")] = None
    helpful: Annotated[bool | None, Field(description="Whether it helped, if that is known.")] = None
    comment: Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Anything else, for reviewers.")] = ""


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
