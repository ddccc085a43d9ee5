"""What agents say about lessons, as they send and read it."""

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field
from rest_framework import serializers

from memory.api.input import Id, Input, OneOf
from memory.effects.models import HeuristicFeedback
from memory.limits import MAX_OUTCOME_DAYS, MAX_OUTCOME_ROWS, MAX_REASON_CHARS


class FeedbackInput(Input):
    """An agent's feedback on a lesson it was given."""

    verdict: Annotated[str, OneOf(HeuristicFeedback.Verdict), Field(description="What the run did with the lesson.")]
    trajectory_id: Annotated[Id | None, Field(description="The run this is about.")] = None
    retrieval_id: Annotated[Id | None, Field(description="Or the answer that gave the lesson.")] = None
    helpful: Annotated[bool | None, Field(description="Whether it helped, if that is known.")] = None
    comment: Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Anything else, for reviewers.")] = ""


class FeedbackSerializer(serializers.ModelSerializer[HeuristicFeedback]):
    heuristic_id = serializers.UUIDField(read_only=True)
    trajectory_id = serializers.UUIDField(read_only=True, allow_null=True)
    retrieval_id = serializers.UUIDField(read_only=True, allow_null=True)
    verdict = serializers.ChoiceField(HeuristicFeedback.Verdict.choices, read_only=True)

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


class OutcomesQuery(Input):
    """Over which time to count."""

    days: Annotated[int, Field(ge=1, le=MAX_OUTCOME_DAYS, description="Only answers of the last N days.")] = 30
    limit: Annotated[
        int, Field(ge=1, le=MAX_OUTCOME_ROWS, description="Maximum number of families and of lessons.")
    ] = 50


class OutcomeFigures(BaseModel):
    """Answers, the runs that were given them, and how those ended."""

    answers: int
    runs: int
    successes: int
    failures: int
    success_rate: Annotated[
        float | None, Field(description="Among the runs with a known outcome; null if there are none.")
    ]
    mean_score: float | None


class ModeOutcomes(OutcomeFigures):
    mode: str


class FamilyOutcomes(OutcomeFigures):
    task_id: str
    mode: str


class LessonOutcomes(OutcomeFigures):
    heuristic: UUID


class RetrievalOutcomes(BaseModel):
    """The outcomes of answers. Runs differ in more than the mode: treat them as a hint, and measure with `evaluate`."""

    days: int
    by_mode: list[ModeOutcomes]
    by_family: list[FamilyOutcomes]
    by_lesson: list[LessonOutcomes]
