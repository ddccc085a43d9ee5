"""Runs: record, list, read, erase, and report how they ended."""

from typing import ClassVar
from uuid import UUID

from django.db.models import F, Func, IntegerField, QuerySet
from django.db.models.functions import Coalesce, NullIf
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.filters import ExactText
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe
from memory.intake.open_runs import append_steps, finish_run
from memory.intake.recording import RecordedRun, RunSender, record_trajectory, report_outcome
from memory.intake.serializers import (
    FinishInput,
    OutcomeInput,
    StepsInput,
    TrajectoryAnswer,
    TrajectoryInput,
    TrajectoryItem,
    TrajectoryPage,
)
from memory.projects.models import ApiKey
from memory.redaction import redact_text
from memory.runs.models import Trajectory
from memory.runs.search import with_words
from memory.trust.erasure import erase_trajectory

Scope = ApiKey.Scope


class TrajectoryFilter(filters.FilterSet):  # type: ignore[misc]
    task = ExactText(help_text="The whole task text.")
    family = ExactText(field_name="task_id", help_text="The task family.")
    task_id = ExactText(help_text="An older name of `family`.")
    outcome = filters.ChoiceFilter(choices=Trajectory.Outcome.choices, help_text="How the run ended.")
    agent = ExactText(help_text="The agent that ran.")
    external_id = ExactText(help_text="The agent's own id for the run.")
    user_id = ExactText(help_text="The client's own id of its end user.")

    query = filters.CharFilter(method="filter_query", help_text="Words, all of which are in its task and steps.")

    def filter_query(self, queryset: QuerySet[Trajectory], name: str, value: str) -> QuerySet[Trajectory]:
        return with_words(queryset, redact_text(value))

    class Meta:
        model = Trajectory
        fields: ClassVar[list[str]] = []


