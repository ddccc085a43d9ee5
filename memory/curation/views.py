"""Lessons: list, retrieve for a task, propose, read and reword."""

from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Prefetch, QuerySet
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.bulk import answer_each
from memory.api.errors import ErrorCode, Refusal
from memory.api.pagination import LimitOffset
from memory.api.schema import ETAG, IF_MATCH, LOCATION, describe, query_parameters
from memory.curation.client_lessons import bring_lesson, cite_runs
from memory.curation.filters import HeuristicFilter
from memory.curation.input import HeuristicInput, HeuristicPatch, HeuristicsInput, MoreEvidence
from memory.curation.proposal_groups import find_others
from memory.curation.proposals import revise_heuristic
from memory.curation.serializers import (
    BulkAnswer,
    HeuristicAnswer,
    HeuristicDetail,
    HeuristicPage,
)
from memory.errors import ChangedMeanwhile
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.limits import DEFAULT_TOP_K
from memory.projects.models import ApiKey, Project
from memory.retrieval.serializers import LessonsForTask, RetrieveQuery
from memory.retrieval.views import RETRIEVE_PARAMS, answer_body, answer_query

Scope = ApiKey.Scope


class HeuristicListView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ, "POST": Scope.HEURISTICS_WRITE}
    pagination_class = LimitOffset
    filterset_class = HeuristicFilter
    queryset = Heuristic.objects.none()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if self.asks_for_lessons(request):
            # On the instance alone. `super()` checks the scope, so this comes first.
            self.required_scopes = {"GET": Scope.RETRIEVE}  # type: ignore[misc]
            self.allowed_query_params = RETRIEVE_PARAMS  # type: ignore[misc]
            self.pagination_class = self.filterset_class = None  # type: ignore[assignment]
        super().initial(request, *args, **kwargs)

    def asks_for_lessons(self, request: Request) -> bool:
        """Tell `?task=…`, which retrieves lessons for a task, from the list of all heuristics."""
        return request.method in ("GET", "HEAD") and "task" in request.query_params

    @describe(
        "listHeuristics",
        tag="heuristics",
        summary="List heuristics, or retrieve lessons for a task",
        description="Without `task`: the project's heuristics, newest first, of every status, with exact filters.\n\n"
        "With `task`: the approved lessons for that task, best first, as POST /retrieve answers them (scope "
        "`retrieve`); the parameters of retrieval then apply instead of those of the list.",
        filters=True,
        parameters=query_parameters(
            RetrieveQuery, RETRIEVE_PARAMS - {"family", "task_id", "polarity", "status"}, optional=True
        ),
        responses=PolymorphicProxySerializer(
            component_name="HeuristicsOrLessons",
            serializers=[HeuristicPage, LessonsForTask],  # type: ignore[list-item]
            resource_type_field_name=None,
            many=False,
        ),
    )
    def get(self, request: Request) -> Response:
        if self.asks_for_lessons(request):
            return self.answer_with_lessons(RetrieveQuery.from_query(request.query_params.dict()))
        return self.answer_rows(shown_heuristics(self.project), HeuristicAnswer.write)

    def answer_with_lessons(self, query: RetrieveQuery) -> Response:
        body = answer_body(answer_query(self, query), considered=query.considered)
        items = body.pop("items")
        limit = query.top_k or DEFAULT_TOP_K
        return Response({"results": items, "pagination": {"limit": limit, "offset": 0, "total": len(items)}, **body})

    @describe(
        "proposeHeuristic",
        tag="heuristics",
        summary="Propose a lesson",
        description="It joins the review queue and is not served until it is approved. With `external_id` the request "
        "can be repeated: words that your client sent before change nothing, other words are a new revision that waits "
        "for review while the approved one stays served, `metadata` and `confidence` replace what was there, and "
        "`evidence` is added. The status is 200 then.",
        request=HeuristicInput,
        responses={
            201: OpenApiResponse(HeuristicDetail, "The lesson is proposed."),
            200: OpenApiResponse(HeuristicDetail, "Your client proposed the lesson before, under this id."),
        },
        parameters=[LOCATION, ETAG],
    )
    def post(self, request: Request) -> Response:
        lesson = HeuristicInput.from_body(self.body).lesson()
        brought = bring_lesson(self.project, lesson, by=self.actor, client=self.api_key.client)
        id = brought.heuristic.pk
        location = reverse("api:heuristic", args=[id])
        return answer_heuristic(self, id, status=201 if brought.created else 200, headers={"Location": location})


class HeuristicBatchView(ApiView):
    required_scopes = {"POST": Scope.HEURISTICS_WRITE}

    @describe(
        "proposeHeuristics",
        tag="heuristics",
        summary="Propose many lessons",
        description="Up to 50, each as in POST /heuristics. One that is refused does not hold back the others: the "
        "answer has a result for each, with the `heuristic_id` and the `content_sha256` to decide by, or the error. "
        "Under an `Idempotency-Key` the request as a whole happens once.",
        request=HeuristicsInput,
        responses=BulkAnswer,
    )
    def post(self, request: Request) -> Response:
        return answer_each(HeuristicsInput.from_body(self.body).heuristics, self.propose)

    def propose(self, item: Any) -> dict[str, Any]:
        lesson = HeuristicInput.from_body(item).lesson()
        brought = bring_lesson(self.project, lesson, by=self.actor, client=self.api_key.client)
        return describe_result(brought.heuristic, status=201 if brought.created else 200)


