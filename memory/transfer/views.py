"""A project read table by table, for clients that write it into a folder."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.schema import describe
from memory.projects.models import ApiKey
from memory.transfer.export import read_project
from memory.transfer.manifest import FORMAT, VERSION
from memory.transfer.pages import count_tables, read_page
from memory.transfer.serializers import ExportAnswer, ExportPageAnswer
from memory.transfer.tables import FAMILIES, TABLES

READS_ALL = (ApiKey.Scope.HEURISTICS_READ, ApiKey.Scope.MEMORY_READ, ApiKey.Scope.AGENTS, ApiKey.Scope.REVIEW)


class ExportView(ApiView):
    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ}
    further_scopes = READS_ALL

    @describe(
        "getExport",
        tag="export",
        summary="See what an export holds",
        description="The tables of the project, and how many rows each has now. `erl export --all` reads them and "
        "writes a folder, which manage.py import_memory takes in. API keys, webhooks, accounts and what is under way "
        "are left out.",
        responses=ExportAnswer,
    )
    def get(self, request: Request) -> Response:
        answer = ExportAnswer(
            format=FORMAT,
            version=VERSION,
            families=sorted(FAMILIES),
            project=read_project(self.project.pk),
            tables=count_tables(self.project.pk),
        )
        return Response(answer.model_dump(mode="json"))


class ExportPageView(ApiView):
    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ}
    further_scopes = READS_ALL
    allowed_query_params = frozenset({"after"})
    query_names_rows = True

    @describe(
        "getExportPage",
        tag="export",
        summary="Read rows of a table",
        description="The rows after a place, up to about 2 MB. Pages are not of one moment: let agents rest meanwhile, "
        "and compare the counts of `GET /export` before and after.",
        parameters=[OpenApiParameter("after", OpenApiTypes.STR, description="`next` of the page before.")],
        responses=ExportPageAnswer,
    )
    def get(self, request: Request, table: str) -> Response:
        if table not in TABLES:
            raise Refusal(ErrorCode.NOT_FOUND, f"No table {table!r} is exported. GET /api/v1/export names them.")
        after = request.query_params.get("after", "")
        try:
            lines, following = read_page(self.project.pk, table, after=after)
        except ValueError:
            detail = "This is not the `next` of a page of this table."
            raise Refusal(ErrorCode.INVALID_REQUEST, detail, fields={"after": [detail]}) from None
        return Response(ExportPageAnswer(lines=lines, next=following).model_dump(mode="json"))
