"""Records that make decisions provable: audit entries, erasures and quarantine orders.

They have no foreign keys, because they outlive the rows they describe, and hold ids, labels and hashes but no texts.
The database refuses to change or delete them.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.ids import uuid7


class AuditEntry(models.Model):
    """A review, key change, erasure or quarantine, as a link in the project's chain (reliability C9).

    Triggers write it when the change is committed, whatever caused it. `content` is the exact text that was hashed:
    `sha256 = SHA-256(previous_sha256 + "\\n" + content)`.
    """

    id = models.BigAutoField(primary_key=True)
    project_id = models.UUIDField()
    number = models.PositiveBigIntegerField()
    kind = models.TextField()
    subject_id = models.UUIDField(null=True)
    content = models.TextField()
    previous_sha256 = models.CharField(max_length=64)
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "audit entries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["project_id", "number"], name="memory_auditentry_number_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.kind}"


class Erasure(models.Model):
    """An erasure, recorded so that it can be repeated after a backup is restored (C8, C10)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    trajectory_id = models.UUIDField()
    heuristic_ids = ArrayField(models.UUIDField(), default=list, help_text="Heuristics based only on it.")
    erased_by = models.TextField()
    erased_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-erased_at", "-id"]
        indexes = [models.Index(fields=["trajectory_id"], name="memory_erasure_of")]

    def __str__(self) -> str:
        return f"erasure of {self.trajectory_id}"


class QuarantineOrder(models.Model):
    """An order that took everything learnt from a source since a time out of service (D3)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    source = models.TextField(help_text="The API key or client, for example key:1a2b3c4d or client:agent.")
    since = models.DateTimeField()
    reason = models.TextField(blank=True, default="")
    heuristic_ids = ArrayField(models.UUIDField(), default=list, help_text="Heuristics taken out of service.")
    retrieval_count = models.PositiveIntegerField(
        default=0, help_text="Answers that had given any of them to an agent."
    )
    ordered_by = models.TextField()
    ordered_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-ordered_at", "-id"]
        permissions = [("quarantine_source", "Can quarantine everything learnt from an API key")]

    def __str__(self) -> str:
        return f"{self.source} since {self.since:%Y-%m-%d %H:%M}"