class TrajectoryListView(ApiView):
    required_scopes = {"GET": Scope.TRAJECTORIES_READ, "POST": Scope.TRAJECTORIES_WRITE}
    pagination_class = LimitOffset
    filterset_class = TrajectoryFilter
    queryset = Trajectory.objects.none()

    @describe(
        "listTrajectories",
        tag="trajectories",
        summary="List runs",
        description="The project's runs, newest first, without their steps. `query` finds words; the other "
        "filters match whole values.",
        filters=True,
        responses=TrajectoryPage,
    )
    def get(self, request: Request) -> Response:
        return self.answer_rows(_listed(self), TrajectoryItem.write)

    @describe(
        "recordTrajectory",
        tag="trajectories",
        summary="Record a run",
        description="Secrets and personal data are removed before anything is stored; `redactions` counts them. A "
        "reflection is queued unless `reflect` or the project says otherwise. A run that is already recorded under "
        "its `external_id` gets 200 and changes nothing; a different run with that `external_id` gets 409.",
        request=TrajectoryInput,
        responses={
            201: OpenApiResponse(TrajectoryAnswer, "The run is recorded."),
            200: OpenApiResponse(TrajectoryAnswer, "The run was recorded before, under this `external_id`."),
        },
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        recorded = record_from(self, TrajectoryInput.from_body(self.body))
        body = TrajectoryAnswer.write(recorded.trajectory)
        location = reverse("api:trajectory", args=[recorded.trajectory.pk])
        response = Response(body, status=201 if recorded.created else 200, headers={"Location": location})
        response.resource_id = recorded.trajectory.pk  # type: ignore[attr-defined]
        return response


class TrajectoryView(ApiView):
    required_scopes = {"GET": Scope.TRAJECTORIES_READ, "DELETE": Scope.TRAJECTORIES_WRITE}

    @describe(
        "getTrajectory",
        tag="trajectories",
        summary="Read a run with its steps",
        description="The steps are in one format, whatever format they were sent in.",
        responses=TrajectoryAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(TrajectoryAnswer.write(get_trajectory(self, id)))

    @describe(
        "eraseTrajectory",
        tag="trajectories",
        summary="Erase a run",
        description="Deletes the run, its reflections, the heuristics that rest on it alone, and what is stored of the "
        "requests about it. Heuristics with other evidence stay. This cannot be undone.",
        responses={204: OpenApiResponse(description="The run is erased.")},
    )
    def delete(self, request: Request, id: UUID) -> Response:
        erase_trajectory(get_trajectory(self, id), by=self.actor)
        return Response(status=204)


class TrajectoryOutcomeView(ApiView):
    required_scopes = {"POST": Scope.TRAJECTORIES_WRITE}

    @describe(
        "reportOutcome",
        tag="trajectories",
        summary="Report how a run ended",
        description="For outcomes that are known only later. A changed outcome queues a new reflection; the same "
        "outcome sent again changes nothing.",
        request=OutcomeInput,
        responses=TrajectoryAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = OutcomeInput.from_body(self.body)
        trajectory = report_outcome(
            get_trajectory(self, id),
            outcome=sent.outcome,
            score=sent.score,
            outcome_source=sent.outcome_source or Trajectory.OutcomeSource.AGENT,
            by=self.actor,
            reflect=sent.reflect,
        )
        response = Response(TrajectoryAnswer.write(trajectory))
        response.resource_id = trajectory.pk  # type: ignore[attr-defined]
        return response


class TrajectoryStepsView(ApiView):
    required_scopes = {"POST": Scope.TRAJECTORIES_WRITE}

    @describe(
        "appendSteps",
        tag="trajectories",
        summary="Add steps to an open run",
        description="Steps that are already stored change nothing, so a batch can be sent again; a step that differs "
        "from the stored one, or a gap before the first one, gets 409.",
        request=StepsInput,
        responses=TrajectoryAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = StepsInput.from_body(self.body)
        trajectory = append_steps(get_trajectory(self, id), steps=sent.steps, by=self.actor)
        response = Response(TrajectoryAnswer.write(trajectory))
        response.resource_id = trajectory.pk  # type: ignore[attr-defined]
        return response


class TrajectoryFinishView(ApiView):
    required_scopes = {"POST": Scope.TRAJECTORIES_WRITE}
    body_optional = True

    @describe(
        "finishTrajectory",
        tag="trajectories",
        summary="Finish an open run",
        description="From now on the run counts, and a reflection is queued unless `reflect` or the project says "
        "otherwise. The same ending sent again changes nothing; a different one gets 409.",
        request=FinishInput,
        responses=TrajectoryAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = FinishInput.from_body(self.body)
        trajectory = finish_run(get_trajectory(self, id), ending=sent.ending(), by=self.actor, reflect=sent.reflect)
        response = Response(TrajectoryAnswer.write(trajectory))
        response.resource_id = trajectory.pk  # type: ignore[attr-defined]
        return response


def record_from(view: ApiView, sent: TrajectoryInput, *, reflect: bool | None = None) -> RecordedRun:
    """Record a run as the caller of this view."""
    return record_trajectory(
        view.project,
        data=sent.run(),
        by=view.actor,
        reflect=sent.reflect if reflect is None else reflect,
        sender=RunSender(client=view.api_key.client, api_key=view.api_key, request_id=view.request_id),
    )


def get_trajectory(view: ApiView, id: UUID) -> Trajectory:
    """Return a run of the caller's project, or answer 404."""
    trajectory: Trajectory = get_object_or_404(Trajectory.objects.for_project(view.project), pk=id)
    return trajectory


def _listed(view: ApiView) -> QuerySet[Trajectory]:
    kept = NullIf(Func(F("steps"), function="jsonb_array_length", output_field=IntegerField()), 0)
    step_count = Coalesce(kept, F("stated_step_count"), 0, output_field=IntegerField())
    return Trajectory.objects.for_project(view.project).defer("steps").annotate(step_count=step_count)
