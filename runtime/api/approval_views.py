"""Calls that wait for a person, over HTTP."""

from typing import ClassVar
from uuid import UUID

from django_filters import rest_framework as filters
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import describe
from memory.projects.models import ApiKey
from runtime.api.shapes import ApprovalPage, DecisionInput, EffectAnswer, describe_approval, describe_effect
from runtime.approvals import decide_effect
from runtime.models.effects import Approval, ApprovalStatus, Effect

Scope = ApiKey.Scope


class ApprovalFilter(filters.FilterSet):  # type: ignore[misc]
    status = filters.ChoiceFilter(choices=ApprovalStatus.choices, help_text="Whether and how it was decided.")
    run = filters.UUIDFilter(field_name="run_id", help_text="The run that waits.")

    class Meta:
        model = Approval
        fields: ClassVar[list[str]] = []


class ApprovalListView(ApiView):
    required_scopes = {"GET": Scope.APPROVE}
    pagination_class = LimitOffset
    filterset_class = ApprovalFilter
    queryset = Approval.objects.none()

    @describe(
        "listApprovals",
        tag="agents",
        summary="List questions to people",
        description="Calls that wait for a decision, and those that were decided, the newest first.",
        filters=True,
        responses=ApprovalPage,
    )
    def get(self, request: Request) -> Response:
        rows = Approval.objects.filter(project=self.project).select_related("run", "effect__step")
        return self.answer_rows(rows, describe_approval)


class DecideView(ApiView):
    required_scopes = {"POST": Scope.APPROVE}

    @describe(
        "decideEffect",
        tag="agents",
        summary="Decide about a call",
        description="The decision holds for the arguments whose hash you send; a call with others gets 409. Answers "
        "with the call that now stands for it, which after `edit` is a new one.",
        request=DecisionInput,
        responses=EffectAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = DecisionInput.from_body(self.body)
        effect: Effect = get_object_or_404(Effect.objects.filter(project=self.project), pk=id)
        decided = decide_effect(
            effect,
            decision=sent.decision,
            arguments_sha256=sent.arguments_sha256,
            by=self.actor,
            reason=sent.reason,
            arguments=sent.arguments,
            answer=sent.answer,
        )
        response = Response(describe_effect(Effect.objects.select_related("step").get(pk=decided.pk)))
        response.resource_id = decided.run_id  # type: ignore[attr-defined]
        return response
