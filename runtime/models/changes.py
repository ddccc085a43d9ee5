"""Changes of agents, which are drafts of releases, and one table of what was found out about them and others."""

import hashlib
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memory.api.canonical import canonical_json
from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.releases.models import Release
from memory.retrieval.models import Retrieval
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


class RowKind(models.TextChoices):
    EVOLUTION = "evolution", "An evolution of an agent"
    CANDIDATE = "candidate", "A candidate of an evolution"
    CHECK = "check", "A check of a change"
    REHEARSAL = "rehearsal", "A change on the task of a recorded run"
    ANSWER = "answer", "What a release on trial would have answered"
    MINUTE = "minute", "How many answers of a minute were compared"


class CheckVerdict(models.TextChoices):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped", "There was nothing to check it with"


class ComparisonVerdict(models.TextChoices):
    SAME = "same"
    DIFFERS = "differs"


VERDICTS = ("", *CheckVerdict.values, *ComparisonVerdict.values)


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

    @property
    def checks(self) -> "models.QuerySet[EvaluationRow]":
        """What its checks found."""
        return self.rows.filter(kind=RowKind.CHECK)

    @property
    def rehearsals(self) -> "models.QuerySet[EvaluationRow]":
        """What it did with the tasks of recorded runs."""
        return self.rows.filter(kind=RowKind.REHEARSAL)


class RowsOfKind(models.Manager[Any]):
    """Reads the rows of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(kind=self._kind)


class EvaluationRow(models.Model):
    """One thing that was found out. Never changed; `figures` has what is only true of the kind.

    - evolution: of `agent`, or of the demonstration; `name` is the suite. `sets` counts tasks by set and family,
      `measured` compares the agent before and after with the interval of the difference per task.
    - candidate: `parent` is its evolution, `index` its number, 0 for the agent as it was; `change` was proposed of it.
      `adds` is what it has besides what its parents have. `scores` is empty where a check stopped it before the gate.
    - check: `change`, `attempt`, its place `index`, `name`, `verdict`, and what it saw.
    - rehearsal: `change` on the task of `run`, whose family is `name`. `calls` lists those of both as
      `{"tool", "arguments", "what"}`, where `what` is `same`, `late` (the same, but after a call which acts and which
      it came before), `missing` (the recorded run made it), `read` or `write` (only the change wanted it).
    - answer: what `candidate` and `stable` would have answered to the request of `retrieval`, made `at`. Lessons are
      named by id: `lessons` are the candidate's in order; `added`, `removed` and `reworded` are where they differ.
    - minute: how many answers of the minute `at` were `seen`, `compared`, `dropped` (over the maximum, or too old) and
      `skipped` (they cannot be compared).
    """

    Kind = RowKind

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="+", db_index=False, help_text="Empty for the demo."
    )
    kind = models.TextField(choices=Kind.choices)
    agent = models.ForeignKey(Agent, null=True, on_delete=models.CASCADE, related_name="+")
    change = models.ForeignKey(Change, null=True, on_delete=models.CASCADE, related_name="rows", db_index=False)
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="candidates", db_index=False)
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="+")
    # No foreign key in the database: it would not let a month of answers be dropped.
    retrieval = models.ForeignKey(
        Retrieval, null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    stable = models.ForeignKey(Release, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    candidate = models.ForeignKey(Release, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    attempt = models.PositiveIntegerField(default=0)
    index = models.PositiveIntegerField(default=0, help_text="Its place among those of its kind.")
    name = models.TextField(blank=True, default="")
    verdict = models.TextField(blank=True, default="")
    said = StoredText(blank=True, default="", help_text="What was found, for people.", kept=OF_CHANGES)
    figures = StoredJson(default=dict, blank=True, kept=OF_CHANGES)
    at = models.DateTimeField(null=True, help_text="When what it is about happened or began.")
    made_by = models.TextField()
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-made_at", "-id"]
        constraints = [
            one_of("kind", RowKind, "agents_evaluationrow_kind_known"),
            models.CheckConstraint(condition=Q(verdict__in=VERDICTS), name="agents_evaluationrow_verdict_known"),
            not_blank("made_by", "agents_evaluationrow_by_not_blank"),
            models.CheckConstraint(
                condition=Q(kind="evolution", at__isnull=False)
                | Q(kind="candidate", parent__isnull=False)
                | Q(kind="check", change__isnull=False)
                | Q(kind="rehearsal", change__isnull=False, run__isnull=False)
                | Q(kind="answer", retrieval__isnull=False, stable__isnull=False, candidate__isnull=False)
                | Q(kind="minute", stable__isnull=False, candidate__isnull=False, at__isnull=False),
                name="agents_evaluationrow_fits_kind",
            ),
            models.UniqueConstraint(fields=["parent", "index"], name="agents_evaluationrow_candidate_once"),
            models.UniqueConstraint(
                fields=["change", "attempt", "index"], condition=Q(kind="check"), name="agents_evaluationrow_check_once"
            ),
            models.UniqueConstraint(fields=["change", "attempt", "run"], name="agents_evaluationrow_rehearsal_once"),
            models.UniqueConstraint(fields=["retrieval", "candidate"], name="agents_evaluationrow_answer_once"),
            models.UniqueConstraint(
                fields=["project", "candidate", "stable", "at"],
                condition=Q(kind="minute"),
                name="agents_evaluationrow_minute_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["project", "candidate", "-at", "-id"], condition=Q(kind="answer"), name="agents_row_answers"
            ),
            models.Index(fields=["project", "kind", "-made_at", "-id"], name="agents_row_newest"),
        ]

    def __str__(self) -> str:
        return self.name or f"{self.kind} {self.index}"
