"""What agents say about lessons, as they send and read it."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import Id, Input, OneOf
from memory.api.output import Answer
from memory.effects.models import HeuristicFeedback
from memory.limits import MAX_OUTCOME_DAYS, MAX_OUTCOME_ROWS, MAX_REASON_CHARS


class FeedbackInput(Input):
    """An agent's feedback on a lesson it was given."""

    verdict: Annotated[str, OneOf(HeuristicFeedback.Verdict), Field(description="What the run did with the lesson.")]
    trajectory_id: Annotated[Id | None, Field(description="The run this is about.")] = None
    retrieval_id: Annotated[Id | None, Field(description="Or the answer that gave the lesson.")] = None
    helpful: Annotated[bool | None, Field(description="Whether it helped, if that is known.")] = None
    comment: Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Anything else, for reviewers.")] = ""


class FeedbackAnswer(Answer):
    """What an agent said of a lesson."""

    id: UUID
    heuristic_id: UUID
    verdict: Annotated[str, OneOf(HeuristicFeedback.Verdict)]
    helpful: bool | None
    comment: str
    trajectory_id: UUID | None
    retrieval_id: UUID | None
    client: str
    created_at: datetime


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
