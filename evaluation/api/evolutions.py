"""Start evolutions of agents, and read what they tried."""

from typing import ClassVar
from uuid import UUID

from django.db.models import Prefetch
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from evaluation.api.evolution_forms import (
    EvolutionPage,
    EvolutionReport,
    EvolveInput,
    describe_evolution,
    describe_evolution_fully,
    describe_job,
    describe_job_fully,
)
from evaluation.errors import EvaluationError, EvolutionRunning
from evaluation.evolution.requests import find_jobs, request_evolution
from evaluation.models import Evolution
from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe
from memory.projects.models import ApiKey
from reflection.jobs.models import Job
from runtime.models.agents import Agent
from runtime.models.changes import EvaluationRow

Scope = ApiKey.Scope
MOST_UNFINISHED = 20


class EvolutionFilter(filters.FilterSet):  # type: ignore[misc]
    agent = filters.UUIDFilter(field_name="agent_id", help_text="The agent.")

    class Meta:
        model = Evolution
        fields: ClassVar[list[str]] = []


class EvolutionListView(ApiView):
    required_scopes = {"GET": Scope.RUN, "POST": Scope.AGENTS}
    pagination_class = LimitOffset
    filterset_class = EvolutionFilter
    queryset = Evolution.objects.none()

    @describe(
        "listEvolutions",
        tag="changes",
        summary="List evolutions",
        description="The newest first, each with what it gained in one sentence; and those that have not ended.",
        filters=True,
        responses=EvolutionPage,
    )
    def get(self, request: Request) -> Response:
        # The figures of a candidate are large, and the list shows none of them.
        chosen = EvaluationRow.objects.filter(figures__is_chosen=True).defer("figures")
        rows = Evolution.objects.filter(project=self.project)
        rows = rows.prefetch_related(Prefetch("candidates", queryset=chosen, to_attr="chosen"))
        page = self.paginate_queryset(self.filter_queryset(rows)) or ()
        response = self.get_paginated_response(
            [describe_evolution(evolution, next(iter(evolution.chosen), None)) for evolution in page]
        )
        sent = EvolutionFilter(request.query_params).form
        agent = sent.cleaned_data["agent"] if sent.is_valid() else None
        jobs = find_jobs(self.project.pk, agent=agent).exclude(status=Job.Status.DONE)
        response.data["unfinished"] = [
            describe_job(job) for job in jobs.order_by("-created_at", "-pk")[:MOST_UNFINISHED]
        ]
        return response

    @describe(
        "evolve",
        tag="changes",
        summary="Let an agent evolve",
        description="A worker splits the tasks of a suite into three separate sets, proposes changes by what "
        "the agent does on the first, judges each on the second, and measures the best on the third. The agent's model "
        "is paid for from the project's budget. The best candidate is proposed as a change; the agent stays as it is. "
        "An agent has one evolution at a time: the same request returns the one that is queued or running, a different "
        "one gets 409.",
        request=EvolveInput,
        responses={202: OpenApiResponse(EvolutionReport, "It is queued; follow `Location`.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        sent = EvolveInput.from_body(self.body)
        plan = sent.as_plan()
        agents = Agent.objects.for_project(self.project).select_related("project", "current")
        agent = get_object_or_404(agents, pk=sent.agent)
        try:
            job = request_evolution(agent, plan, by=self.actor)
        except EvolutionRunning as error:
            raise Refusal(ErrorCode.CONFLICT, str(error)) from error
        except EvaluationError as error:
            raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error
        location = reverse("evaluation_api:evolution", args=[job.pk])
        response = Response(describe_job_fully(job), status=202, headers={"Location": location})
        response.resource_id = agent.pk  # type: ignore[attr-defined]
        return response


class EvolutionReportView(ApiView):
    required_scopes = {"GET": Scope.RUN}

    @describe(
        "getEvolutionReport",
        tag="changes",
        summary="Read an evolution",
        description="Its sets, and each candidate with its parents, its scores by family, which look at the gate it "
        "was, and the verdict.",
        responses=EvolutionReport,
    )
    def get(self, request: Request, id: UUID) -> Response:
        evolution = Evolution.objects.filter(project=self.project, pk=id).first()
        if evolution is not None:
            return Response(describe_evolution_fully(evolution))
        return Response(describe_job_fully(get_object_or_404(find_jobs(self.project.pk), pk=id)))
