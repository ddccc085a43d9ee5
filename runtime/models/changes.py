"""Changes of agents, and the rows that prove how far each has come."""

import hashlib
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memory.api.canonical import canonical_json
from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.releases.models import Release
from memory.stored_text import OF_CHANGES, StoredJson, StoredText
from runtime.models.agents import Agent, AgentRevision
from runtime.models.runs import Run


class ChangeSource(models.TextChoices):
    PERSON = "person", "A person or a client"
    AGENT = "agent", "The agent, during a run"
    SLEEP = "sleep", "The sleep job"
    EVOLUTION = "evolution", "An evolution"


class ChangeRung(models.TextChoices):
    PROPOSED = "proposed"
    CHECKED = "checked"
    SHADOWED = "shadowed"
    CANARY = "canary", "On trial"
    STABLE = "stable"
    FAILED = "failed", "Stopped by a check"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled_back", "Rolled back"


class ChangeQuerySet(models.QuerySet["Change"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def open(self) -> Self:
        """Keep those that can still climb."""
        return self.filter(rung__in=Change.OPEN)


class Change(models.Model):
    """A new revision of an agent that someone proposes, with the reason, and how far it has come.

    `base` is what the agent was, `target` what it would be; tools that are new in it have revisions of their own.
    `lessons` and `retrieval` are about what all agents of the project are given, so they are no part of a revision: the
    release that tries the change has them. The same content is proposed once. `release` is the release that tries it:
    where that is deployed, `rung` follows.
    """

    Rung = ChangeRung
    Source = ChangeSource
    OPEN = (ChangeRung.PROPOSED, ChangeRung.CHECKED, ChangeRung.SHADOWED)
    DEPLOYED = (ChangeRung.CANARY, ChangeRung.STABLE)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="changes", db_index=False)
    number = models.PositiveIntegerField(help_text="Counts the changes of the agent.")
    base = models.ForeignKey(AgentRevision, on_delete=models.CASCADE, related_name="+")
    target = models.ForeignKey(AgentRevision, on_delete=models.CASCADE, related_name="+")
    parent = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="children")
    kinds = ArrayField(models.TextField(), help_text="What it changes.")
    lessons = ArrayField(
        models.UUIDField(), default=list, db_default=[], blank=True, help_text="Wordings of lessons that it brings."
    )
    retrieval = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="How many lessons runs are given, if it changes that."
    )
    reason = StoredText(kept=OF_CHANGES)
    evidence = StoredJson(default=dict, blank=True, kept=OF_CHANGES)
    source = models.TextField(choices=Source.choices)
    rung = models.TextField(choices=Rung.choices, default=Rung.PROPOSED)
    release = models.ForeignKey(Release, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    decided_by = models.TextField(blank=True, default="", editable=False)
    decided_at = models.DateTimeField(null=True, editable=False)
    decision = StoredText(blank=True, default="", help_text="Why it was decided so.", kept=OF_CHANGES)

    objects = ChangeQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("decide_change", "Can decide about changes of agents")]
        constraints = [
            one_of("source", ChangeSource, "agents_change_source_known"),
            one_of("rung", ChangeRung, "agents_change_rung_known"),
            not_blank("reason", "agents_change_says_why"),
            not_blank("created_by", "agents_change_by_not_blank"),
            models.UniqueConstraint(fields=["agent", "number"], name="agents_change_number_unique"),
            models.UniqueConstraint(
                fields=["agent", "target", "lessons", "retrieval"], name="agents_change_content_once"
            ),
            models.CheckConstraint(
                condition=~Q(target=F("base")) | ~Q(lessons=[]) | ~Q(retrieval={}),
                name="agents_change_changes_something",
            ),
            models.CheckConstraint(
                condition=~Q(rung__in=["canary", "stable"]) | Q(release__isnull=False),
                name="agents_change_deployed_by_release",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="agents_change_newest"),
            models.Index(fields=["release"], name="agents_change_of_release"),
        ]

    def __str__(self) -> str:
        return f"change {self.number}"

    @property
    def sha256(self) -> str:
        """The hash of all that it changes; that of its target, if that is all."""
        if not self.lessons and not self.retrieval:
            return self.target.content_sha256
        whole = {
            "target": self.target.content_sha256,
            "lessons": list(map(str, self.lessons)),
            "retrieval": self.retrieval,
        }
        return hashlib.sha256(canonical_json(whole)).hexdigest()

    @property
    def can_climb(self) -> bool:
        return self.rung in self.OPEN


class CheckVerdict(models.TextChoices):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped", "There was nothing to check it with"


class Check(models.Model):
    """One check of a change: the verdict and what it saw. Never changed."""

    Verdict = CheckVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    change = models.ForeignKey(Change, on_delete=models.CASCADE, related_name="checks", db_index=False)
    attempt = models.PositiveIntegerField()
    index = models.PositiveIntegerField(help_text="Its place: cheap checks come first.")
    name = models.TextField()
    verdict = models.TextField(choices=Verdict.choices)
    said = StoredText(help_text="What it found, for people.", kept=OF_CHANGES)
    figures = StoredJson(default=dict, blank=True, kept=OF_CHANGES)
    made_by = models.TextField()
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["change", "attempt", "index"]
        constraints = [
            one_of("verdict", CheckVerdict, "agents_check_verdict_known"),
            models.UniqueConstraint(fields=["change", "attempt", "index"], name="agents_check_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict}"


class ShadowRun(models.Model):
    """What a change would have done with the task of a recorded run. Nothing left ERL for it. Never changed.

    `calls` lists the calls of both: `[{"tool", "arguments", "what"}]`, where `what` is one of `same`, `late` (the same,
    but after a call which acts and which it came before), `missing` (the recorded run made it), `read` or `write` (only
    the candidate wanted it; it was refused, unless it ran in the sandbox).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    change = models.ForeignKey(Change, on_delete=models.CASCADE, related_name="shadow_runs", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    attempt = models.PositiveIntegerField()
    family = models.TextField(blank=True, default="")
    ended = models.BooleanField(help_text="Whether the candidate came to an end by itself.")
    same = models.PositiveIntegerField(help_text="Calls that the recorded run made too.")
    missing = models.PositiveIntegerField(help_text="Calls that only the recorded run made.")
    new_reads = models.PositiveIntegerField()
    new_writes = models.PositiveIntegerField(help_text="Calls that would have changed something; all were refused.")
    steps_before = models.PositiveIntegerField()
    steps_after = models.PositiveIntegerField()
    tokens_before = models.PositiveBigIntegerField()
    tokens_after = models.PositiveBigIntegerField()
    calls = StoredJson(default=list)
    made_by = models.TextField()
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["change", "attempt", "made_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["change", "attempt", "run"], name="agents_shadowrun_once"),
        ]

    def __str__(self) -> str:
        return f"shadow of {self.run_id}"

    @property
    def diverges(self) -> bool:
        is_late = any(call["what"] == "late" for call in self.calls)
        return bool(self.missing or self.new_reads or self.new_writes or is_late or not self.ended)
