"""The durable queue of consolidations, and what they suggest to the reviewers."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import not_blank, one_of
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.models import Project
from memory.runs.models import Trajectory


class ConsolidationRunQuerySet(models.QuerySet["ConsolidationRun"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def live(self) -> Self:
        """Runs that still have work to do."""
        return self.filter(status__in=ConsolidationRun.LIVE)

    def due(self) -> Self:
        """Runs a worker may claim now: waiting ones, and those whose worker let its lease run out."""
        waiting = Q(status__in=ConsolidationRun.WAITING, available_at__lte=Now())
        return self.filter(waiting | Q(status=ConsolidationRun.Status.RUNNING, lease_until__lt=Now()))


class ConsolidationRunStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    RETRY = "retry"
    DONE = "done"
    DEAD = "dead"


class ConsolidationRunCause(models.TextChoices):
    EPISODES = "episodes", "enough new runs"
    NIGHTLY = "nightly"
    COMMAND = "command"
    PERSON = "person", "asked for in the admin"


class ConsolidationRun(models.Model):
    """One pass over a project's memory. The row is the job, as a reflection is.

    `until` is fixed when it is queued, so that an interrupted run reads the same when it is taken up again. Each stage
    commits what it found together with its name in `stages_done`: what is done is not done again.
    """

    Status = ConsolidationRunStatus
    Cause = ConsolidationRunCause

    WAITING = (Status.QUEUED, Status.RETRY)
    LIVE = (*WAITING, Status.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="consolidations")
    status = models.TextField(choices=Status.choices, default=Status.QUEUED)
    cause = models.TextField(choices=Cause.choices)
    since = models.DateTimeField(null=True, help_text="Runs recorded from here on are new; empty reads all.")
    until = models.DateTimeField(help_text="Runs recorded later are left to the next consolidation.")
    available_at = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveIntegerField(default=0)
    lease_owner = models.TextField(blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    stages_done = models.JSONField(default=list, help_text="Names of the stages whose effect is written.")
    method = models.TextField(blank=True, default="", help_text="Who did it: llm or rules.")
    version = models.TextField(blank=True, default="")
    model = models.TextField(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    fallback = models.TextField(blank=True, default="", help_text="Why rules did what the model was to do.")
    episodes = models.PositiveIntegerField(default=0, help_text="New runs it read.")
    notes = models.PositiveIntegerField(default=0, help_text="Notes and mistake cards it compared.")
    items_before = models.PositiveIntegerField(default=0, help_text="Lessons in use or proposed, before.")
    items_after = models.PositiveIntegerField(default=0, help_text="The same if every open suggestion is accepted.")
    tokens_before = models.PositiveIntegerField(default=0, help_text="Tokens of those lessons in a prompt, before.")
    tokens_after = models.PositiveIntegerField(default=0, help_text="The same if every open suggestion is accepted.")
    heuristics_proposed = models.PositiveIntegerField(default=0)
    heuristics_supported = models.PositiveIntegerField(default=0)
    suggestions_made = models.PositiveIntegerField(default=0)
    verdicts = models.PositiveIntegerField(default=0, help_text="Uses of lessons that were judged.")
    last_error_code = models.TextField(blank=True, default="")
    last_error = models.TextField(blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    requested_by = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ConsolidationRunQuerySet.as_manager()

    class Meta:
        verbose_name = "consolidation"
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("status", ConsolidationRunStatus, "reflection_consolidation_status_known"),
            one_of("cause", ConsolidationRunCause, "reflection_consolidation_cause_known"),
            models.UniqueConstraint(
                fields=["project"],
                condition=Q(status__in=["queued", "running", "retry"]),
                name="reflection_consolidation_one_live",
            ),
            models.CheckConstraint(
                condition=~Q(status="running") | Q(lease_until__isnull=False),
                name="reflection_consolidation_running_has_lease",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "-until"], name="reflection_consolidation_last"),
            models.Index(
                fields=["available_at"],
                condition=Q(status__in=["queued", "running", "retry"]),
                name="reflection_consolidation_due",
            ),
        ]
        permissions = [("consolidate_project", "Can ask for a consolidation")]

    def __str__(self) -> str:
        return f"consolidation of {self.created_at:%Y-%m-%d %H:%M}"


class SuggestionKind(models.TextChoices):
    NEW = "new", "new lesson"
    MERGE = "merge"
    NARROW = "narrow"
    GENERALISE = "generalise"
    RETIRE = "retire"
    CONTRADICTION = "contradiction"


class SuggestionStatus(models.TextChoices):
    OPEN = "open"
    ACCEPTED = "accepted"
    DISMISSED = "dismissed"
    OUTDATED = "outdated", "outdated by another decision"


class Suggestion(models.Model):
    """What a consolidation or the lessons' use suggests to do with a lesson. A person decides; nothing else happens.

    It speaks of exact wordings, known by their hashes: where one has changed since, it is outdated. `fingerprint` is
    made of all it says, so that the same is not suggested twice, whatever became of it. A suggestion of a new lesson
    is that lesson in the review queue, and is decided there.
    """

    Kind = SuggestionKind
    Status = SuggestionStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(
        ConsolidationRun, null=True, blank=True, on_delete=models.SET_NULL, related_name="suggestions"
    )
    kind = models.TextField(choices=Kind.choices)
    status = models.TextField(choices=Status.choices, default=Status.OPEN)
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="suggestions")
    content_sha256 = models.CharField(max_length=64, help_text="The wording it speaks of.")
    other = models.ForeignKey(
        Heuristic,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="The lesson it is to be merged into, or that it contradicts.",
    )
    other_sha256 = models.CharField(max_length=64, blank=True, default="")
    text = models.JSONField(default=dict, blank=True, help_text="The new wording, where it suggests one.")
    reason = models.TextField()
    similarity = models.FloatField(null=True, blank=True)
    method = models.TextField(help_text="Who suggests it: llm or rules.")
    model = models.TextField(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    findings = models.JSONField(default=list, blank=True, help_text="What the checks found: [{code, message}].")
    fingerprint = models.CharField(max_length=64, editable=False)
    tokens_saved = models.IntegerField(default=0, help_text="Tokens of prompt it would save where all are given.")
    decided_by = models.TextField(blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("kind", SuggestionKind, "reflection_suggestion_kind_known"),
            one_of("status", SuggestionStatus, "reflection_suggestion_status_known"),
            not_blank("reason", "reflection_suggestion_reason_not_blank"),
            models.UniqueConstraint(fields=["project", "fingerprint"], name="reflection_suggestion_once"),
            models.CheckConstraint(
                condition=Q(decided_at__isnull=True, decided_by="", status="open")
                | (Q(decided_at__isnull=False) & ~Q(decided_by="") & ~Q(status="open")),
                name="reflection_suggestion_decided_by_somebody",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "-created_at", "-id"], name="reflection_suggestion_queue"),
            models.Index(fields=["heuristic"], condition=Q(status="open"), name="reflection_suggestion_open"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.reason[:80]}"


class SuggestionEvidence(models.Model):
    """A run that speaks for a suggestion. It goes with the run, so that erasing one leaves no words of it."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    suggestion = models.ForeignKey(Suggestion, on_delete=models.CASCADE, related_name="evidence")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="+")
    quote = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["suggestion", "trajectory"], name="reflection_suggestion_evidence_once")
        ]

    def __str__(self) -> str:
        return f"{self.trajectory_id} for {self.suggestion_id}"