class HeuristicView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ, "PATCH": Scope.HEURISTICS_WRITE}

    @describe(
        "getHeuristic",
        tag="heuristics",
        summary="Read a heuristic",
        description="Its newest wording, the wording that is served, the runs it was learnt from, and the other "
        "wordings of its row in the queue. The ETag names the newest wording.",
        responses=HeuristicDetail,
        parameters=[ETAG],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return answer_heuristic(self, id)

    @describe(
        "reviseHeuristic",
        tag="heuristics",
        summary="Propose another wording",
        description="Makes a new revision, which waits for review. What is served now stays served until then. Send "
        "`If-Match` or `content_sha256` so that only the wording you read is replaced.",
        request=HeuristicPatch,
        responses=HeuristicDetail,
        parameters=[ETAG, IF_MATCH],
    )
    def patch(self, request: Request, id: UUID) -> Response:
        sent = HeuristicPatch.from_body(self.body)
        heuristic = get_heuristic(self, id)
        current = heuristic.current_revision
        assert current is not None, "every heuristic has a revision"
        # The header is checked here for its own status, 412; the hash in the body is answered with 409.
        seen = read_if_match(request)
        if seen is not None and current.content_sha256 not in seen:
            raise Refusal(ErrorCode.CHANGED_MEANWHILE, "The text changed after you read it. Read it again.", status=412)
        if sent.content_sha256 not in (None, current.content_sha256):
            raise ChangedMeanwhile(
                f"The text changed after you read {sent.content_sha256}. Read the current text and decide again; its "
                f"content_sha256 is {current.content_sha256}."
            )
        revise_heuristic(
            heuristic,
            text=sent.text(base=current.as_text()),
            by=self.actor,
            content_sha256=current.content_sha256,  # what the new words were laid over
        )
        return answer_heuristic(self, id)


class EvidenceView(ApiView):
    required_scopes = {"POST": Scope.HEURISTICS_WRITE}

    @describe(
        "addEvidence",
        tag="heuristics",
        summary="Cite runs as evidence of a lesson",
        description="For a lesson that is proposed or approved: up to 50 recorded runs, each by its id or its "
        "`external_id`. They are in `support` at once; they count in ranking, and tasks like theirs find the lesson, "
        "once a reviewer approves it or confirms the evidence. Runs that are cited already change nothing. If one is "
        "refused, none is cited, and the error names it.",
        request=MoreEvidence,
        responses=HeuristicDetail,
        parameters=[ETAG],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = MoreEvidence.from_body(self.body)
        runs = [piece.cited_run() for piece in sent.evidence]
        cite_runs(get_heuristic(self, id), runs, project=self.project)
        return answer_heuristic(self, id)


def shown_heuristics(project: Project) -> QuerySet[Heuristic]:
    """Return a project's heuristics with their newest and their served wording, always in two queries."""
    served = Prefetch("revisions", HeuristicRevision.objects.served(), to_attr="served_revisions")
    seen = Evidence.objects.filter(heuristic=OuterRef("pk"), approved_at__isnull=False).exclude(trajectory__task_id="")
    families = seen.order_by("trajectory__task_id").values("trajectory__task_id").distinct()
    rows = Heuristic.objects.for_project(project).with_text().annotate(families=ArraySubquery(families))
    return rows.prefetch_related(served)


def get_heuristic(view: ApiView, id: UUID) -> Heuristic:
    """Return a heuristic of the caller's project, or answer 404."""
    heuristic: Heuristic = get_object_or_404(Heuristic.objects.for_project(view.project).with_text(), pk=id)
    return heuristic


def answer_heuristic(view: ApiView, id: UUID, *, status: int = 200, headers: dict[str, Any] | None = None) -> Response:
    """Answer with a heuristic as it is now, with its evidence, other wordings, and an ETag of its newest wording."""
    heuristic = get_object_or_404(shown_heuristics(view.project).prefetch_related("evidence", "supersedes"), pk=id)
    heuristic.other_wordings = find_others(heuristic)  # type: ignore[attr-defined]
    body = HeuristicDetail.write(heuristic)
    etag = {"ETag": f'"{body["content_sha256"]}"'}
    response = Response(body, status=status, headers=etag | (headers or {}))
    # Its erasure then empties the stored answer.
    response.resource_id = heuristic.pk  # type: ignore[attr-defined]
    return response


def describe_result(heuristic: Heuristic, *, status: int = 200) -> dict[str, Any]:
    """Return what the answer to a request about many says of one."""
    assert heuristic.current_revision is not None, "every heuristic has a revision"
    return {
        "status": status,
        "heuristic_id": heuristic.pk,
        "heuristic_status": heuristic.status,
        "content_sha256": heuristic.current_revision.content_sha256,
    }


def read_if_match(request: Request) -> set[str] | None:
    """Return the hashes that If-Match names; None where it is absent or names any."""
    header: str = request.META.get("HTTP_IF_MATCH", "").strip()
    if header in ("", "*"):
        return None
    return {tag.strip().strip('"') for tag in header.split(",")}
