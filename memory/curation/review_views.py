"""The reviewers' decisions, and what agents say about the lessons they were given."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.fields import StrictSerializer
from memory.api.filters import ReviewFilter
from memory.api.pagination import LimitOffset
from memory.api.reuse import read_body, represent, represent_all
from memory.api.schema import ETAG, describe
from memory.curation.decisions import approve_heuristic, quarantine_heuristic, reject_heuristic, retire_heuristic
from memory.curation.merge import merge_heuristics
from memory.curation.serializers import (
    DecisionSerializer,
    FeedbackInputSerializer,
    FeedbackSerializer,
    HeuristicDetailSerializer,
    MergeSerializer,
    ReviewSerializer,
    WithdrawalSerializer,
)
from memory.curation.views import answer_heuristic, get_heuristic
from memory.effects.feedback import record_feedback
from memory.heuristics.models import Heuristic, Review
from memory.projects.models import ApiKey, Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory


class DecisionView(ApiView):
    """One decision; `decision_view` names the service that takes it."""

    required_scopes = {"POST": ApiKey.Scope.REVIEW}
    body_optional = True
    serializer_class: Any = DecisionSerializer
    decide: Any

    def post(self, request: Request, id: UUID) -> Response:
        values = read_body(self.serializer_class, request.data)
        decide = type(self).decide
        decide(get_heuristic(self, id), by=self.actor, request_id=self.request_id, **values)
        return answer_heuristic(self, id)


def decision_view(
    decide: Callable[..., Heuristic],
    operation_id: str,
    summary: str,
    description: str,
    *,
    request: type[StrictSerializer] = DecisionSerializer,
    base: type[DecisionView] = DecisionView,
) -> type[DecisionView]:
    """Make the view of one decision: what it is called, what it takes and the service that carries it out."""
    name = f"{operation_id[0].upper()}{operation_id[1:]}View"
    view: type[DecisionView] = type(name, (base,), {"decide": decide, "serializer_class": request})
    described = describe(
        operation_id,
        tag="review",
        summary=summary,
        description=description,
        request=request,
        responses=HeuristicDetailSerializer,
        parameters=[ETAG],
    )
    return extend_schema_view(post=described)(view)


class MergeBase(DecisionView):
    body_optional = False

    def post(self, request: Request, id: UUID) -> Response:
        values = read_body(self.serializer_class, request.data)
        heuristic = get_heuristic(self, id)
        into = _find_named(Heuristic, self.project, values.pop("into_id"), "into_id")
        merge_heuristics(heuristic, into=into, by=self.actor, request_id=self.request_id, **values)
        return answer_heuristic(self, id)


ApproveView = decision_view(
    approve_heuristic,
    "approveHeuristic",
    "Approve the newest wording",
    "It is served from now on, in place of any earlier one. Send the `content_sha256` you read. In a project that asks "
    "for two reviewers the first approval is recorded and the heuristic stays proposed.",
)
RejectView = decision_view(
    reject_heuristic,
    "rejectHeuristic",
    "Reject the newest wording",
    "It is not served. An earlier wording that was approved stays served and is the newest again.",
)
RetireView = decision_view(
    retire_heuristic,
    "retireHeuristic",
    "Stop serving a heuristic",
    "For a lesson that has had its day.",
    request=WithdrawalSerializer,
)
QuarantineView = decision_view(
    quarantine_heuristic,
    "quarantineHeuristic",
    "Withdraw a heuristic that may do harm",
    "It is no longer served, and a proposed one can no longer be approved.",
    request=WithdrawalSerializer,
)
MergeView = decision_view(
    merge_heuristics,
    "mergeHeuristic",
    "Merge a heuristic into another that says the same",
    "The other one gets its evidence and, with `take_wording`, its words; this one is superseded. The answer is "
    "this one; `superseded_by_id` names the one that stays.",
    request=MergeSerializer,
    base=MergeBase,
)


class ReviewListView(ApiView):
    """The records of all decisions."""

    required_scopes = {"GET": ApiKey.Scope.HEURISTICS_READ}
    pagination_class = LimitOffset
    filter_backends = [DjangoFilterBackend]
    filterset_class = ReviewFilter
    queryset = Review.objects.none()

    def get_allowed_query_params(self, request: Request) -> frozenset[str]:
        return super().get_allowed_query_params(request) | ReviewFilter.query_params()

    @describe(
        "listReviews",
        tag="review",
        summary="List decisions",
        description="Every decision in the project, newest first, as it was recorded: by whom, on exactly which text, "
        "when and why. Nothing is ever changed or removed here. `manage.py export_decisions` writes all as JSON Lines.",
        filters=True,
        responses=ReviewSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        records = Review.objects.filter(project=self.project).select_related("revision")
        return self.get_paginated_response(
            represent_all(ReviewSerializer, self.paginate_queryset(self.filter_queryset(records)))
        )


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
