"""Answers kept for repeated requests."""

from django.db import models
from django.utils import timezone

from memory.constraints import not_blank
from memory.projects.models import Project
from memory.stored_text import StoredBytes, StoredJson


class IdempotencyRecord(models.Model):
    """A finished mutating request and its answer, byte for byte.

    Written in the same transaction as its effect. Keys are scoped by project and client, not by API key, so
    that rotating a key loses nothing.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    client = models.TextField()
    key = models.TextField()
    fingerprint = models.BinaryField(max_length=32)
    method = models.TextField()
    route = models.TextField()
    request = StoredBytes(default=b"", help_text="The canonical request after redaction.")
    status_code = models.PositiveSmallIntegerField()
    headers = StoredJson(default=dict)
    body = StoredBytes(default=b"")
    resource_id = models.UUIDField(null=True, help_text="What the request made; its erasure empties this record.")
    erased_at = models.DateTimeField(null=True)
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            not_blank("key", "memory_idempotency_key_not_blank"),
            models.CheckConstraint(
                # A replay reads them; JSON's null is not the database's.
                condition=models.Q(headers__contains={}),
                name="memory_idempotency_headers_are_an_object",
            ),
            models.UniqueConstraint(fields=["project", "client", "key"], name="memory_idempotency_key_once"),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="memory_idempotency_expiry"),
            models.Index(
                fields=["resource_id"],
                name="memory_idempotency_resource",
                condition=models.Q(resource_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.key
