"""The smallest real API: what the plumbing is tested through."""

import uuid
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response

from erl_site import urls as site
from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.projects.models import ApiKey
from memory.runs.models import Trajectory


class TinyList(ApiView):
    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ, "POST": ApiKey.Scope.TRAJECTORIES_WRITE}
    allowed_query_params = frozenset({"task"})
    pagination_class = LimitOffset

    def get(self, request: Request) -> Response:
        rows = Trajectory.objects.for_project(self.project)
        if "task" in request.query_params:
            rows = rows.filter(task=request.query_params["task"])
        return self.get_paginated_response([row.task for row in self.paginate_queryset(rows)])

    def post(self, request: Request) -> Response:
        task = str(self.body.get("task", "a task"))
        row = Trajectory.objects.create(project=self.project, task=task, metadata={"echo": self.body})
        if task == "fail":
            raise RuntimeError("secret detail of our own at /srv/erl, in SELECT 1")
        if task == "conflict":
            return Response({"detail": "no"}, status=409)
        if task == "large":
            return Response({"id": str(row.pk), "filler": "x" * 2_000_000}, status=201)
        response = Response({"id": str(row.pk), "task": task, "z": 1, "a": 1.50}, status=201)
        response["Location"] = f"/tiny/{row.pk}"
        response["ETag"] = '"abc"'
        response["Set-Cookie"] = "never=replayed"
        response.resource_id = row.pk
        return response


class TinyDetail(ApiView):
    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ, "DELETE": ApiKey.Scope.TRAJECTORIES_WRITE}

    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response({"id": str(self._find(pk).pk)})

    def delete(self, request: Request, pk: uuid.UUID) -> Response:
        self._find(pk).delete()
        return Response(status=204)

    def _find(self, pk: uuid.UUID) -> Trajectory:
        return self.get_object_or_404(Trajectory.objects.for_project(self.project), pk)

    def get_object_or_404(self, rows: Any, pk: uuid.UUID) -> Trajectory:
        from django.shortcuts import get_object_or_404

        return get_object_or_404(rows, pk=pk)


class TinyOutcome(ApiView):
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}
    body_optional = True

    def post(self, request: Request, pk: uuid.UUID) -> Response:
        return Response({"pk": str(pk)})


class TinyWait(ApiView):
    """Answers 202 and, where asked to wait, sends the finished thing instead."""

    required_scopes = {"POST": ApiKey.Scope.REFLECT}

    def post(self, request: Request) -> Response:
        return Response({"status": "queued"}, status=202)

    def after_commit(self, request: Request, response: HttpResponse) -> HttpResponse:
        if "wait" not in request.headers.get("Prefer", ""):
            return response
        if "fail" in request.headers["Prefer"]:
            raise RuntimeError("the waiting failed")
        return Response({"status": "done", "in_transaction": connection.in_atomic_block}, status=200)


class TinyUnscoped(ApiView):
    """Forgot to name its scopes."""

    def get(self, request: Request) -> Response:
        return Response({})


def crash(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret detail of our own")


urlpatterns = [
    path("tiny", TinyList.as_view()),
    path("tiny/<uuid:pk>", TinyDetail.as_view()),
    path("tiny/<uuid:pk>/outcome", TinyOutcome.as_view()),
    path("tiny-wait", TinyWait.as_view()),
    path("tiny-unscoped", TinyUnscoped.as_view()),
    path("crash", crash),
    path("", include(site)),
]
handler400, handler403, handler404, handler500 = site.handler400, site.handler403, site.handler404, site.handler500
