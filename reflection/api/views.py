"""Ask for a reflection, and read its result."""

import re
import time
from typing import Any, ClassVar
from uuid import UUID

import structlog
from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, PREFER, describe
from memory.api.waiting import waiting_place
from memory.curation.serializers import HeuristicAnswer
from memory.curation.views import shown_heuristics
from memory.intake.views import get_trajectory, record_from
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory
from reflection.api.serializers import ReflectInput, ReflectionAnswer, ReflectionPage, ReflectionWithLessons
from reflection.reflectors.models import Reflection
from reflection.reflectors.requests import enqueue_reflection

Scope = ApiKey.Scope
MAX_WAIT_SECONDS = 30
_POLL_SECONDS = 0.1
_POLL_SHARE = 0.05  # of the time waited: a client that has waited long can wait a little longer
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?([0-9]{1,6})\"?\s*(?=$|[,;])", re.IGNORECASE)


class ReflectionFilter(filters.FilterSet):  # type: ignore[misc]
    trajectory = filters.UUIDFilter(field_name="trajectory_id", help_text="The id of the run it reads.")
    status = filters.ChoiceFilter(choices=Reflection.Status.choices, help_text="Its status.")

    class Meta:
        model = Reflection
        fields: ClassVar[list[str]] = []


class ReflectView(ApiView):
    required_scopes = {"POST": Scope.REFLECT}

    @describe(
        "reflect",
        tag="reflections",
        summary="Reflect on a run",
        description="Queues a reflection on a recorded run, or records one first (which also needs the scope "
        "`trajectories:write`). If a reflection on the run is already queued or running, that one is returned. With "
        "`Prefer: wait=N` the server waits for up to N seconds, at most 30, and answers 200 if the reflection is "
        "finished by then, with the lessons themselves in `lessons` (for a key that also has `heuristics:read`). Where "
        "many wait already, it is not held back.",
        request=ReflectInput,
        responses={
            202: OpenApiResponse(ReflectionWithLessons, "It is queued; follow `Location`."),
            200: OpenApiResponse(ReflectionWithLessons, "It is finished; only with `Prefer: wait=N`."),
        },
        parameters=[LOCATION, PREFER],
    )
    def post(self, request: Request) -> Response:
        trajectory = self._get_or_record(ReflectInput.from_body(self.body))
        reflection = enqueue_reflection(
            trajectory,
            by=self.actor,
            request_id=self.request_id,
            traceparent=structlog.contextvars.get_contextvars().get("traceparent", ""),
        )
        location = reverse("reflection_api:reflection", args=[reflection.pk])
        body = ReflectionAnswer.write(reflection) | {"lessons": None}
        response = Response(body, status=202, headers={"Location": location})
        response.resource_id = trajectory.pk  # type: ignore[attr-defined]
        return response

    def after_commit(self, request: Request, response: HttpResponse) -> HttpResponse:
        """Hold the answer back for as long as `Prefer: wait=N` allows, and answer 200 if it is finished by then."""
        seconds = read_wait(request)
        if not seconds:
            return response
        with waiting_place() as may_wait:
            if not may_wait:
                return response
            reflection = wait_for_reflection(self.project, UUID(response.data["id"]), seconds=seconds)  # type: ignore[attr-defined]
        finished = reflection.status not in Reflection.LIVE
        headers = {"Location": response["Location"], "Preference-Applied": f"wait={seconds}"}
        return Response(represent_with_lessons(self, reflection), status=200 if finished else 202, headers=headers)

    def _get_or_record(self, sent: ReflectInput) -> Trajectory:
        if "trajectory_id" in sent.model_fields_set:
            return get_trajectory(self, sent.trajectory_id)
        if Scope.TRAJECTORIES_WRITE not in self.api_key.scopes:
            raise Refusal(
                ErrorCode.MISSING_SCOPE,
                f"Recording a trajectory needs the scope {Scope.TRAJECTORIES_WRITE}, which the API key lacks. Send the "
                "trajectory_id of a recorded one, or ask the operator for a key that has the scope.",
            )
        return record_from(self, sent.trajectory, reflect=False).trajectory


class ReflectionListView(ApiView):
    required_scopes = {"GET": Scope.TRAJECTORIES_READ}
    pagination_class = LimitOffset
    filterset_class = ReflectionFilter
    queryset = Reflection.objects.none()

    @describe(
        "listReflections",
        tag="reflections",
        summary="List reflections",
        description="The project's reflections, newest first.",
        filters=True,
        responses=ReflectionPage,
    )
    def get(self, request: Request) -> Response:
        return self.answer_rows(_shown(self.project), ReflectionAnswer.write)


class ReflectionView(ApiView):
    required_scopes = {"GET": Scope.TRAJECTORIES_READ}

    @describe(
        "getReflection",
        tag="reflections",
        summary="Read a reflection",
        description="Its status, attempts, cost, and the heuristics it proposed or why it proposed none.",
        responses=ReflectionWithLessons,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(represent_with_lessons(self, get_object_or_404(_shown(self.project), pk=id)))


def represent_with_lessons(view: ApiView, reflection: Reflection) -> dict[str, Any]:
    """Return a reflection with the lessons it led to, if it is finished and the key may read lessons."""
    body = ReflectionAnswer.write(reflection)
    if reflection.status in Reflection.LIVE or Scope.HEURISTICS_READ not in view.api_key.scopes:
        return body | {"lessons": None}
    ids = [proposal.heuristic_id for proposal in reflection.proposals.all()]
    lessons = shown_heuristics(view.project).in_bulk(ids)
    return body | {"lessons": HeuristicAnswer.write_all(lessons[id] for id in dict.fromkeys(ids))}


def read_wait(request: Request) -> int:
    """Return how many seconds the client would wait (RFC 7240), at most 30; 0 where it does not say."""
    match = _WAIT.search(request.META.get("HTTP_PREFER", ""))
    return min(int(match[1]), MAX_WAIT_SECONDS) if match else 0


def wait_for_reflection(project: Project, id: UUID, *, seconds: float) -> Reflection:
    """Return the reflection when it is finished, or as it is when the time is over. Holds no transaction open."""
    started = time.monotonic()
    rows = Reflection.objects.for_project(project).filter(pk=id)
    while rows.live().exists() and (left := started + seconds - time.monotonic()) > 0:
        waited = time.monotonic() - started
        time.sleep(min(max(_POLL_SECONDS, waited * _POLL_SHARE), left))
    return get_object_or_404(_shown(project), pk=id)


def _shown(project: Project) -> QuerySet[Reflection]:
    return Reflection.objects.for_project(project).prefetch_related("proposals")
