"""Lessons for a task, over HTTP. These views are thin: agents call them before every task."""

import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
import structlog
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.idempotency import is_answered
from memory.api.schema import ETAG, IF_NONE_MATCH, describe, query_parameters
from memory.projects.models import ApiKey
from memory.retrieval.answers import (
    NO_DATABASE,
    Prepared,
    RetrievalAnswer,
    prepare_answer,
    prepare_empty_answer,
    record_answer,
)
from memory.retrieval.assignment import find_pinned
from memory.retrieval.given_words import find_order_over
from memory.retrieval.models import Retrieval
from memory.retrieval.question import PATIENCE_SECONDS, Filters, Question
from memory.retrieval.record_block import NO_RECORD
from memory.retrieval.replay import ReplayedBlock, describe_items, find_wordings, replay_block
from memory.retrieval.serializers import RetrievalRecord, RetrieveAnswer, RetrieveQuery

log = structlog.get_logger(__name__)

Scope = ApiKey.Scope
_NO_DATABASE = (OperationalError, InterfaceError)
RETRIEVE_PARAMS = frozenset({*RetrieveQuery.model_fields, "family"})
CONTEXT_PARAMS = RETRIEVE_PARAMS - {"considered"}
OTHERS_WERE_BETTER = "Other lessons were better."
# Instead of what a stored answer gave, where an order covers words of it.
WITHHELD = {"subtasks": [], "items": [], "context": "", "context_sha256": NO_RECORD.sha256, "tokens": 0}


class PlainText(BaseRenderer):
    media_type = "text/plain"
    format = "txt"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return str(data).encode()


