"""Imports of whole projects, each a job about the project that it comes into."""

from typing import Any

from django.db import models

from reflection.jobs.models import Job, KindManager, member

KIND = "import"


class ImportState(models.TextChoices):
    UPLOADING = "uploading", "Waiting for the rest of the export"
    QUEUED = "queued"
    RUNNING = "running"
    IMPORTED = "imported"
    CHECKED = "checked", "Fits; nothing was changed"
    REFUSED = "refused", "Does not fit; nothing was changed"
    DROPPED = "dropped", "Given up before all of it was there"
    FAILED = "failed", "Stopped by a failure of the server; nothing was changed"


class ProjectImport(Job):
    """One export that is taken in: uploaded in parts, then read by a worker in one transaction.

    Until all of it is there, the job is due only when the upload has taken too long. `large_object` holds the bytes.
    """

    State = ImportState

    objects = KindManager["ProjectImport"](KIND)  # type: ignore[misc]  # finds imports

    manifest: dict[str, Any] = member("payload", "manifest", None)
    families: list[str] = member("payload", "families", ())
    dry_run: bool = member("payload", "dry_run", False)
    request_sha256: str = member("payload", "request_sha256")  # of what was asked for, to know it again
    bytes: int = member("payload", "bytes", 0)
    large_object: int = member("payload", "large_object", 0)
    is_uploaded: bool = member("payload", "is_uploaded", False)

    table: str = member("result", "table")  # that is read now
    line: int = member("result", "line", 0)
    outcome: str = member("result", "outcome")
    rows: dict[str, int] = member("result", "rows", None)
    faults: list[dict[str, Any]] = member("result", "faults", ())
    faults_total: int = member("result", "faults_total", 0)
    refusal: str = member("result", "refusal")

    class Meta:
        proxy = True
        verbose_name = "import"

    def __str__(self) -> str:
        return f"{self.state} import of {self.created_at:%Y-%m-%d %H:%M}"

    @property
    def state(self) -> str:
        match self.status:
            case self.Status.DONE:
                return self.outcome
            case self.Status.DEAD:
                return ImportState.FAILED
            case self.Status.RUNNING:
                return ImportState.RUNNING
            case _:
                return ImportState.QUEUED if self.is_uploaded else ImportState.UPLOADING
