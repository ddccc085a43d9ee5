"""How many lessons of each kind a task family is given."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memory.ids import uuid7
from memory.models.project import Project


class PolarityQuota(models.Model):
    """How much of an answer may be lessons of one polarity, for one task family or for a whole project.

    The right mix depends on the kind of task (ERL 1.4: failures alone are best for search tasks, worse for others), so
    it is measured by family and set here. Without a row there is no limit. Lessons of polarity mixed are never counted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="polarity_quotas")
    task_id = models.TextField(
        "task family", blank=True, default="", help_text="Empty stands for every family without a quota of its own."
    )
    max_works_share = models.FloatField(
        null=True, blank=True, help_text="Most lessons of what works, as a share of the answer from 0 to 1."
    )
    max_avoid_share = models.FloatField(
        null=True, blank=True, help_text="Most lessons of what to avoid, as a share of the answer from 0 to 1."
    )
    set_by = models.TextField(editable=False, default="")
    set_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["project", "task_id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "task_id"], name="memory_quota_one_a_family"),
            models.CheckConstraint(
                condition=(Q(max_works_share__isnull=True) | Q(max_works_share__gte=0, max_works_share__lte=1))
                & (Q(max_avoid_share__isnull=True) | Q(max_avoid_share__gte=0, max_avoid_share__lte=1)),
                name="memory_quota_0_to_1",
            ),
        ]

    def __str__(self) -> str:
        return self.task_id or "every family"
