"""What became of lessons that were given: what agents report, and how their runs ended."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.schema import describe, query_parameters
from memory.effects.feedback import Feedback, record_feedback
from memory.effects.outcomes import OutcomeCount, count_outcomes
from memory.effects.serializers import FeedbackAnswer, FeedbackInput, OutcomesQuery, RetrievalOutcomes
from memory.heuristics.models import Heuristic
from memory.projects.models import ApiKey
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory


class FeedbackView(ApiView):
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}

    @describe(
        "rateHeuristic",
        tag="heuristics",
        summary="Report what a run did with a lesson",
        description="Counted once per client and run; sending it again replaces the earlier feedback.",
        request=FeedbackInput,
        responses={201: FeedbackAnswer},
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = FeedbackInput.from_body(self.body)
        feedback = record_feedback(
            get_object_or_404(Heuristic.objects.for_project(self.project), pk=id),
            Feedback(verdict=sent.verdict, helpful=sent.helpful, comment=sent.comment),
            client=self.api_key.client,
            trajectory=self.get_named(Trajectory, sent.trajectory_id, "trajectory_id"),
            retrieval=self.get_named(Retrieval, sent.retrieval_id, "retrieval_id"),
        )
        response = Response(FeedbackAnswer.write(feedback), status=201)
        response.resource_id = sent.trajectory_id or id  # type: ignore[attr-defined]
        return response


class RetrievalOutcomesView(ApiView):
    required_scopes = {"GET": ApiKey.Scope.RETRIEVE}
    allowed_query_params = frozenset(OutcomesQuery.model_fields)

    @describe(
        "getRetrievalOutcomes",
        tag="retrieval",
        summary="Count the outcomes of answers",
        description="How the runs that were given answers ended, by mode, by task family and by lesson, the most "
        "frequent first. A run belongs to the answer whose `retrieval_id` it was recorded with.",
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
                "by_mode": [{"mode": count.mode} | _figures(count) for count in counted.by_mode],
                "by_family": [
                    {"task_id": count.family, "mode": count.mode} | _figures(count) for count in counted.by_family
                ],
                "by_lesson": [{"heuristic": count.heuristic_id} | _figures(count) for count in counted.by_heuristic],
            }
        )


def _figures(count: OutcomeCount) -> dict[str, Any]:
    names = ("answers", "runs", "successes", "failures", "success_rate", "mean_score")
    return {name: getattr(count, name) for name in names}
