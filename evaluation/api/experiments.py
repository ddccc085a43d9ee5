"""Start, read and stop experiments, and read what lessons do."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from evaluation.api.experiment_forms import (
    ExperimentDetail,
    ExperimentInput,
    ExperimentPage,
    LookAnswer,
    StopInput,
    UpliftQuery,
    UpliftReportAnswer,
    describe_experiment,
    describe_in_full,
    describe_look,
    describe_uplift,
)
from evaluation.errors import EvaluationError, ExperimentEnded, ExperimentRunning
from evaluation.experiments.lifecycle import start_experiment, stop_experiment
from evaluation.experiments.looks import find_last_looks, take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.uplift import measure_uplift
from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe, query_parameters
from memory.effects.comparison import compare_lessons
from memory.projects.models import ApiKey
from memory.releases.deployments import get_release

Scope = ApiKey.Scope


class ExperimentListView(ApiView):
    required_scopes = {"GET": Scope.EVALUATE, "POST": Scope.RELEASE}
    pagination_class = LimitOffset
    queryset = Experiment.objects.none()
    body_optional = True

    @describe(
        "listExperiments",
        tag="experiments",
        summary="List experiments",
        description="The newest first, each with its last look and a sentence that says what it found.",
        responses=ExperimentPage,
    )
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(_of(self)) or []
        looks = find_last_looks(page)
        return self.get_paginated_response(
            [describe_experiment(experiment, looks.get(experiment.pk)) for experiment in page]
        )

    @describe(
        "startExperiment",
        tag="experiments",
        summary="Start an experiment",
        description="With `release`, that release is tried against the stable one, and its canary starts at the first "
        "step. Without it, the lessons are compared with the hold-out. The plan cannot be changed; start a new "
        "experiment instead. Only outcomes from the environment, from tests or from people count.",
        request=ExperimentInput,
        responses={201: OpenApiResponse(ExperimentDetail, "It runs.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        sent = ExperimentInput.from_body(self.body)
        release = get_release(self.project, sent.release) if sent.release else None
        with refusals():
            experiment = start_experiment(
                self.project, plan=sent.as_plan(), by=self.actor, release=release, promotes=sent.promotes
            )
        location = reverse("evaluation_api:experiment", args=[experiment.number])
        response = Response(describe_in_full(experiment), status=201, headers={"Location": location})
        response.resource_id = experiment.pk  # type: ignore[attr-defined]
        return response


class ExperimentView(ApiView):
    required_scopes = {"GET": Scope.EVALUATE}

    @describe(
        "getExperiment",
        tag="experiments",
        summary="Read an experiment with its looks",
        description="`sentence` says what it found, `alarms` what casts doubt on it, `cannot_tell` what is not known.",
        responses=ExperimentDetail,
    )
    def get(self, request: Request, id: int) -> Response:
        return Response(describe_in_full(get_experiment(self, id)))


class ExperimentLooksView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "lookAtExperiment",
        tag="experiments",
        summary="Look at an experiment now",
        description="Workers look once a minute; this looks at once and acts on what is found, as they do. Looking "
        "often costs nothing: the figures hold at every look. If nothing new is known, the last look is the answer.",
        request=None,
        responses={
            201: OpenApiResponse(LookAnswer, "Something new is known."),
            200: OpenApiResponse(LookAnswer, "Nothing new is known, or it has ended: the last look."),
        },
    )
    def post(self, request: Request, id: int) -> Response:
        experiment = get_experiment(self, id)
        look = take_look(experiment.pk)
        if look is not None:
            return Response(describe_look(look), status=201)
        last = experiment.looks.order_by("-number").first()
        # No look and none before: the row is locked by another process.
        if last is None:
            raise Refusal(ErrorCode.CONFLICT, "Another process is looking at it right now. Send the request again.")
        return Response(describe_look(last))


class ExperimentStopView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "stopExperiment",
        tag="experiments",
        summary="Stop an experiment",
        description="It ends without a conclusion. What is deployed stays as it is: end the canary yourself.",
        request=StopInput,
        responses=ExperimentDetail,
    )
    def post(self, request: Request, id: int) -> Response:
        sent = StopInput.from_body(self.body)
        with refusals():
            stopped = stop_experiment(get_experiment(self, id), by=self.actor, reason=sent.reason)
        return Response(describe_in_full(stopped))


class UpliftView(ApiView):
    required_scopes = {"GET": Scope.EVALUATE}
    allowed_query_params = frozenset(UpliftQuery.model_fields)

    @describe(
        "getUplift",
        tag="experiments",
        summary="Read whether lessons help",
        description="The units that were given lessons against the hold-out: as a whole, by release and by family, "
        "with intervals that hold at every look. A single lesson is compared with the units of the hold-out that "
        "would have been given it; without a hold-out, with runs of the same task, which is an association.",
        parameters=query_parameters(UpliftQuery, UpliftQuery.model_fields),
        responses=UpliftReportAnswer,
    )
    def get(self, request: Request) -> Response:
        query = UpliftQuery.from_query(request.query_params.dict())
        since = timezone.now() - timedelta(days=query.days)
        measured = measure_uplift(self.project, since=since)
        lessons = compare_lessons([self.project.pk], since=since)
        return Response(describe_uplift(measured, lessons, days=query.days))


def get_experiment(view: ApiView, number: int) -> Experiment:
    """Return an experiment of the project, or answer 404."""
    experiment: Experiment | None = _of(view).filter(number=number).first()
    if experiment is None:
        raise Refusal(
            ErrorCode.NOT_FOUND, f"No experiment {number} exists in this project. GET /experiments lists them."
        )
    return experiment


@contextmanager
def refusals() -> Iterator[None]:
    """Answer refusals of experiments as the API does."""
    try:
        yield
    except (ExperimentRunning, ExperimentEnded) as error:
        raise Refusal(ErrorCode.CONFLICT, str(error)) from error
    except EvaluationError as error:
        raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error


def _of(view: ApiView) -> QuerySet[Experiment, Any]:
    releases = ("treated_release", "control_release", "project")
    return Experiment.objects.filter(project=view.project).select_related(*releases).order_by("-number")
