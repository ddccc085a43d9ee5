"""Lessons for a task. These views are thin: they sit in front of everything an agent does."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.schema import ETAG, IF_NONE_MATCH, describe, query_parameters
from memory.api.serializers.retrieval import RetrievalRecord, RetrieveAnswer, RetrieveQuery
from memory.models import ApiKey, Retrieval
from memory.retrieval.answer import Filters, RetrievalAnswer
from memory.services.retrieve import retrieve

Scope = ApiKey.Scope
RETRIEVE_PARAMS = frozenset(
    {"task", "task_id", "agent", "top_k", "mode", "budget_tokens", "polarity", "seed", "record"}
)


class PlainText(BaseRenderer):
    media_type = "text/plain"
    format = "txt"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return str(data).encode()


class RetrieveView(ApiView):
    required_scopes = {"POST": Scope.RETRIEVE}

    def run(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Open no transaction around the search, which may ask an embedder over the network, unless a key needs one."""
        if "HTTP_IDEMPOTENCY_KEY" in request.META:
            return super().run(handler, request, *args, **kwargs)
        response: HttpResponse = handler(request, *args, **kwargs)
        return response

    @describe(
        "retrieveLessons",
        tag="retrieval",
        summary="Get the lessons for a task",
        description="Answers with approved lessons only, best first, and with `context`, the text to inject once at "
        "the top of the prompt. Nothing relevant gives an empty `context` and status 200. What was answered is "
        "recorded: send `retrieval_id` with the trajectory, so that its outcome measures the lessons.",
        request=RetrieveQuery,
        responses=RetrieveAnswer,
    )
    def post(self, request: Request) -> Response:
        answer = answer_query(self, RetrieveQuery.from_body(request.data))
        response = Response(answer_body(answer))
        response.resource_id = answer.retrieval_id  # type: ignore[attr-defined]
        return response


class RetrievalView(ApiView):
    required_scopes = {"GET": Scope.RETRIEVE}

    @describe(
        "getRetrieval",
        tag="retrieval",
        summary="Replay an answer",
        description="What was asked, considered, chosen and injected, from the record.",
        responses=RetrievalRecord,
    )
    def get(self, request: Request, id: UUID) -> Response:
        row = get_object_or_404(Retrieval.objects.filter(project=self.project), pk=id)
        return Response(
            {
                "retrieval_id": row.pk,
                **{name: getattr(row, name) for name in _RECORDED},
                "degraded": bool(row.degraded),
                "degraded_reason": row.degraded,
            }
        )


class ContextView(ApiView):
    required_scopes = {"GET": Scope.RETRIEVE}
    allowed_query_params = RETRIEVE_PARAMS
    renderer_classes = [PlainText]

    @describe(
        "getContext",
        tag="retrieval",
        summary="Get the text to inject",
        description="The `context` of POST /retrieve alone, as plain text. Equal lessons give equal bytes and an equal "
        "ETag.",
        parameters=[
            *query_parameters(RetrieveQuery, RETRIEVE_PARAMS),
            ETAG,
            IF_NONE_MATCH,
            OpenApiParameter(
                "X-Retrieval-ID",
                OpenApiTypes.UUID,
                OpenApiParameter.HEADER,
                response=[200, 304],
                description="The `retrieval_id` to send with the trajectory.",
            ),
        ],
        responses={
            (200, "text/plain"): OpenApiResponse(OpenApiTypes.STR, "The text; it may be empty."),
            304: OpenApiResponse(description="You have it already."),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        answer = answer_query(self, RetrieveQuery.from_query(request.query_params.dict()))
        etag = f'"{answer.context_sha256}"'
        known = {tag.strip().removeprefix("W/") for tag in request.META.get("HTTP_IF_NONE_MATCH", "").split(",")}
        response = (
            HttpResponse(status=304)
            if known & {etag, "*"}
            else HttpResponse(answer.context, content_type="text/plain; charset=utf-8")
        )
        if response.status_code == 304:
            del response["Content-Type"]
        response["ETag"] = etag
        response["X-Retrieval-ID"] = str(answer.retrieval_id)
        patch_cache_control(response, private=True, no_cache=True)
        return response


_RECORDED = (
    "task",
    "task_id",
    "agent",
    "mode",
    "requested_mode",
    "top_k",
    "budget_tokens",
    "candidate_count",
    "items",
    "context_sha256",
    "tokens",
    "duration_ms",
    "client",
    "request_id",
    "created_at",
)


def answer_query(view: ApiView, query: RetrieveQuery) -> RetrievalAnswer:
    """Retrieve as the caller of this view."""
    return retrieve(
        view.project,
        task=query.task,
        task_id=query.task_id,
        agent=query.agent,
        top_k=query.top_k,
        mode=query.mode,
        budget_tokens=query.budget_tokens,
        filters=Filters(tags=query.tags, polarities=(query.polarity,) if query.polarity else ()),
        seed=query.seed,
        record=query.record,
        by=view.actor,
        client=view.api_key.client,
        request_id=view.request_id,
    )


def answer_body(answer: RetrievalAnswer) -> Mapping[str, Any]:
    """Write an answer as the client reads it."""
    return {
        "retrieval_id": answer.retrieval_id,
        "mode": answer.mode,
        "degraded": bool(answer.degraded),
        "degraded_reason": answer.degraded,
        "items": answer.items,
        "context": answer.context,
        "context_sha256": answer.context_sha256,
        "tokens": answer.tokens,
    }
