"""What became of a lesson in a run that was given it, as a judge read it from the run."""

from django.db import models
from django.utils import timezone

from memory.ids import uuid7
from memory.models.constraints import one_of
from memory.models.heuristic import Heuristic
from memory.models.project import Project
from memory.models.retrieval import Retrieval
from memory.models.trajectory import Trajectory


class UsageVerdictVerdict(models.TextChoices):
    FOLLOWED = "followed"
    CONTRADICTED = "contradicted"
    NOT_APPLICABLE = "not_applicable"
    UNCLEAR = "unclear"  # the run does not show it


class UsageVerdict(models.Model):
    """One judge's verdict on one lesson in one run. What the agent itself says is `HeuristicFeedback`.

    One for a lesson and a run, so that judging again moves nothing; a later judge replaces an earlier one.
    """

    Verdict = UsageVerdictVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="usage_verdicts")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="usage_verdicts")
    retrieval = models.ForeignKey(Retrieval, null=True, on_delete=models.SET_NULL, related_name="+")
    content_sha256 = models.CharField(max_length=64, help_text="The wording the run was given.")
    verdict = models.TextField(choices=Verdict.choices)
    step = models.PositiveIntegerField(null=True, help_text="The step that shows it.")
    judge = models.TextField(help_text="Who read the run: rules or llm.")
    judge_version = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("verdict", UsageVerdictVerdict, "memory_usageverdict_verdict_known"),
            models.UniqueConstraint(fields=["heuristic", "trajectory"], name="memory_usageverdict_once_a_run"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.heuristic_id}"
