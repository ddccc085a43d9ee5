"""Imported memory files of agents."""

from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import StoredJson


class MemoryImport(models.Model):
    """An agent's own memory file, split into rows.

    `outline` has the members of the file in their order. A part that became a row is replaced by the row's id, so that
    erasing the row leaves nothing behind; a part without a row stays as it was.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memory_imports", db_index=False)
    content_sha256 = models.CharField(max_length=64)
    outline = StoredJson(default=dict, kept="members of a memory file that are no run, lesson or card")
    imported_by = models.TextField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "content_sha256"], name="memory_memoryimport_once"),
            models.CheckConstraint(
                condition=models.Q(outline__contains={}), name="memory_memoryimport_outline_is_an_object"
            ),
        ]

    def __str__(self) -> str:
        return f"import of {self.created_at:%Y-%m-%d}"
