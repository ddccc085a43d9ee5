"""What the review desk remembers of its reviewers: who is on what, who has read what, and their filters."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.models.constraints import not_blank
from memory.models.heuristic import Heuristic


class ReviewClaim(models.Model):
    """Who is deciding on a heuristic, for a few minutes. One row a heuristic; a row whose time is up means nobody."""

    heuristic = models.OneToOneField(Heuristic, primary_key=True, on_delete=models.CASCADE, related_name="claim")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    claimed_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-claimed_at"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(expires_at__gte=models.F("claimed_at")), name="memory_reviewclaim_ends_after_start"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} until {self.expires_at:%H:%M}"


class DeskOpening(models.Model):
    """That a person had a heuristic's words, known by their hash, on the screen. What was not read is not approved."""

    id = models.BigAutoField(primary_key=True)
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="openings")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    content_sha256 = models.CharField(max_length=64)
    opened_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-opened_at"]
        constraints = [
            models.UniqueConstraint(fields=["heuristic", "user", "content_sha256"], name="memory_deskopening_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} read {self.content_sha256[:12]}"


class SavedFilter(models.Model):
    """A view of the queue under a name of a person's own. `query` is the part of the address after the mark."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            not_blank("name", "memory_savedfilter_name_not_blank"),
            models.UniqueConstraint(fields=["user", "name"], name="memory_savedfilter_name_once"),
        ]

    def __str__(self) -> str:
        return self.name
