"""Read what the candidate would have answered."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.models import ShadowAnswer
from evaluation.shadow.summary import ShadowReport, describe_shadow
from memory.api.base import ApiView
from memory.api.input import Input
from memory.api.output import Pagination
from memory.api.pagination import LimitOffset
from memory.api.schema import describe, query_parameters
from memory.limits import MAX_NAME_CHARS
from memory.projects.models import ApiKey
from memory.releases.deployments import get_release
from runtime.models.changes import ComparisonVerdict, EvaluationRow

Scope = ApiKey.Scope
Named = Annotated[
    str,
    Field(
        max_length=64,
        description="Number or hash of a release that was the candidate. Empty for the one on trial, else the last.",
    ),
]
Count = Annotated[int, Field(ge=0)]
NOTHING: dict[str, Any] = {
    "sentence": "Nothing was compared in shadow. Start a canary (its share may be 0) and set `shadow_percent` with "
    "PATCH /deployment.",
    "is_on": False,
    **dict.fromkeys(("stable", "candidate", "stable_tokens", "candidate_tokens", "last_at")),
    **dict.fromkeys(("percent", "per_minute", "seen", "compared", "dropped", "skipped", "differing"), 0),
    "families": [],
}


class ShadowQuery(Input):
    """Which release to read about."""

    release: Named = ""


class ShadowAnswersQuery(ShadowQuery):
    """Which of its answers to list."""

    differs: Annotated[bool | None, Field(description="Only answers that differ, or only those that do not.")] = None
    family: Annotated[str, Field(max_length=MAX_NAME_CHARS, description="Only answers of this task family.")] = ""


class ShadowLessonAnswer(BaseModel):
    """A lesson that would be added, removed or reworded, and in how many of the compared answers."""

    heuristic: UUID
    change: Annotated[str, Field(description="added, removed or reworded")]
    answers: Count
    trigger: Annotated[str, Field(description="When it applies; empty if its words were erased.")]


class ShadowFamilyAnswer(BaseModel):
    """The compared answers of a task family, and the lessons that differ most often."""

    family: str
    compared: Count
    differing: Count
    lessons: list[ShadowLessonAnswer]


class ShadowReportAnswer(BaseModel):
    """What would differ if the candidate answered. Releases are named by number."""

    sentence: str
    stable: int | None
    candidate: int | None
    is_on: Annotated[bool, Field(description="Whether new answers are being compared.")]
    percent: Annotated[float, Field(description="Share of the answers to compare.")]
    per_minute: Annotated[int, Field(description="Most answers to compare in a minute.")]
    seen: Annotated[int, Field(description="Answers of both arms since the comparison began.")]
    compared: Count
    dropped: Annotated[int, Field(description="Not compared, since they were over the maximum or too old.")]
    skipped: Annotated[int, Field(description="Not compared, since they cannot be, such as random draws.")]
    differing: Count
    stable_tokens: Annotated[float | None, Field(description="Mean size of the block.")]
    candidate_tokens: float | None
    last_at: Annotated[datetime | None, Field(description="When the newest compared request was answered.")]
    families: Annotated[list[ShadowFamilyAnswer], Field(description="Those that differ most first, at most 50.")]


class GivenLesson(BaseModel):
    """A wording of a lesson."""

    heuristic: UUID
    content_sha256: str


class ShadowAnswerItem(BaseModel):
    """What the candidate would have answered to one request; no agent got it."""

    retrieval_id: UUID
    asked_at: datetime
    family: str
    arm: Annotated[str, Field(description="What the request itself was given.")]
    differs: bool
    lessons: Annotated[list[GivenLesson], Field(description="The lessons that the candidate gives, in order.")]
    added: list[UUID]
    removed: list[UUID]
    reworded: list[UUID]
    stable_tokens: int
    candidate_tokens: int


class ShadowAnswerPage(BaseModel):
    """Compared answers, the newest first."""

    results: list[ShadowAnswerItem]
    pagination: Pagination


class ShadowView(ApiView):
    query_names_rows = True  # a release
    required_scopes = {"GET": Scope.EVALUATE}
    allowed_query_params = frozenset(ShadowQuery.model_fields)

    @describe(
        "getShadow",
        tag="experiments",
        summary="Read what the candidate would change",
        description="While a deployment has a candidate and a `shadow_percent`, workers answer a share of the requests "
        "again from both releases, a minute or two later. Agents get none of these answers, and requests do not wait "
        "for them. This sums up what differs, by task family.",
        parameters=query_parameters(ShadowQuery, ShadowQuery.model_fields),
        responses=ShadowReportAnswer,
    )
    def get(self, request: Request) -> Response:
        return Response(_describe(_find_report(self, ShadowQuery.from_query(request.query_params.dict()).release)))


class ShadowAnswerListView(ApiView):
    query_names_rows = True  # a release
    required_scopes = {"GET": Scope.EVALUATE}
    allowed_query_params = frozenset(ShadowAnswersQuery.model_fields)
    pagination_class = LimitOffset
    queryset = ShadowAnswer.objects.none()

    @describe(
        "listShadowAnswers",
        tag="experiments",
        summary="List what the candidate would have answered",
        description="One item for each compared request, the newest first. GET /retrievals/{id} has the request and "
        "what it was really given.",
        parameters=query_parameters(ShadowAnswersQuery, ShadowAnswersQuery.model_fields),
        responses=ShadowAnswerPage,
    )
    def get(self, request: Request) -> Response:
        sent = {name: text for name, text in request.query_params.dict().items() if name in self.allowed_query_params}
        query = ShadowAnswersQuery.from_query(sent)
        report = _find_report(self, query.release)
        if report is None:
            return self.get_paginated_response(list(self.paginate_queryset(self.queryset) or ()))
        rows = report.answers(self.project).select_related("retrieval")
        if query.differs is not None:
            verdict = ComparisonVerdict.DIFFERS if query.differs else ComparisonVerdict.SAME
            rows = rows.filter(verdict=verdict)
        if query.family:
            rows = rows.filter(retrieval__task_id=query.family)
        return self.answer_rows(rows, _describe_answer)


def _find_report(view: ApiView, release: str) -> ShadowReport | None:
    return describe_shadow(view.project, get_release(view.project, release) if release else None)


def _describe(report: ShadowReport | None) -> dict[str, Any]:
    if report is None:
        return NOTHING
    fields = {name: getattr(report, name) for name in ShadowReportAnswer.model_fields}
    return fields | {"stable": report.stable.number, "candidate": report.candidate.number}


def _describe_answer(row: EvaluationRow) -> dict[str, Any]:
    assert row.retrieval is not None  # of every answer
    return {
        **row.figures,
        "retrieval_id": row.retrieval_id,
        "asked_at": row.at,
        "family": row.retrieval.task_id,
        "arm": row.retrieval.arm,
        "differs": row.verdict == ComparisonVerdict.DIFFERS,
    }
