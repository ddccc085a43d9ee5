"""What became of answers, over HTTP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self
from uuid import UUID

from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.schema import describe, query_parameters
from memory.effects.outcomes import OutcomeCount, count_outcomes
from memory.projects.models import ApiKey
from memory.retrieval.serializers import read_validated


class OutcomesQuery(BaseModel):
    """Over which time to count."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: Annotated[int, Field(ge=1, le=3650, description="Answers of the last so many days.")] = 30
    limit: Annotated[int, Field(ge=1, le=500, description="Most families and lessons.")] = 50

    @classmethod
    def from_query(cls, params: Mapping[str, str]) -> Self:
        """Read query parameters."""
        return read_validated(lambda: cls.model_validate_strings(dict(params)), place="")


class OutcomeFigures(BaseModel):
    """Answers, the runs that were given them, and how those ended."""

    answers: int
    runs: int
    successes: int
    failures: int
    success_rate: Annotated[float | None, Field(description="Of the runs whose end is known; null where none is.")]
    mean_score: float | None


class ModeOutcomes(OutcomeFigures):
    mode: str


class FamilyOutcomes(OutcomeFigures):
    task_id: str
    mode: str


class LessonOutcomes(OutcomeFigures):
    heuristic: UUID


class RetrievalOutcomes(BaseModel):
    """What became of answers. Runs differ in more than the mode: read it as a hint, and measure with `evaluate`."""

    days: int
    by_mode: list[ModeOutcomes]
    by_family: list[FamilyOutcomes]
    by_lesson: list[LessonOutcomes]


class RetrievalOutcomesView(ApiView):
    required_scopes = {"GET": ApiKey.Scope.RETRIEVE}
    allowed_query_params = frozenset(OutcomesQuery.model_fields)

    @describe(
        "getRetrievalOutcomes",
        tag="retrieval",
        summary="Count what became of answers",
        description="How the runs ended that were given answers, by mode, by task family and by lesson, those answered "
        "with most often first. A run belongs to an answer whose `retrieval_id` it was recorded with.",
        parameters=query_parameters(OutcomesQuery, OutcomesQuery.model_fields),
        responses=RetrievalOutcomes,
    )
    def get(self, request: Request) -> Response:
        query = OutcomesQuery.from_query(request.query_params.dict())
        since = timezone.now() - timedelta(days=query.days)
        counted = count_outcomes([self.project.pk], since=since, limit=query.limit)
        return Response(
            {
                "days": query.days,
                "by_mode": [{"mode": one.mode} | _figures(one) for one in counted.by_mode],
                "by_family": [{"task_id": one.family, "mode": one.mode} | _figures(one) for one in counted.by_family],
                "by_lesson": [{"heuristic": one.heuristic_id} | _figures(one) for one in counted.by_lesson],
            }
        )


def _figures(count: OutcomeCount) -> dict[str, Any]:
    names = ("answers", "runs", "successes", "failures", "success_rate", "mean_score")
    return {name: getattr(count, name) for name in names}
