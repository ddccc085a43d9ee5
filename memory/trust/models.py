"""Records that make decisions provable: audit entries, erasures and quarantine orders.

They have no foreign keys, because they outlive the rows they describe, and hold ids, labels and hashes but no texts.
The database refuses to change or delete them.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.stored_text import BY_PEOPLE, StoredText


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
    """An erasure, recorded so that it can be repeated after a backup is restored (C8, C10).

    That of a person has a `receipt`: how many rows of each kind went, and how many are left and where. It names
    neither the person nor what was searched for; `trajectory_id` is an id of its own, since each run has an erasure
    besides.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    trajectory_id = models.UUIDField()
    heuristic_ids = ArrayField(models.UUIDField(), default=list, help_text="Heuristics based only on it.")
    receipt = models.JSONField(null=True, editable=False, help_text="How many rows of each kind went with a person.")
    erased_by = models.TextField()
    erased_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-erased_at", "-id"]
        permissions = [("erase_person", "Can find, export and erase what is stored about a person")]
        indexes = [models.Index(fields=["trajectory_id"], name="memory_erasure_of")]

    def __str__(self) -> str:
        return f"erasure of {'a person' if self.receipt is not None else self.trajectory_id}"


class QuarantineOrder(models.Model):
    """An order that took everything learnt from a source since a time out of service (D3).

    It covers those lessons and every wording that descends from the source's words, also one written later. The
    database serves nothing that an order covers until the order is lifted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    source = models.TextField(help_text="The API key or client, for example key:1a2b3c4d or client:agent.")
    client = models.TextField()
    api_key_id = models.UUIDField(null=True, blank=True, help_text="Empty for all keys of the client.")
    since = models.DateTimeField()
    reason = StoredText(blank=True, default="", kept=BY_PEOPLE)
    heuristic_ids = ArrayField(models.UUIDField(), default=list, help_text="Heuristics taken out of service.")
    wording_ids = ArrayField(
        models.UUIDField(), default=list, help_text="All wordings of the lessons that the source contributed to."
    )
    retrieval_count = models.PositiveIntegerField(
        default=0, help_text="Answers that had given any of the words to an agent."
    )
    ordered_by = models.TextField()
    ordered_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-ordered_at", "-id"]
        permissions = [("quarantine_source", "Can quarantine everything learnt from an API key")]

    def __str__(self) -> str:
        return f"{self.source} since {self.since:%Y-%m-%d %H:%M}"


class QuarantineLift(models.Model):
    """The end of a quarantine order, for all it covers or for the words of one lesson or mistake card.

    Nothing is served by it; it only lets a review serve the words again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    order = models.ForeignKey(QuarantineOrder, on_delete=models.PROTECT, related_name="lifts")
    subject_id = models.UUIDField(
        null=True, blank=True, help_text="The lesson or mistake card; empty if the whole order was lifted."
    )
    wording_ids = ArrayField(models.UUIDField(), default=list, help_text="The wordings it no longer covers.")
    reason = StoredText(blank=True, default="", kept=BY_PEOPLE)
    lifted_by = models.TextField()
    lifted_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-lifted_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "order", "subject_id"], nulls_distinct=False, name="memory_quarantinelift_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.order} lifted" + (f" for {self.subject_id}" if self.subject_id else "")
