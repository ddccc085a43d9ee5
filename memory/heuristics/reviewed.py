"""The record of each decision, on lessons and on blocks."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.projects.models import ApiKey, Project
from memory.stored_text import BY_PEOPLE, StoredText


class AbstractReview(models.Model):
    """One decision by one person or a named policy on one exact content hash. The database refuses changes.

    Each kind declares `decision` with its own choices, and foreign keys to what was reviewed and to its `revision`.
    """

    decision: Any

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    content_sha256 = models.CharField(max_length=64)
    reason = StoredText(blank=True, default="", kept=BY_PEOPLE)
    reviewer = models.TextField(help_text="Label that outlives the account, for example user:ana.")
    reviewer_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reviewer_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        abstract = True
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.decision} by {self.reviewer}"
