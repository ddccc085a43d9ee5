"""Changes of agents over HTTP: propose, check, shadow, try, promote, roll back."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import describe
from memory.projects.models import ApiKey
from runtime.api.change_shapes import (
    ChangeDetail,
    ChangeInput,
    ChangePage,
    EvolutionAnswer,
    EvolutionInput,
    ReasonInput,
    TrialInput,
    describe_change,
    describe_change_fully,
)
from runtime.changes.jobs import request_shadow
from runtime.changes.ladder import (
    check_change,
    check_decider,
    promote_change,
    reject_change,
    roll_back_change,
    start_trial,
)
from runtime.changes.proposals import propose_change
from runtime.models.agents import Agent
from runtime.models.changes import Change, ChangeRung

Scope = ApiKey.Scope


class ChangeFilter(filters.FilterSet):  # type: ignore[misc]
    agent = filters.UUIDFilter(field_name="agent_id", help_text="The agent.")
    rung = filters.ChoiceFilter(choices=ChangeRung.choices, help_text="How far they have come.")

    class Meta:
        model = Change
        fields: ClassVar[list[str]] = []


class ChangeListView(ApiView):
    required_scopes = {"GET": Scope.RUN, "POST": Scope.AGENTS}
    pagination_class = LimitOffset
    filterset_class = ChangeFilter
    queryset = Change.objects.none()

    @describe(
        "listChanges",
        tag="changes",
        summary="List changes",
        description="Changes of agents, the newest first.",
        filters=True,
        responses=ChangePage,
    )
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(_shown(self))) or ()
        return self.get_paginated_response([describe_change(change) for change in page])

    @describe(
        "proposeChange",
        tag="changes",
        summary="Propose a change",
        description="Writes down what the agent would be. Nothing that runs is touched. The same proposal is the same "
        "change, with the status 200.",
        request=ChangeInput,
        responses={
            201: OpenApiResponse(ChangeDetail, "It is proposed."),
            200: OpenApiResponse(ChangeDetail, "It was proposed before."),
        },
    )
    def post(self, request: Request) -> Response:
        sent = ChangeInput.from_body(self.body)
        agent = get_object_or_404(Agent.objects.for_project(self.project), pk=sent.agent)
        # Changes are numbered, so a higher number tells that this request made the change.
        last = agent.changes.order_by("-number").values_list("number", flat=True).first() or 0
        change = propose_change(agent, sent.as_proposal(), by=self.actor)
        response = Response(describe_change_fully(_get(self, change.pk)), status=201 if change.number > last else 200)
        response.resource_id = change.pk  # type: ignore[attr-defined]
        return response


class ChangeView(ApiView):
    required_scopes = {"GET": Scope.RUN}

    @describe(
        "getChange",
        tag="changes",
        summary="Read a change",
        description="With what every check found and what it did in shadow.",
        responses=ChangeDetail,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(describe_change_fully(_get(self, id)))


class CheckChangeView(ApiView):
    required_scopes = {"POST": Scope.AGENTS}
    body_optional = True

    @describe(
        "checkChange",
        tag="changes",
        summary="Check a change",
        description="Runs the checks, cheap ones first, up to the first that fails. Each writes a row.",
        request=None,
        responses=ChangeDetail,
    )
    def post(self, request: Request, id: UUID) -> Response:
        check_change(_get(self, id), by=self.actor)
        return Response(describe_change_fully(_get(self, id)))


class ShadowChangeView(ApiView):
    required_scopes = {"POST": Scope.AGENTS}
    body_optional = True

    @describe(
        "shadowChange",
        tag="changes",
        summary="Rehearse a change",
        description="A worker lets the candidate work on the tasks of recorded runs. Calls are answered from their "
        "journals, others are refused; nothing leaves ERL but the questions to the model.",
        request=None,
        responses={202: OpenApiResponse(ChangeDetail, "It is queued.")},
    )
    def post(self, request: Request, id: UUID) -> Response:
        request_shadow(_get(self, id), by=self.actor)
        return Response(describe_change_fully(_get(self, id)), status=202)


class TrialView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    further_scopes = (Scope.REVIEW,)

    @describe(
        "tryChange",
        tag="changes",
        summary="Try a change",
        description="Cuts a release that differs from the stable one in this change alone, and makes it the candidate "
        "for a share of the units. That approves the lessons it brings; if it is rolled back, they are retired.",
        request=TrialInput,
        responses=ChangeDetail,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = TrialInput.from_body(self.body)
        # In thousandths of the units, and at least one.
        share = max(round(sent.percent * 10), 1)
        start_trial(_get(self, id), sha256=sent.sha256, share=share, by=self.actor, reason=sent.reason)
        return Response(describe_change_fully(_get(self, id)))


class PromoteChangeView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "promoteChange",
        tag="changes",
        summary="Promote a change",
        description="Makes the release that tries it stable.",
        request=ReasonInput,
        responses=ChangeDetail,
    )
    def post(self, request: Request, id: UUID) -> Response:
        promote_change(_get(self, id), by=self.actor, reason=_reason(self))
        return Response(describe_change_fully(_get(self, id)))


class RollBackChangeView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "rollBackChange",
        tag="changes",
        summary="Roll a change back",
        description="Ends its trial, or returns to the release that was stable before it.",
        request=ReasonInput,
        responses=ChangeDetail,
    )
    def post(self, request: Request, id: UUID) -> Response:
        roll_back_change(_get(self, id), by=self.actor, reason=_reason(self))
        return Response(describe_change_fully(_get(self, id)))


class RejectChangeView(ApiView):
    required_scopes = {"POST": Scope.REVIEW}
    body_optional = True

    @describe(
        "rejectChange",
        tag="changes",
        summary="Reject a change",
        description="It climbs no further.",
        request=ReasonInput,
        responses=ChangeDetail,
    )
    def post(self, request: Request, id: UUID) -> Response:
        reject_change(_get(self, id), by=self.actor, reason=_reason(self))
        return Response(describe_change_fully(_get(self, id)))


class EvolutionView(ApiView):
    required_scopes = {"GET": Scope.RUN, "PATCH": Scope.REVIEW}

    @describe(
        "getEvolution",
        tag="changes",
        summary="Read how an agent evolves",
        description="Who lets changes run, and after how many runs ERL looks for some.",
        responses=EvolutionAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(_describe_evolution(_get_agent(self, id)))

    @describe(
        "changeEvolution",
        tag="changes",
        summary="Change how an agent evolves",
        description="Who lets changes run, and after how many runs ERL looks for some. No change of the agent can.",
        request=EvolutionInput,
        responses=EvolutionAnswer,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        sent, agent = EvolutionInput.from_body(self.body), _get_agent(self, id)
        check_decider(self.project, by=self.actor)
        if sent.changes_by is not None:
            agent.changes_by = sent.changes_by
        if "sleep_after_runs" in sent.model_fields_set:
            agent.sleep_after_runs = sent.sleep_after_runs
        agent.save(update_fields=["changes_by", "sleep_after_runs"])
        return Response(_describe_evolution(agent))


def _describe_evolution(agent: Agent) -> dict[str, Any]:
    return {"agent": agent.pk, "changes_by": agent.changes_by, "sleep_after_runs": agent.sleep_after_runs}


def _reason(view: ApiView) -> str:
    return ReasonInput.from_body(view.body).reason if view.body else ""


def _get_agent(view: ApiView, id: UUID) -> Agent:
    return get_object_or_404(Agent.objects.for_project(view.project), pk=id)


def _get(view: ApiView, id: UUID) -> Change:
    return get_object_or_404(_shown(view), pk=id)


def _shown(view: ApiView) -> "QuerySet[Change]":
    return Change.objects.for_project(view.project).select_related("agent__project", "base", "target", "release")