class RetrieveView(ApiView):
    required_scopes = {"POST": Scope.RETRIEVE}

    prepared: Prepared | None = None

    def run(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Search before a transaction is opened, since services may be asked over the network.

        Without an idempotency key none is opened at all. For a key that was answered before nothing is searched.
        """
        if "HTTP_IDEMPOTENCY_KEY" not in request.META:
            response: HttpResponse = handler(request, *args, **kwargs)
            return response
        if not is_answered(request):
            self.prepared = prepare(self, RetrieveQuery.from_body(self.body))
            if self.prepared.row is None:  # the key is stored with the answer, or nothing is
                raise OperationalError("The search waited for the database, and failed.")
        return super().run(handler, request, *args, **kwargs)

    def replay(self, response: HttpResponse) -> HttpResponse:
        """Answer with nothing but the order where a quarantine order covers words of the stored answer."""
        answered = Retrieval.objects.filter(project=self.project, pk=response.resource_id).first()  # type: ignore[attr-defined]
        order_id = find_order_over(answered) if answered else None
        if order_id is None:
            return response
        body = orjson.loads(response.content)
        body.pop("considered", None)
        response.content = orjson.dumps(body | WITHHELD | {"covered_by": str(order_id)})
        return response

    @describe(
        "retrieveLessons",
        tag="retrieval",
        summary="Get the lessons for a task",
        description="Answers with approved lessons only: those in `context`, best first. `context` is the text to "
        "inject once at the top of the prompt. If nothing is relevant, it is empty, and the status is 200. The answer "
        "is recorded: send `retrieval_id` with the trajectory, so that its outcome measures the lessons. If a "
        "quarantine order covers words of an answer, a request repeated under its `Idempotency-Key` gets no lessons, "
        "and `covered_by` names the order.",
        request=RetrieveQuery,
        responses=RetrieveAnswer,
    )
    def post(self, request: Request) -> HttpResponse:
        query = RetrieveQuery.from_body(self.body)
        if self.prepared is None:
            return write_answer(answer_query(self, query), considered=query.considered)
        answer = record_answer(self.prepared)  # with the key and the stored bytes, in one transaction
        response = write_answer(answer, considered=query.considered)
        response.resource_id = answer.retrieval_id  # type: ignore[attr-defined]
        return response


class RetrievalView(ApiView):
    required_scopes = {"GET": Scope.RETRIEVE}

    @describe(
        "getRetrieval",
        tag="retrieval",
        summary="Replay an answer",
        description="What was asked, considered and injected, from the record.",
        responses=RetrievalRecord,
    )
    def get(self, request: Request, id: UUID) -> Response:
        row = get_object_or_404(Retrieval.objects.filter(project=self.project).select_related("release"), pk=id)
        wordings = find_wordings(row)
        order_id = find_order_over(row)
        block = replay_block(row, wordings) if order_id is None else ReplayedBlock(text="", exact=False)
        items = describe_items(row, wordings)
        runs = row.trajectories.order_by("created_at", "pk").values_list("pk", "outcome", "score", "outcome_source")
        return Response(
            {
                "retrieval_id": row.pk,
                **{name: getattr(row, name) for name in _RECORDED},
                "release": row.release.number if row.release else None,
                "items": [item for item in items if item["injected"]],
                "considered": [
                    *(item | {"score": item["scores"].get("score", 0.0)} for item in items if not item["injected"]),
                    *(
                        {"heuristic": heuristic, "score": score, "passed_over": OTHERS_WERE_BETTER}
                        for heuristic, score in zip(row.considered_ids, row.considered_scores, strict=True)
                    ),
                ],
                "context": block.text,
                "context_is_exact": block.exact,
                "covered_by": order_id,
                "degraded": bool(row.degraded),
                "degraded_reason": row.degraded,
                "runs": [
                    {"trajectory_id": run, "outcome": outcome, "score": score, "outcome_source": source}
                    for run, outcome, score, source in runs
                ],
            }
        )


class ContextView(ApiView):
    required_scopes = {"GET": Scope.RETRIEVE}
    allowed_query_params = CONTEXT_PARAMS
    renderer_classes = [PlainText]
    query_names_rows = True  # a release

    @describe(
        "getContext",
        tag="retrieval",
        summary="Get the text to inject",
        description="Only the `context` of POST /retrieve, as plain text. The same lessons give the same bytes and "
        "the same ETag.",
        parameters=[
            *query_parameters(RetrieveQuery, CONTEXT_PARAMS),
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
            304: OpenApiResponse(description="Nothing has changed."),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        answer = answer_query(self, RetrieveQuery.from_query(request.query_params.dict()))
        etag = f'"{answer.context_sha256}"'
        etags = {tag.strip().removeprefix("W/") for tag in request.META.get("HTTP_IF_NONE_MATCH", "").split(",")}
        response = (
            HttpResponse(status=304)
            if etags & {etag, "*"}
            else HttpResponse(answer.context, content_type="text/plain; charset=utf-8")
        )
        if response.status_code == 304:
            del response["Content-Type"]
        response["ETag"] = etag
        if answer.recorded:
            response["X-Retrieval-ID"] = str(answer.retrieval_id)
        # A cache has to ask each time, because a lesson may be withdrawn at any moment.
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
    "options",
    "candidate_count",
    "subtasks",
    "context_sha256",
    "tokens",
    "duration_ms",
    "client",
    "request_id",
    "arm",
    "unit",
    "bucket",
    "created_at",
)


def answer_query(view: ApiView, query: RetrieveQuery) -> RetrievalAnswer:
    """Retrieve as the caller of this view. Without the database it answers that there is nothing, never with an error.

    An answer that could not be written down has no `retrieval_id`.
    """
    prepared = prepare(view, query)
    try:
        return record_answer(prepared)
    except _NO_DATABASE as error:
        log.warning("answer_not_recorded", error=type(error).__name__)
        missing = [part for part in prepared.answer.degraded.split(", ") if part]
        # The search may have said already that there is no database.
        degraded = ", ".join(dict.fromkeys([*missing, NO_DATABASE]))
        return replace(prepared.answer, degraded=degraded, recorded=False)


def prepare(view: ApiView, query: RetrieveQuery) -> Prepared:
    """Search as the caller of this view, and write nothing yet."""
    question = Question(
        project=view.project,
        task=query.task,
        task_id=query.task_id,
        agent=query.agent,
        tools=None if query.tools is None else tuple(query.tools),
        top_k=query.top_k,
        mode=query.mode,
        budget_tokens=query.budget_tokens,
        filters=Filters(
            task_ids=tuple(query.families),
            tags=tuple(query.tags),
            agents=tuple(query.source_agents),
            polarities=(query.polarity,) if query.polarity else (),
        ),
        seed=query.seed,
        record=query.record,
        random_boundary=query.boundary == "random",
        session=query.session,
        release_id=find_pinned(view.project.pk, query.release) if query.release else None,
        as_of=query.as_of,
        by=view.actor,
        client=view.api_key.client,
        request_id=view.request_id,
    )
    started = time.monotonic()
    try:
        return prepare_answer(question)
    except _NO_DATABASE as error:
        if connection.in_atomic_block:
            raise
        log.warning("lessons_not_found", error=type(error).__name__)
        return prepare_empty_answer(question, is_late=time.monotonic() - started > PATIENCE_SECONDS)


def write_answer(answer: RetrievalAnswer, *, considered: bool) -> HttpResponse:
    """Write an answer as the client reads it; its items are JSON already."""
    body = answer_body(answer, considered=considered) | {"items": orjson.Fragment(answer.items_json)}
    return HttpResponse(orjson.dumps(body), content_type="application/json")


def answer_body(answer: RetrievalAnswer, *, considered: bool) -> dict[str, Any]:
    """Return an answer as the client reads it, with the lessons that were not injected if they are `considered`."""
    body = {
        "retrieval_id": str(answer.retrieval_id) if answer.recorded else None,
        "mode": answer.mode,
        "degraded": bool(answer.degraded),
        "degraded_reason": answer.degraded,
        "subtasks": answer.subtasks,
        "context": answer.context,
        "context_sha256": answer.context_sha256,
        "tokens": answer.tokens,
        "items": answer.items,
        "release": answer.release,
        "arm": answer.arm,
    }
    return body | {"considered": answer.considered} if considered else body
