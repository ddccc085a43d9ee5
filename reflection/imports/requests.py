"""Imports that API clients ask for: begun with the manifest, sent in parts, queued once all of it is there."""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models.functions import Now

from memory.after_commit import after_commit
from memory.api.canonical import canonical_json
from memory.errors import InvalidInput, MemoryAppError
from memory.limits import MAX_IMPORT_BYTES
from memory.projects.access import Right, check_right
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.transfer.load import check_takes_decisions
from memory.transfer.manifest import check_manifest, choose_families
from memory.transfer.tables import FAMILIES
from reflection.imports.large_objects import (
    create_large_object,
    delete_large_object,
    measure_large_object,
    write_large_object,
)
from reflection.imports.models import KIND, ImportState, ProjectImport
from reflection.jobs.messages import sender
from reflection.jobs.queue import enqueue

log = structlog.get_logger(__name__)

UPLOAD_HOURS = 24
IMPORT = Right(
    to="import a project",
    scope=ApiKey.Scope.IMPORT,
    permissions={ProjectMembership.Role.OPERATOR: "memory.change_project"},
)


class ImportUnderWay(MemoryAppError):
    """Another export is being taken into the project."""

    code = "conflict"


class ExportTooLarge(MemoryAppError):
    """An export is too large to be sent over HTTP."""

    code = "request_too_large"


@transaction.atomic
def begin_import(
    project: Project, *, manifest: Any, families: Sequence[str] = (), dry_run: bool = False, by: Actor
) -> ProjectImport:
    """Begin to take an export into a project, or return the import that began with the same request.

    A project has one at a time; one whose upload is not complete gives way to another.

    Raises:
        NotAllowed: the actor may not.
        TransferError: the manifest is none of this version, or the project takes no decisions from elsewhere.
        InvalidInput: there is no such family.
        ExportTooLarge: it is an operator's to take in.
        ImportUnderWay: another import is queued or running.
    """
    check_right(IMPORT, project, by=by)
    check_takes_decisions(project)
    if unknown := sorted(set(families) - FAMILIES.keys()):
        raise InvalidInput({"/families": [f"There is no family {unknown[0]!r}. There are {', '.join(FAMILIES)}."]})
    parsed = check_manifest(manifest)
    choose_families(parsed, list(families))
    size = parsed.count_bytes()
    if size > MAX_IMPORT_BYTES:
        raise ExportTooLarge(
            f"The files have {size:,} bytes, and over HTTP at most {MAX_IMPORT_BYTES:,} are taken. Let an operator "
            "import the folder on the server."
        )
    asked = {"manifest": manifest, "families": sorted(families), "dry_run": dry_run}
    request_sha256 = hashlib.sha256(canonical_json(asked)).hexdigest()
    live = ProjectImport.objects.for_project(project).live().select_for_update().first()
    if live is not None and live.request_sha256 == request_sha256:
        return live
    if live is not None:
        _give_way(live)
    payload = asked | {"request_sha256": request_sha256, "bytes": size, "large_object": create_large_object()}
    job = enqueue(
        ProjectImport(kind=KIND, project=project, subject=str(project.pk), payload=payload, requested_by=by.label)
    )
    if job.payload != payload:  # another request was faster
        raise ImportUnderWay("Another import into this project began just now. Follow that one.")
    if size:
        _wait_for_rest(job)
    else:
        _start(job)
    log.info("import_begun", import_id=str(job.pk), bytes=size, dry_run=dry_run, by=by.label)
    return job


@transaction.atomic
def add_parts(job: ProjectImport, *, offset: int, parts: Sequence[str], by: Actor) -> ProjectImport:
    """Keep bytes of an export from a place on; sending the same again changes nothing. The last byte queues the import.

    Raises:
        NotAllowed: the actor may not.
        InvalidInput: bytes before these are missing, or these are more than the manifest says.
    """
    check_right(IMPORT, job.project, by=by)
    job = ProjectImport.objects.select_for_update().get(pk=job.pk)
    data = "".join(parts).encode()
    end = offset + len(data)
    if end > job.bytes:
        raise InvalidInput(
            {"/parts": [f"The files have {job.bytes:,} bytes by the manifest, and this is byte {end:,}."]}
        )
    if job.state != ImportState.UPLOADING:
        return job  # an answer that was lost
    received = measure_large_object(job.large_object)
    if offset > received:
        raise InvalidInput({"/offset": [f"Go on at byte {received:,}, the first that is missing."]})
    write_large_object(job.large_object, data, offset=offset)
    if max(end, received) == job.bytes:
        _start(job)
    return job


def count_received(job: ProjectImport) -> int:
    """Return how many bytes of an export have arrived. Needs a transaction."""
    return measure_large_object(job.large_object) if job.state == ImportState.UPLOADING else job.bytes


def _wait_for_rest(job: ProjectImport) -> None:
    """Let the job be due only when its upload has taken too long."""
    ProjectImport.objects.filter(pk=job.pk).update(available_at=Now() + timedelta(hours=UPLOAD_HOURS))


def _start(job: ProjectImport) -> None:
    job.payload |= {"is_uploaded": True}
    ProjectImport.objects.filter(pk=job.pk).update(payload=job.payload, available_at=Now())
    after_commit(sender.send_job, job.pk, KIND)


def _give_way(job: ProjectImport) -> None:
    if job.state != ImportState.UPLOADING:
        raise ImportUnderWay(f"The import {job.pk} into this project is under way. Wait until it has ended.")
    delete_large_object(job.large_object)
    ended = {"outcome": ImportState.DROPPED, "refusal": "Another import began before all of the export was there."}
    ProjectImport.objects.filter(pk=job.pk).update(status=job.Status.DONE, result=ended, finished_at=Now())
