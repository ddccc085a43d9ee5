"""Start an evaluation, or read the newest."""

from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from evaluation.api.serializers import (
    EvaluateInput,
    EvaluationRunAnswer,
    EvaluationsAnswer,
    read_options,
)
from evaluation.errors import EvaluationError
from evaluation.models import EvaluationRun
from evaluation.requests import LIVE, request_evaluation
from evaluation.runner import count_units
from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.schema import LOCATION, describe
from memory.projects.models import ApiKey

Scope = ApiKey.Scope
_Status = EvaluationRun.Status


def describe_evaluation(run: EvaluationRun) -> dict[str, Any]:
    """Return what is sent of an evaluation."""
    run.units_finished, run.units_total = count_units(run)  # type: ignore[attr-defined]
    return EvaluationRunAnswer.write(run)


class EvaluateView(ApiView):
    required_scopes = {"POST": Scope.EVALUATE, "GET": Scope.EVALUATE}
    body_optional = True

    @describe(
        "evaluate",
        tag="evaluations",
        summary="Start an evaluation",
        description="Queues an evaluation for a worker. It runs in a database of its own and never changes live data. "
        "A project has one at a time: if one is queued or running, that one is returned and nothing is queued. `GET` "
        "on the same path shows its progress.",
        request=EvaluateInput,
        responses={202: OpenApiResponse(EvaluationRunAnswer, "It is queued; follow `Location`.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        sent = EvaluateInput.from_body(self.body).sent()
        try:
            run = request_evaluation(self.project, options=read_options(sent, project=self.project.slug), by=self.actor)
        except EvaluationError as error:
            raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error
        location = reverse("evaluation_api:evaluate")
        return Response(describe_evaluation(run), status=202, headers={"Location": location})

    @describe(
        "getEvaluations",
        tag="evaluations",
        summary="Read the newest evaluation",
        description="The newest finished evaluation with its report, the one that is queued or running, and why the "
        "last one failed. Includes evaluations that the operator ran without naming a project.",
        responses=EvaluationsAnswer,
    )
    def get(self, request: Request) -> Response:
        runs = EvaluationRun.objects.filter(Q(project=self.project) | Q(project=None))
        running = runs.filter(status__in=LIVE).first()
        finished = runs.filter(status=_Status.FINISHED).first()
        failed = runs.filter(status=_Status.FAILED).first()
        if failed and finished and failed.created_at < finished.created_at:
            failed = None
        filters = {"running": running, "finished": finished, "failed": failed}
        return Response({name: describe_evaluation(run) if run else None for name, run in filters.items()})
