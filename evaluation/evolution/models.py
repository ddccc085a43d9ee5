"""Evolutions and their candidates, written once when an evolution has ended (evaluation/sql/evolutions.sql)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.constraints import not_blank
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import OF_CHANGES, StoredJson, StoredText
from runtime.models.agents import Agent
from runtime.models.changes import Change


class Evolution(models.Model):
    """An evolution: what it was started with, the three sets, and what the candidate it chose did on the hold-out.

    `sets` counts tasks by set and family. `measured` compares the agent before and after: solved tasks, and steps,
    tokens and success with the interval of the difference per task. `controls` is empty for agents of projects.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="+", db_index=False, help_text="Empty for the demo."
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.CASCADE, related_name="evolutions", help_text="Empty for the demo."
    )
    suite = models.TextField()
    seed = models.IntegerField()
    generations = models.PositiveIntegerField()
    sets = models.JSONField()
    looks = models.PositiveIntegerField(help_text="How often the gate was looked at.")
    most_looks = models.PositiveIntegerField(help_text="How often it may be looked at.")
    measured = models.JSONField()
    controls = models.JSONField(default=dict, blank=True)
    proposer = StoredJson(
        default=dict,
        blank=True,
        help_text="What a language model proposed, if it was asked.",
        kept=OF_CHANGES,
    )
    versions = models.JSONField(default=dict)
    started_by = models.TextField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-finished_at", "-id"]
        constraints = [not_blank("started_by", "evaluation_evolution_by_not_blank")]
        indexes = [models.Index(fields=["project", "-finished_at", "-id"], name="evaluation_evolution_recent")]

    def __str__(self) -> str:
        return f"{self.agent.name if self.agent else 'demo'} on {self.suite}"


class EvolutionCandidate(models.Model):
    """A candidate of an evolution. Number 0 is the agent as it was.

    `adds` is what it has besides what its parents have, `sha256` the hash of all that it has besides the agent as it
    was. `scores` has tasks, solved, steps and tokens by family, and is empty where a check stopped the candidate before
    it came to the gate. `look` says which look at the gate it was, `stopped_by` which check or gate stopped it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="+")
    evolution = models.ForeignKey(Evolution, on_delete=models.CASCADE, related_name="candidates", db_index=False)
    number = models.PositiveIntegerField()
    generation = models.PositiveIntegerField()
    parents = ArrayField(models.PositiveIntegerField(), default=list, help_text="Numbers of other candidates.")
    adds = StoredJson(default=dict, kept=OF_CHANGES)
    sha256 = models.TextField()
    scores = models.JSONField(default=dict)
    look = models.PositiveIntegerField(null=True)
    stopped_by = models.TextField(blank=True, default="", help_text="Empty where it was kept.")
    said = StoredText(help_text="What the check or gate found.", kept=OF_CHANGES)
    is_on_front = models.BooleanField(help_text="Whether no other candidate beats it in every family.")
    is_chosen = models.BooleanField(help_text="Whether it met the hold-out.")
    change = models.ForeignKey(
        Change, null=True, on_delete=models.CASCADE, related_name="+", help_text="What was proposed of it."
    )

    class Meta:
        ordering = ["evolution", "number"]
        constraints = [
            models.UniqueConstraint(fields=["evolution", "number"], name="evaluation_candidate_number_once"),
            models.UniqueConstraint(
                fields=["evolution"], condition=Q(is_chosen=True), name="evaluation_candidate_one_chosen"
            ),
            models.CheckConstraint(
                condition=Q(stopped_by="") | Q(is_on_front=False, is_chosen=False),
                name="evaluation_candidate_stopped_is_out",
            ),
        ]

    def __str__(self) -> str:
        return f"candidate {self.number}"

    @property
    def tasks(self) -> int:
        return sum(each["tasks"] for each in self.scores.values())

    @property
    def solved(self) -> int:
        return sum(each["solved"] for each in self.scores.values())

    @property
    def steps(self) -> float | None:
        """Steps per task of the gate."""
        return self._per_task("steps")

    @property
    def tokens(self) -> float | None:
        """Tokens per task of the gate."""
        return self._per_task("tokens")

    def _per_task(self, name: str) -> float | None:
        return sum(each[name] for each in self.scores.values()) / self.tasks if self.tasks else None
