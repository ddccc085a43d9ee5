"""Comments on items of the inbox, and who sees to an item and when. Items are of several tables: `kind` says which."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.constraints import not_blank
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import StoredChars

MAX_COMMENT = 4000


class Comment(models.Model):
    """What a person said about an item. Never changed; deleted with the item."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    kind = models.TextField()
    object_id = models.UUIDField(db_index=True)
    text = StoredChars(max_length=MAX_COMMENT)
    written_by = models.TextField()
    written_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["written_at", "id"]
        constraints = [not_blank("text", "memory_comment_text_not_blank")]

    def __str__(self) -> str:
        return f"{self.written_by} on {self.kind} {self.object_id}"

    @property
    def author(self) -> str:
        """The name of the account that wrote it."""
        return self.written_by.removeprefix("user:")


class ItemState(models.Model):
    """Who sees to an item, and until when it is left out of the list. No row means neither."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.TextField()
    object_id = models.UUIDField(db_index=True)
    assignee = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    snoozed_until = models.DateTimeField(null=True)
    changed_by = models.TextField()
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-changed_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "kind", "object_id"], name="memory_itemstate_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id}"

    @property
    def is_asleep(self) -> bool:
        return self.snoozed_until is not None and self.snoozed_until > timezone.now()
