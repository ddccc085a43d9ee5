"""Consolidations, and what they suggest to the reviewers."""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.text import Truncator

from memory.constraints import not_blank, one_of
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.stored_text import StoredJson, StoredText
from reflection.jobs.models import Job, KindManager, member

KIND = "consolidation"


class ConsolidationRunCause(models.TextChoices):
    EPISODES = "episodes", "Enough new runs"
    NIGHTLY = "nightly"
    COMMAND = "command"
    PERSON = "person", "Requested in the admin"


class ConsolidationRun(Job):
    """One pass over a project's memory, a job about the project.

    `until` is fixed when it is queued, so that an interrupted run reads the same when it is continued. Each stage
    commits what it found together with its name in `stages_done`: what is done is not done again.
    """

    Cause = ConsolidationRunCause

    objects = KindManager["ConsolidationRun"](KIND)  # type: ignore[misc]  # finds consolidations

    cause: str = member("payload", "cause")
    # Runs recorded from `since` on are new (all if it is None); those after `until` are left to the next consolidation.
    since: datetime | None = member("payload", "since", None, read=parse_datetime)
    until: datetime = member("payload", "until", None, read=parse_datetime)

    stages_done: list[str] = member("result", "stages_done", ())  # names of the stages whose effect is written
    method: str = member("result", "method")  # what did it: llm or rules
    version: str = member("result", "version")
    prompt_version: str = member("result", "prompt_version")
    fallback: str = member("result", "fallback")  # why the rules did the work of the model
    dropped: list[str] = member("result", "dropped", ())  # what the model proposed that nobody sees, and why
    episodes: int = member("result", "episodes", 0)  # new runs it read
    notes: int = member("result", "notes", 0)  # notes it compared
    # Lessons in use or proposed and their tokens in a prompt: before, and if every open suggestion is accepted.
    items_before: int = member("result", "items_before", 0)
    items_after: int = member("result", "items_after", 0)
    tokens_before: int = member("result", "tokens_before", 0)
    tokens_after: int = member("result", "tokens_after", 0)
    heuristics_proposed: int = member("result", "heuristics_proposed", 0)
    heuristics_supported: int = member("result", "heuristics_supported", 0)
    suggestions_made: int = member("result", "suggestions_made", 0)
    verdicts: int = member("result", "verdicts", 0)  # uses of lessons that were judged

    class Meta:
        proxy = True
        verbose_name = "consolidation"
        permissions = [("consolidate_project", "Can ask for a consolidation")]

    def __str__(self) -> str:
        return f"consolidation of {self.created_at:%Y-%m-%d %H:%M}"


class SuggestionKind(models.TextChoices):
    NEW = "new", "New lesson"
    MERGE = "merge"
    NARROW = "narrow"
    GENERALISE = "generalise"
    RETIRE = "retire"
    CONTRADICTION = "contradiction"


class SuggestionStatus(models.TextChoices):
    OPEN = "open"
    ACCEPTED = "accepted"
    DISMISSED = "dismissed"
    OUTDATED = "outdated", "Overtaken by another decision"


class Suggestion(models.Model):
    """What a consolidation suggests to do with a lesson. Nothing happens until a person decides.

    It is about exact wordings, identified by their hashes; where one has changed since, it is outdated. `fingerprint`
    covers everything it says, so that no suggestion is repeated, whatever was decided. A suggestion of a new lesson
    is that lesson in the review queue, and is decided there.
    """

    Kind = SuggestionKind
    Status = SuggestionStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(
        ConsolidationRun, null=True, blank=True, on_delete=models.SET_NULL, related_name="suggestions"
    )
    kind = models.TextField(choices=Kind.choices)
    status = models.TextField(choices=Status.choices, default=Status.OPEN)
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="suggestions")
    content_sha256 = models.CharField(max_length=64, help_text="The wording it is about.")
    other = models.ForeignKey(
        Heuristic,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="The lesson it is to be merged into, or that it contradicts.",
    )
    other_sha256 = models.CharField(max_length=64, blank=True, default="")
    text = StoredJson(default=dict, blank=True, help_text="The new wording, where it suggests one.")
    reason = StoredText()
    similarity = models.FloatField(null=True, blank=True)
    method = models.TextField(help_text="What suggests it: llm or rules.")
    model = models.TextField(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    findings = StoredJson(default=list, blank=True, help_text="What the checks found: [{code, message}].")
    fingerprint = models.CharField(max_length=64, editable=False)
    tokens_saved = models.IntegerField(default=0, help_text="Prompt tokens it would save where all lessons are given.")
    decided_by = models.TextField(blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = StoredText(blank=True, default="")
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
                name="reflection_suggestion_has_a_decider",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "-created_at", "-id"], name="reflection_suggestion_queue"),
            models.Index(fields=["heuristic"], condition=Q(status="open"), name="reflection_suggestion_open"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {Truncator(self.reason).chars(80)}"


class SuggestionEvidence(models.Model):
    """A run that speaks for a suggestion. It goes with the run, so that erasing one leaves no words of it."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    suggestion = models.ForeignKey(Suggestion, on_delete=models.CASCADE, related_name="evidence", db_index=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="+")
    quote = StoredText(blank=True, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["suggestion", "trajectory"], name="reflection_suggestion_evidence_once")
        ]

    def __str__(self) -> str:
        return f"{self.trajectory_id} for {self.suggestion_id}"
