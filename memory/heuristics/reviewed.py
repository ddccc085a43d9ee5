"""What heuristics and mistake cards have in common: wordings that people decide on, and the record of each decision.

Each kind has tables of its own. These abstract models hold the columns, rules and queries that both need.
"""

from typing import Any, Self, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.ids import uuid7
from memory.projects.models import ApiKey, Project

Row = TypeVar("Row", bound=models.Model)


class ReviewedQuerySet(models.QuerySet[Row]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def proposed(self) -> Self:
        """Those that wait for a decision."""
        return self.filter(status="proposed")

    def with_text(self) -> Self:
        """Fetch the newest revision with each."""
        return self.select_related("current_revision")


class RevisionQuerySet(models.QuerySet[Row]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def of_lessons(self) -> Self:
        """Those of lessons, without those of mistake cards."""
        return self.filter(kind="lesson")

    def of_mistakes(self) -> Self:
        return self.filter(kind="mistake")

    def served(self) -> Self:
        """Exactly what agents may be given."""
        return self.filter(served=True)

    def covered(self) -> Self:
        """Those whose words a quarantine order in force covers."""
        order = Func("project_id", "lineage", function="memory_covering_order", output_field=models.UUIDField())
        return self.alias(order=order).filter(order__isnull=False)


class Reviewed(models.Model):
    """What people decide on. Its words live in revisions, and `status` speaks of the newest of them.

    Each kind declares the fields annotated here, with its own choices of `status`. `revisions` and `reviews` are the
    reverse sides of foreign keys.
    """

    project_id: UUID
    status: Any
    current_revision: Any
    revisions: Any
    reviews: Any

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)  # by the clock that quarantine uses
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        abstract = True
        ordering = ["-created_at", "-id"]


class AbstractRevision(models.Model):
    """One wording. A trigger fills `content_sha256` from every text that is served.

    The database lets `served` be true only where exactly that hash was approved (reliability C2), and only for one
    revision of a heuristic or card. It also fills `lineage`, and serves nothing whose lineage a quarantine order covers
    (D3). A service names in `lineage` the wordings of other lessons that it took words from.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    content_sha256 = models.CharField(max_length=64, editable=False, default="")
    served = models.BooleanField(default=False, editable=False)
    approved_sha256 = models.CharField(max_length=64, editable=False, default="")
    approved_by = models.TextField(editable=False, default="")
    approved_at = models.DateTimeField(null=True, editable=False)
    created_by = models.TextField(editable=False, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)  # by the clock that quarantine uses
    words_sha256 = models.CharField(
        max_length=64, editable=False, default="", help_text="Of what it tells to do, without case and punctuation."
    )
    lineage = ArrayField(
        models.UUIDField(),
        editable=False,
        default=list,
        help_text="The wordings that its words come from, this one included.",
    )

    class Meta:
        abstract = True


def served_is_approved(name: str, *, flag: str = "served") -> models.CheckConstraint:
    """Let a wording be served only with an approval of its own hash, in the database."""
    return models.CheckConstraint(
        condition=Q(**{flag: False})
        | (
            Q(approved_sha256=F("content_sha256"), approved_at__isnull=False)
            & Q(approved_sha256__regex=r"^[0-9a-f]{64}$")
            & ~Q(approved_by="")
        ),
        name=name,
    )


class AbstractReview(models.Model):
    """One decision by one person or a named policy on one exact content hash. The database refuses changes.

    Each kind declares `decision` with its own choices, and foreign keys to what was reviewed and to its `revision`.
    """

    decision: Any

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    content_sha256 = models.CharField(max_length=64)
    reason = models.TextField(blank=True, default="")
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
