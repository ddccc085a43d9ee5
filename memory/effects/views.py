"""What agents report about the lessons they were given."""

from uuid import UUID

from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView, represent
from memory.api.schema import describe
from memory.effects.feedback import record_feedback
from memory.effects.serializers import FeedbackInput, FeedbackSerializer
from memory.heuristics.models import Heuristic
from memory.projects.models import ApiKey
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory


class FeedbackView(ApiView):
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}

    @describe(
        "rateHeuristic",
        tag="heuristics",
        summary="Say what a run did with a lesson",
        description="Counted once for your client and the run; sending it again replaces what you said before.",
        request=FeedbackInput,
        responses={201: FeedbackSerializer},
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = FeedbackInput.from_body(self.body)
        feedback = record_feedback(
            get_object_or_404(Heuristic.objects.for_project(self.project), pk=id),
            verdict=sent.verdict,
            client=self.api_key.client,
            trajectory=self.get_named(Trajectory, sent.trajectory_id, "trajectory_id"),
            retrieval=self.get_named(Retrieval, sent.retrieval_id, "retrieval_id"),
            helpful=sent.helpful,
            comment=sent.comment,
        )
        response = Response(represent(FeedbackSerializer, feedback), status=201)
        response.resource_id = sent.trajectory_id or id  # type: ignore[attr-defined]
        return response
