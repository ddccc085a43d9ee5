"""Agents: a name, and what the agent was at each time. A revision never changes (runtime/sql/runs.sql)."""

from typing import Self

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Now

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.review.models import AbstractRevision, ReviewKind, ReviewSubject
from memory.stored_text import BY_PEOPLE, OF_CHANGES, StoredJson, StoredText

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"


class ChangesBy(models.TextChoices):
    PEOPLE = "people", "People decide"
    POLICY = "policy", "The policy decides where every check passes"


class AgentQuerySet(models.QuerySet["Agent"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)


class Agent(ReviewSubject):
    """An agent that ERL runs. `current` is the revision that new runs pin.

    Who decides about its changes, and after how many runs ERL looks for some, is no part of a revision: no change of
    the agent can touch it.
    """

    ChangesBy = ChangesBy

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The constraint and the index below begin with the project, so it needs no index of its own.
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = StoredText(kept=BY_PEOPLE)
    description = StoredText(blank=True, default="", kept=BY_PEOPLE)
    current = models.OneToOneField(
        "agents.AgentRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    changes_by = models.TextField(choices=ChangesBy.choices, default=ChangesBy.PEOPLE)
    sleep_after_runs = models.PositiveIntegerField(
        null=True, blank=True, help_text="After so many runs ERL looks for changes; empty for never."
    )
    slept_at = models.DateTimeField(null=True, blank=True, editable=False)
    sleep_said = StoredText(
        blank=True,
        default="",
        editable=False,
        help_text="What its last sleep left out.",
        kept=OF_CHANGES,
    )
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    archived_at = models.DateTimeField(null=True, blank=True, help_text="From then on it starts no more runs.")

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("talk_to_agent", "Can send messages to agents and cancel their runs")]
        constraints = [
            one_of("changes_by", ChangesBy, "agents_agent_changes_by_known"),
            models.CheckConstraint(condition=Q(name__regex=NAME), name="agents_agent_name_is_a_name"),
            models.UniqueConstraint(fields=["project", "name"], name="agents_agent_name_unique"),
        ]
        indexes = [models.Index(fields=["project", "-created_at", "-id"], name="agents_agent_newest")]

    def __str__(self) -> str:
        return self.name

    @property
    def review_kind(self) -> str:
        return ReviewKind.AGENT


class AgentRevision(AbstractRevision):
    """What an agent is: its instructions, model, memory, tools, rules and limits.

    `blocks` names blocks: `[{"label", "block"}]`. `tools` names tools: `[{"name"}]` for those of ERL, with `revision`
    for those of the project. `rules` are read by runtime/rules.py, `limits` by `Limits`, `compaction` by `Compacting`,
    `model_settings` by `ModelSettings`.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    system = StoredText(
        blank=True,
        default="",
        help_text="The instructions.",
        kept=BY_PEOPLE,
    )
    model = models.TextField(blank=True, default="", help_text="Empty for the server's own.")
    window_tokens = models.PositiveIntegerField(default=32_000, help_text="Size of the context window.")
    max_output_tokens = models.PositiveIntegerField(help_text="Of one answer of the model.")
    temperature = models.FloatField(null=True, blank=True)
    model_settings = models.JSONField(default=dict, db_default=Value({}, models.JSONField()), blank=True)
    blocks = StoredJson(default=list, blank=True, kept=BY_PEOPLE)
    tools = StoredJson(default=list, blank=True, kept=BY_PEOPLE)
    rules = StoredJson(default=list, blank=True, kept=BY_PEOPLE)
    limits = models.JSONField(default=dict, blank=True)
    compaction = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["agent", "-number"]
        constraints = [
            not_blank("created_by", "agents_agentrevision_by_not_blank"),
            models.UniqueConstraint(fields=["agent", "number"], name="agents_agentrevision_number_unique"),
            models.UniqueConstraint(fields=["agent", "content_sha256"], name="agents_agentrevision_once"),
            models.CheckConstraint(
                condition=Q(window_tokens__gt=models.F("max_output_tokens"), max_output_tokens__gt=0),
                name="agents_agentrevision_answer_fits",
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.number}"
