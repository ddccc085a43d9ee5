"""Carry out an import: in one transaction with the end of its job, so it is taken in once or not at all."""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction

from memory.projects.actors import Actor
from memory.transfer.load import ImportOptions, import_project
from memory.transfer.manifest import NAME, Manifest, TransferError, check_manifest
from memory.transfer.rows import RowsRefused
from memory.transfer.tables import TABLES
from reflection.imports.large_objects import delete_large_object, read_large_object
from reflection.imports.models import KIND, ImportState, ProjectImport
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.kinds import JobKind
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, finish

log = structlog.get_logger(__name__)

TIME_LIMIT_SECONDS = 4 * 3600  # 50,000 runs take eight minutes
MOST_ATTEMPTS = 3
NOTE_SECONDS = 2.0
MAX_FAULTS = 200


def run_import(job_id: UUID | None = None, *, owner: str) -> Outcome:
    """Claim an import whose export is there, or the one that is due longest, and carry it out."""
    job = claim(KIND, job_id, owner=owner, model=ProjectImport)
    if job is None:
        return Outcome.NOTHING
    outcome, _ = carry_out(job, partial(_see_through, job))
    return outcome


def give_up(job: Job) -> None:
    """Delete the bytes of an import that failed too often."""
    delete_large_object(job.payload["large_object"])


class Progress:
    """Notes on the row of a job how far it is, from a thread: what the work itself writes is seen only at its end."""

    def __init__(self, job: ProjectImport) -> None:
        self._row = ProjectImport.objects.filter(pk=job.pk, attempts=job.attempts, status=job.Status.RUNNING)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="progress")
        self._noted_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Django's connections belong to threads, and this thread ends here.
        self._pool.submit(connection.close)
        self._pool.shutdown()

    def note(self, table: str, line: int) -> None:
        if time.monotonic() - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = time.monotonic()
        self._pool.submit(self._write, table, line)

    def _write(self, table: str, line: int) -> None:
        try:
            self._row.update(result={"table": table, "line": line})
        except (DatabaseError, InterfaceError) as error:  # the next note may do better
            log.warning("progress_not_noted", error=type(error).__name__)
            connection.close()


def _see_through(job: ProjectImport, heartbeat: Heartbeat) -> None:
    if not job.is_uploaded:
        _end(job, ImportState.DROPPED, refusal="The export did not arrive in time. Begin again.")
        return
    with tempfile.TemporaryDirectory(prefix="erl-import-") as name:
        folder = Path(name)
        try:
            with transaction.atomic():
                rows = _take_in(job, folder)
                heartbeat.ensure_held()
                _end(job, ImportState.CHECKED if job.dry_run else ImportState.IMPORTED, rows=rows)
        except RowsRefused as refusal:
            faults = [
                {"file": fault.file, "line": fault.line, "message": fault.message}
                for fault in refusal.faults[:MAX_FAULTS]
            ]
            said = f"{refusal.count:,} rows do not fit, so nothing was changed."
            _end(job, ImportState.REFUSED, refusal=said, faults=faults, faults_total=refusal.count)
        except TransferError as refusal:
            # Files have no place that the sender knows.
            _end(job, ImportState.REFUSED, refusal=str(refusal).replace(f"{folder}/", ""))


def _take_in(job: ProjectImport, folder: Path) -> dict[str, int]:
    manifest = check_manifest(job.manifest)  # the version may be another than when it began
    _write_folder(read_large_object(job.large_object), manifest, folder)
    # Accounts here are not those of the sender, and nothing but an export is free of secrets.
    options = ImportOptions(slug=job.project.slug, families=tuple(job.families), redacted_only=True)
    with Progress(job) as progress:
        done = import_project(
            folder, by=Actor(label=job.requested_by), options=options, dry_run=job.dry_run, progress=progress.note
        )
    return done.rows


def _write_folder(stream: Iterator[bytes], manifest: Manifest, folder: Path) -> None:
    """Write the files of the manifest, which the stream has one after the other, into an empty folder.

    The sender names no files: each has the name of its table here, and ends where the manifest says. What is missing at
    the end is found on reading.
    """
    rest = b""
    for file in manifest.files:
        left = file.bytes
        with (folder / TABLES[file.table].file).open("wb") as output:
            while left and (chunk := rest or next(stream, b"")):
                written = output.write(chunk[:left])
                rest = chunk[written:]
                left -= written
    (folder / NAME).write_text(manifest.model_dump_json())


@transaction.atomic
def _end(job: ProjectImport, state: ImportState, **members: Any) -> None:
    delete_large_object(job.large_object)
    finish(job, outcome=state.value, **members)


IMPORT = JobKind(
    name=KIND,
    run=run_import,
    queue=settings.ERL_EVALUATION_QUEUE,  # so that agents and reflections do not wait for it
    time_limit_seconds=TIME_LIMIT_SECONDS,
    most_attempts=MOST_ATTEMPTS,
    give_up=give_up,
)
