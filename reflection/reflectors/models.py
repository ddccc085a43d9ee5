"""Reflections and their results."""

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

from memory.constraints import one_of
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.stored_text import StoredJson, StoredText
from reflection.jobs.models import Job, KindManager, member

KIND = "reflection"


class Reflection(Job):
    """One pass of a reflector over one trajectory, a job about that trajectory."""

    if TYPE_CHECKING:  # a reflection always has a run
        trajectory: models.ForeignKey[Trajectory, Trajectory]

    objects = KindManager["Reflection"](KIND)  # type: ignore[misc]  # finds reflections

    reflector: str = member("result", "reflector")
    reflector_version: str = member("result", "reflector_version")
    prompt_version: str = member("result", "prompt_version")
    heuristics_proposed: int = member("result", "heuristics_proposed", 0)
    skip_reason: str = member("result", "skip_reason")  # why nothing, or not everything, was proposed
    # The reflection that did this one's work, too, or is doing it, on another try of the same task.
    carried_by: UUID | None = member("result", "carried_by", None, read=UUID)
    shown_runs: list[UUID] = member("result", "shown_runs", (), read=lambda ids: [UUID(id) for id in ids])

    class Meta:
        proxy = True
        permissions = [("requeue_reflection", "Can queue reflections again")]

    def __str__(self) -> str:
        return f"{self.status} reflection of {self.trajectory_id}"

    @property
    def error(self) -> dict[str, str] | None:
        """What went wrong last; None if nothing did."""
        return {"code": self.last_error_code, "message": self.last_error} if self.last_error_code else None


class ProposalEffect(models.TextChoices):
    NEW = "new"
    SUPPORT = "support"
    GROUP = "group", "Another wording"
    MERGE = "merge"


class Proposal(models.Model):
    """A result of one reflection: a new heuristic, support for one, another wording of one, or a proposal to merge."""

    Effect = ProposalEffect

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    reflection = models.ForeignKey(Reflection, on_delete=models.CASCADE, related_name="proposals", db_index=False)
    ordinal = models.PositiveSmallIntegerField()
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="proposals")
    near = models.ForeignKey(
        Heuristic,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="What it may be merged into.",
    )
    effect = models.TextField(choices=Effect.choices)
    similarity = models.FloatField(null=True)
    # With `words`, those of the lesson that a finding is about.
    findings = StoredJson(
        default=list, blank=True, help_text="What the checks found for the reviewer: [{code, message}]."
    )
    pattern = models.TextField(blank=True, default="", help_text="The key of what was found in the run, if it has one.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["reflection", "ordinal"]
        constraints = [
            one_of("effect", ProposalEffect, "reflection_proposal_effect_known"),
            models.UniqueConstraint(fields=["reflection", "ordinal"], name="reflection_proposal_ordinal_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.effect} {self.heuristic_id}"


class RunPatternsEnd(models.TextChoices):
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class RunPatterns(models.Model):
    """Which patterns the newest reflection found in a run, proposed or not, and how the run had ended by then.

    Only a reflector that looks for the same patterns in every run writes them. They count how often a lesson would have
    applied.
    """

    trajectory = models.OneToOneField(Trajectory, primary_key=True, on_delete=models.CASCADE, related_name="patterns")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    task_id = StoredText(blank=True, default="")
    ended = models.TextField(choices=RunPatternsEnd.choices)
    keys = ArrayField(models.TextField(), default=list)
    reflector_version = models.TextField()

    class Meta:
        ordering = ["trajectory"]
        constraints = [
            one_of("ended", RunPatternsEnd, "reflection_patterns_ended_known"),
        ]
        indexes = [
            models.Index(fields=["project", "task_id", "ended"], name="reflection_patterns_of_family"),
            GinIndex(fields=["keys"], name="reflection_patterns_keys"),
        ]

    def __str__(self) -> str:
        return f"{len(self.keys)} patterns in {self.trajectory_id}"
