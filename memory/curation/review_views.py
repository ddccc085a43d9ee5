"""The reviewers' decisions."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.bulk import answer_each
from memory.api.input import Input
from memory.api.pagination import LimitOffset
from memory.api.schema import ETAG, describe
from memory.curation.decisions import (
    approve_heuristic,
    confirm_evidence,
    decide_unflagged,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.curation.filters import ReviewFilter
from memory.curation.input import Approval, Decision, DecisionItem, DecisionsInput, Merge, Withdrawal
from memory.curation.merge import merge_heuristics
from memory.curation.serializers import BulkAnswer, HeuristicDetail, ReviewAnswer, ReviewPage
from memory.curation.views import answer_heuristic, describe_result, get_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.models import ApiKey
from memory.review.models import Review


class DecisionView(ApiView):
    """One decision; `decision_view` names the service that takes it."""

    required_scopes = {"POST": ApiKey.Scope.REVIEW}
    body_optional = True
    input: type[Input] = Decision
    decide: Any

    def post(self, request: Request, id: UUID) -> Response:
        sent = self.input.from_body(self.body).sent()
        # From the class: on the instance the function would be bound to the view.
        decide = type(self).decide
        decide(get_heuristic(self, id), by=self.actor, request_id=self.request_id, **sent)
        return answer_heuristic(self, id)


def decision_view(
    decide: Callable[..., Heuristic],
    operation_id: str,
    summary: str,
    description: str,
    *,
    request: type[Input] = Decision,
    base: type[DecisionView] = DecisionView,
) -> type[DecisionView]:
    """Make the view of one decision: what it is called, what it takes and the service that carries it out."""
    name = f"{operation_id[0].upper()}{operation_id[1:]}View"
    # A class name of its own for each, as a class statement would give it.
    view: type[DecisionView] = type(name, (base,), {"decide": decide, "input": request})
    described = describe(
        operation_id,
        tag="review",
        summary=summary,
        description=description,
        request=request,
        responses=HeuristicDetail,
        parameters=[ETAG],
    )
    return extend_schema_view(post=described)(view)


class ApproveBase(DecisionView):
    body_optional = False


class MergeBase(DecisionView):
    body_optional = False

    def post(self, request: Request, id: UUID) -> Response:
        sent = Merge.from_body(self.body).sent()
        heuristic = get_heuristic(self, id)
        into = self.get_named(Heuristic, sent.pop("into_id"), "into_id")
        merge_heuristics(heuristic, into=into, by=self.actor, request_id=self.request_id, **sent)
        return answer_heuristic(self, id)


ApproveView = decision_view(
    approve_heuristic,
    "approveHeuristic",
    "Approve the newest wording",
    "It is served from now on, in place of any earlier one. The other `wordings` of its row become its duplicates, and "
    "`merged_ids` names them; one that joined after `read_at` stays in the queue. Send the `content_sha256` you read: "
    "without it nothing is approved, and if the wording changed since, the answer is 409. In a project that requires "
    "two reviewers, the first approval is recorded and the heuristic stays proposed.",
    request=Approval,
    base=ApproveBase,
)
RejectView = decision_view(
    reject_heuristic,
    "rejectHeuristic",
    "Reject the newest wording",
    "It is not served. An earlier approved wording stays in service and is the newest again. With a proposal that "
    "represents others, the other `wordings` are rejected too.",
)
RetireView = decision_view(
    retire_heuristic,
    "retireHeuristic",
    "Stop serving a heuristic",
    "For a lesson that is no longer needed.",
    request=Withdrawal,
)
QuarantineView = decision_view(
    quarantine_heuristic,
    "quarantineHeuristic",
    "Withdraw a heuristic that may do harm",
    "It is no longer served, and a proposed one can no longer be approved.",
    request=Withdrawal,
)
MergeView = decision_view(
    merge_heuristics,
    "mergeHeuristic",
    "Merge a heuristic into another that says the same",
    "The other one gets its evidence and, with `take_wording`, its words; this one is superseded. The answer is "
    "this one; `superseded_by_id` names the one that stays.",
    request=Merge,
    base=MergeBase,
)


ConfirmEvidenceView = decision_view(
    confirm_evidence,
    "confirmEvidence",
    "Let evidence that came later count",
    "For an approved heuristic: the runs that were linked to it since are in `approved_support` from now on, and tasks "
    "like theirs find it. "
    "Send the `content_sha256` you read. If all evidence counts already, the answer is 409.",
    request=Approval,
    base=ApproveBase,
)


class ReviewListView(ApiView):
    """The records of all decisions."""

    required_scopes = {"GET": ApiKey.Scope.HEURISTICS_READ, "POST": ApiKey.Scope.REVIEW}
    pagination_class = LimitOffset
    filterset_class = ReviewFilter
    queryset = Review.objects.none()

    @describe(
        "listReviews",
        tag="review",
        summary="List decisions",
        description="Every decision in the project, newest first, as it was recorded: by whom, on exactly which text, "
        "when and why. Nothing is ever changed or removed here.",
        filters=True,
        responses=ReviewPage,
    )
    def get(self, request: Request) -> Response:
        records = Review.objects.of_lessons().filter(project=self.project).select_related("revision")
        return self.answer_rows(records, ReviewAnswer.write)

    @describe(
        "decideHeuristics",
        tag="review",
        summary="Decide on many heuristics",
        description="Approves or rejects up to 20, each by the `content_sha256` of the wording you read. One that is "
        "refused does not hold back the others: the answer has a result for each. What the checks flagged, or have not "
        "looked at yet, cannot be approved here: approve it by itself. Under an `Idempotency-Key` the request as a "
        "whole happens once.",
        request=DecisionsInput,
        responses=BulkAnswer,
    )
    def post(self, request: Request) -> Response:
        return answer_each(DecisionsInput.from_body(self.body).decisions, self.decide)

    def decide(self, item: Any) -> dict[str, Any]:
        sent = DecisionItem.from_body(item)
        heuristic = self.get_named(Heuristic, sent.heuristic_id, "heuristic_id")
        decided = decide_unflagged(
            heuristic,
            approve=sent.decision == "approve",
            by=self.actor,
            content_sha256=sent.content_sha256,
            read_at=sent.read_at,
            reason=sent.reason,
            request_id=self.request_id,
        )
        return describe_result(decided)
