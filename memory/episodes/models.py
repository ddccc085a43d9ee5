"""Agents' own memory files that were taken in."""

from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.projects.models import Project


class MemoryImport(models.Model):
    """An agent's own memory file, taken apart into rows; what has no row of its own stays here, with the order of all.

    `outline` has the members of the file. Where a part became a row it holds the row's id instead of the text, so
    that erasing the row leaves nothing behind.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memory_imports")
    content_sha256 = models.CharField(max_length=64)
    outline = models.JSONField(default=dict)
    imported_by = models.TextField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "content_sha256"], name="memory_memoryimport_once"),
        ]

    def __str__(self) -> str:
        return f"import of {self.created_at:%Y-%m-%d}"
