"""The reviewers' decisions, and what agents say about the lessons they were given."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.schema import ETAG, describe
from memory.api.serializers.heuristic import (
    DecisionSerializer,
    FeedbackInputSerializer,
    FeedbackSerializer,
    HeuristicDetailSerializer,
    WithdrawalSerializer,
)
from memory.api.serializers.reuse import read_body, represent
from memory.api.views.heuristics import answer_heuristic, get_heuristic
from memory.models import ApiKey, Project, Retrieval, Trajectory
from memory.services.record_feedback import record_feedback
from memory.services.review_heuristic import (
    approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)


class DecisionView(ApiView):
    """One decision; subclasses name the service that takes it."""

    required_scopes = {"POST": ApiKey.Scope.REVIEW}
    body_optional = True
    serializer_class: Any = DecisionSerializer
    decide: Any

    def post(self, request: Request, id: UUID) -> Response:
        values = read_body(self.serializer_class, request.data)
        decide = type(self).decide
        decide(get_heuristic(self, id), by=self.actor, request_id=self.request_id, **values)
        return answer_heuristic(self, id)


@extend_schema_view(
    post=describe(
        "approveHeuristic",
        tag="review",
        summary="Approve the newest wording",
        description="It is served from now on, in place of any earlier one. Send the `content_sha256` you read.",
        request=DecisionSerializer,
        responses=HeuristicDetailSerializer,
        parameters=[ETAG],
    )
)
class ApproveView(DecisionView):
    decide = approve_heuristic


@extend_schema_view(
    post=describe(
        "rejectHeuristic",
        tag="review",
        summary="Reject the newest wording",
        description="It is not served. An earlier wording that was approved stays served and is the newest again.",
        request=DecisionSerializer,
        responses=HeuristicDetailSerializer,
        parameters=[ETAG],
    )
)
class RejectView(DecisionView):
    decide = reject_heuristic


@extend_schema_view(
    post=describe(
        "retireHeuristic",
        tag="review",
        summary="Stop serving a heuristic",
        description="For a lesson that has had its day.",
        request=WithdrawalSerializer,
        responses=HeuristicDetailSerializer,
        parameters=[ETAG],
    )
)
class RetireView(DecisionView):
    serializer_class = WithdrawalSerializer
    decide = retire_heuristic


@extend_schema_view(
    post=describe(
        "quarantineHeuristic",
        tag="review",
        summary="Withdraw a heuristic that may do harm",
        description="It is no longer served, and a proposed one can no longer be approved.",
        request=WithdrawalSerializer,
        responses=HeuristicDetailSerializer,
        parameters=[ETAG],
    )
)
class QuarantineView(DecisionView):
    serializer_class = WithdrawalSerializer
    decide = quarantine_heuristic


class FeedbackView(ApiView):
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}

    @describe(
        "rateHeuristic",
        tag="heuristics",
        summary="Say what a run did with a lesson",
        description="Counted once for your client and the run; sending it again replaces what you said before.",
        request=FeedbackInputSerializer,
        responses={201: FeedbackSerializer},
    )
    def post(self, request: Request, id: UUID) -> Response:
        values = read_body(FeedbackInputSerializer, request.data)
        trajectory_id, retrieval_id = values.get("trajectory_id"), values.get("retrieval_id")
        feedback = record_feedback(
            get_heuristic(self, id),
            verdict=values["verdict"],
            by=self.actor,
            client=self.api_key.client,
            trajectory=_find_named(Trajectory, self.project, trajectory_id, "trajectory_id"),
            retrieval=_find_named(Retrieval, self.project, retrieval_id, "retrieval_id"),
            helpful=values.get("helpful"),
            comment=values.get("comment", ""),
        )
        response = Response(represent(FeedbackSerializer, feedback), status=201)
        response.resource_id = trajectory_id or id  # type: ignore[attr-defined]
        return response


def _find_named(model: Any, project: Project, id: UUID | None, member: str) -> Any:
    """Return the row of this project that a body names, None where it names none, or answer 404."""
    if id is None:
        return None
    row = model.objects.filter(project=project, pk=id).first()
    if row is None:
        detail = f"No {model._meta.verbose_name} {id} exists in this project. Check the {member}."
        raise Refusal(ErrorCode.NOT_FOUND, detail, fields={f"/{member}": [detail]})
    return row
