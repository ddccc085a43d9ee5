"""A whole project sent in parts, and what became of it."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from drf_spectacular.utils import OpenApiResponse
from pydantic import BaseModel, Field
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.input import WHOLE, Input, OneOf
from memory.api.output import Answer
from memory.api.schema import LOCATION, describe
from memory.limits import MAX_IMPORT_BYTES, MAX_IMPORT_PART_CHARS, MAX_IMPORT_PARTS, MAX_NAME_CHARS
from memory.projects.models import ApiKey
from memory.transfer.tables import FAMILIES
from reflection.imports.models import ImportState, ProjectImport
from reflection.imports.requests import add_parts, begin_import, count_received

Scope = ApiKey.Scope


class ImportInput(Input):
    """What is taken in: the manifest of an export, and how."""

    manifest: Annotated[dict[str, Any], Field(description="The content of `manifest.json`.")]
    families: Annotated[
        list[Annotated[str, Field(max_length=MAX_NAME_CHARS)]],
        Field(max_length=len(FAMILIES), description="Only these, with what they cannot do without. Default: all."),
    ] = Field(default_factory=list)
    dry_run: Annotated[bool, Field(description="Do all of it, say what does not fit, and take it back.")] = False


class ImportPartsInput(Input):
    """A piece of the files of an export, one file after the other in the order of the manifest."""

    offset: Annotated[int, Field(ge=0, le=MAX_IMPORT_BYTES, description="The byte that it begins with."), WHOLE]
    parts: Annotated[
        list[Annotated[str, Field(max_length=MAX_IMPORT_PART_CHARS)]],
        Field(
            min_length=1,
            max_length=MAX_IMPORT_PARTS,
            description="The text, cut anywhere between two characters.",
        ),
    ]


class ImportFault(BaseModel):
    """Why a row does not fit."""

    file: str
    line: Annotated[int, Field(description="0 where it is not about one line.")]
    message: str


class ImportAnswer(Answer):
    """An import: how much of it is here, how far it is, and what became of it."""

    id: UUID
    status: Annotated[str, OneOf(ImportState), Field(validation_alias="state")]
    dry_run: bool
    bytes: Annotated[int, Field(description="Of all files.")]
    received_bytes: Annotated[int, Field(description="Send the next part from this byte on.")]
    part_bytes: Annotated[int, Field(description="How large a request may be.")]
    table: Annotated[str, Field(description="The table that is read now.")]
    line: Annotated[int, Field(description="How far that is read.")]
    rows: Annotated[dict[str, int], Field(description="The rows that were taken in, of each table.")]
    refusal: Annotated[str, Field(description="Why nothing was taken in; empty if nothing is wrong.")]
    faults: Annotated[list[ImportFault], Field(description="The first rows that do not fit.")]
    faults_total: int
    created_at: datetime
    finished_at: datetime | None


def describe_import(job: ProjectImport) -> dict[str, Any]:
    """Return what is sent of an import."""
    with transaction.atomic():  # what opens a large object
        received = count_received(job)
    members = ("dry_run", "bytes", "table", "line", "faults", "faults_total", "created_at", "finished_at")
    answer = ImportAnswer.model_validate(
        {name: getattr(job, name) for name in members}
        | {
            "id": job.pk,
            "state": job.state,
            "received_bytes": received,
            "part_bytes": settings.ERL_API_MAX_REQUEST_BYTES,
            "rows": job.rows or {},
            "refusal": job.last_error if job.status == job.Status.DEAD else job.refusal,
        }
    )
    return answer.model_dump(mode="json")


class ImportListView(ApiView):
    required_scopes = {"POST": Scope.IMPORT}

    @describe(
        "beginImport",
        tag="export",
        summary="Begin to import a project",
        description="Takes the manifest of an export, which `erl import FOLDER` reads. Send the files with `PUT` to "
        "`Location`. A project has one import at a time: the same request again returns it, and another one takes the "
        "place of one whose files have not all arrived. Decisions and settings come along, so a key needs a scope that "
        "no other operation takes.",
        request=ImportInput,
        responses={202: OpenApiResponse(ImportAnswer, "Send the files; follow `Location`.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        sent = ImportInput.from_body(self.body)
        job = begin_import(
            self.project, manifest=sent.manifest, families=sent.families, dry_run=sent.dry_run, by=self.actor
        )
        location = reverse("reflection_api:import", args=[job.pk])
        response = Response(describe_import(job), status=202, headers={"Location": location})
        response.keeps_request = False  # type: ignore[attr-defined]  # it is on the job
        return response


class ImportView(ApiView):
    required_scopes = {"GET": Scope.IMPORT, "PUT": Scope.IMPORT}

    @describe(
        "sendImportParts",
        tag="export",
        summary="Send files of an export",
        description="The files are one text, one after the other in the order of the manifest. With its last byte the "
        "import is queued for a worker; `GET` shows its progress. A part may be sent again. What has not arrived "
        "within a day is dropped.",
        request=ImportPartsInput,
        responses=ImportAnswer,
    )
    def put(self, request: Request, id: UUID) -> Response:
        sent = ImportPartsInput.from_body(self.body)
        job = add_parts(self._find(id), offset=sent.offset, parts=sent.parts, by=self.actor)
        response = Response(describe_import(job))
        response.keeps_request = False  # type: ignore[attr-defined]  # texts of runs, which may be erased
        return response

    @describe(
        "getImport",
        tag="export",
        summary="Read an import",
        description="How far it is and, at its end, what was taken in or which rows do not fit. An import is one "
        "transaction: all of it or nothing.",
        responses=ImportAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(describe_import(self._find(id)))

    def _find(self, id: UUID) -> ProjectImport:
        return get_object_or_404(ProjectImport.objects.for_project(self.project), pk=id)
