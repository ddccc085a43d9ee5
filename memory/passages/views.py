"""Passages over HTTP."""

from uuid import UUID

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.filters import ExactText, Moment
from memory.api.pagination import LimitOffset
from memory.api.schema import describe
from memory.passages.models import Passage
from memory.passages.search import PassageQuery, search_passages
from memory.passages.serializers import (
    FoundPassagePage,
    PassageAnswer,
    PassageInput,
    PassagePage,
    PassageSearch,
    describe_found,
    describe_passage,
)
from memory.passages.storage import NewPassage, delete_passage, insert_passage
from memory.projects.models import ApiKey
from memory.redaction import redact_text

Scope = ApiKey.Scope


class PassageFilter(filters.FilterSet):  # type: ignore[misc]
    owner = filters.UUIDFilter(method="filter_owner", help_text="Those of this agent, and the shared ones.")
    tag = filters.CharFilter(method="filter_tag", strip=False, help_text="Those with this tag.")
    run_id = filters.UUIDFilter(help_text="Those of this run.")
    user_id = ExactText(help_text="Those about this end user, by the client's own id.")
    since = Moment(field_name="created_at", lookup_expr="gte", help_text="The earliest time, included.")
    until = Moment(field_name="created_at", lookup_expr="lt", help_text="The end of the time, not included.")

    def filter_owner(self, queryset: QuerySet[Passage], name: str, value: UUID) -> QuerySet[Passage]:
        return queryset.filter(Q(owner=value) | Q(owner__isnull=True))

    def filter_tag(self, queryset: QuerySet[Passage], name: str, value: str) -> QuerySet[Passage]:
        return queryset.filter(tags__contains=[redact_text(value)])


class PassageListView(ApiView):
    required_scopes = {"GET": Scope.MEMORY_READ, "POST": Scope.MEMORY_WRITE}
    pagination_class = LimitOffset
    filterset_class = PassageFilter
    queryset = Passage.objects.none()

    @describe(
        "listPassages",
        tag="passages",
        summary="List passages",
        description="What agents have put aside, the newest first. POST /passages/search finds by content.",
        filters=True,
        responses=PassagePage,
    )
    def get(self, request: Request) -> Response:
        rows = self.paginate_queryset(self.filter_queryset(Passage.objects.readable(self.project)))
        return self.get_paginated_response([describe_passage(row) for row in rows or ()])

    @describe(
        "insertPassage",
        tag="passages",
        summary="Keep a passage",
        description="It can be searched at once. The same text of the same owner is kept once; the status is 200 then.",
        request=PassageInput,
        responses={
            201: OpenApiResponse(PassageAnswer, "It is kept."),
            200: OpenApiResponse(PassageAnswer, "It was there."),
        },
    )
    def post(self, request: Request) -> Response:
        sent = PassageInput.from_body(self.body)
        new = NewPassage(text=sent.text, tags=sent.tags, user_id=sent.user_id, owner=sent.owner, run_id=sent.run_id)
        passage, is_new = insert_passage(self.project, new, by=self.actor)
        response = Response(describe_passage(passage), status=201 if is_new else 200)
        response.resource_id = passage.pk  # type: ignore[attr-defined]
        return response


class PassageSearchView(ApiView):
    required_scopes = {"POST": Scope.MEMORY_READ}
    keeps_keys = False  # it changes nothing

    @describe(
        "searchPassages",
        tag="passages",
        summary="Search passages",
        description="By meaning, words and names, scored as lessons are, within tags and times.",
        request=PassageSearch,
        responses=FoundPassagePage,
    )
    def post(self, request: Request) -> Response:
        sent = PassageSearch.from_body(self.body)
        query = PassageQuery(
            text=sent.query,
            owner=sent.owner,
            tags=[redact_text(tag) for tag in sent.tags],
            all_tags=sent.match == "all",
            since=sent.since,
            until=sent.until,
        )
        answer = search_passages(self.project, query, limit=sent.limit, offset=sent.offset)
        page = {"limit": sent.limit, "offset": sent.offset, "total": answer.total}
        results = [describe_found(passage) for passage in answer.passages]
        return Response({"results": results, "pagination": page, "degraded": answer.degraded})


class PassageView(ApiView):
    required_scopes = {"GET": Scope.MEMORY_READ, "DELETE": Scope.MEMORY_WRITE}

    @describe("getPassage", tag="passages", summary="Read a passage", description="By its id.", responses=PassageAnswer)
    def get(self, request: Request, id: UUID) -> Response:
        return Response(describe_passage(get_passage(self, id)))

    @describe(
        "deletePassage",
        tag="passages",
        summary="Delete a passage",
        description="It is gone at once, with what it is found by.",
        responses={204: OpenApiResponse(None, "It is deleted.")},
    )
    def delete(self, request: Request, id: UUID) -> Response:
        passage = get_passage(self, id)
        delete_passage(passage, by=self.actor)
        return Response(status=204)


def get_passage(view: ApiView, id: UUID) -> Passage:
    """Return a passage of the caller's project, or answer 404."""
    passage: Passage = get_object_or_404(Passage.objects.readable(view.project), pk=id)
    return passage
