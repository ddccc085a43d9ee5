"""Finished runs."""

from typing import Any, Self

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left, Now
from django.utils.text import Truncator

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.limits import MAX_NAME_CHARS
from memory.projects.models import ApiKey, Project
from memory.runs.episode import Action, Episode, EpisodeStep
from memory.runs.limits_reached import limit_reached
from memory.runs.tools import describe_tools, tool_names
from memory.stored_text import StoredArray, StoredJson, StoredText

# When the last words of a run came: one that is recorded in parts may begin long before they do.
LAST_WORDS_AT = Coalesce("appended_at", "created_at")
# Runs of one conversation share it: ERL's own agents and clients, traces, and sessions of coding agents name it so.
CONVERSATION_NAMES = ("conversation", "session", "session_id")
CONVERSATION = Left(Coalesce(*(KT(f"metadata__{name}") for name in CONVERSATION_NAMES)), MAX_NAME_CHARS)


class TrajectoryQuerySet(models.QuerySet["Trajectory"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)


class TrajectoryOutcome(models.TextChoices):
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class TrajectoryOutcomeSource(models.TextChoices):
    ENVIRONMENT = "environment"
    TEST = "test"
    HUMAN = "human"
    JUDGE = "judge"
    AGENT = "agent"


class SystemPrompt(models.Model):
    """What agents were told before their runs: each text once in a project, without secrets.

    It goes with the last run that was told it (`memory/sql/runs.sql`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha256 = models.TextField(editable=False)
    text = StoredText()

    class Meta:
        constraints = [
            not_blank("text", "memory_systemprompt_text_not_blank"),
            models.UniqueConstraint(fields=["project", "sha256"], name="memory_systemprompt_once"),
        ]

    def __str__(self) -> str:
        return Truncator(self.text).chars(80)


class Trajectory(models.Model):
    """One run of an agent: its task, its steps and how it ended."""

    Outcome = TrajectoryOutcome
    OutcomeSource = TrajectoryOutcomeSource

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="trajectories", db_index=False)
    external_id = StoredText(blank=True, default="", help_text="The agent's own id of this run.")
    task = StoredText()
    task_id = StoredText(blank=True, default="", help_text="Task family.")
    user_id = StoredText(blank=True, default="", db_default="", help_text="The client's own id of its end user.")
    steps = StoredJson(default=list, blank=True)
    stated_step_count = models.PositiveIntegerField(
        null=True, blank=True, help_text="How many steps it had, where they were not sent."
    )
    outcome = models.TextField(choices=Outcome.choices, default=Outcome.UNKNOWN)
    score = models.FloatField(null=True, blank=True)
    outcome_source = models.TextField(choices=OutcomeSource.choices, default=OutcomeSource.AGENT)
    agent = StoredText(blank=True, default="")
    model = StoredText(blank=True, default="")
    tags = StoredArray(models.TextField(), default=list, blank=True)
    summary = StoredText(blank=True, default="")
    mistakes = StoredArray(models.TextField(), default=list, blank=True)
    successes = StoredArray(models.TextField(), default=list, blank=True)
    mistake_cards = StoredJson(default=list, blank=True)
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    tools = StoredJson(default=list, blank=True, help_text="Names or JSON schemas of the tools on offer.")
    system_prompt = models.ForeignKey(
        SystemPrompt,
        null=True,
        blank=True,
        on_delete=models.RESTRICT,
        related_name="runs",
        db_index=False,
        help_text="What the agent was told before the run.",
    )
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="children",
        help_text="What called it.",
        db_index=False,
    )
    is_open = models.BooleanField(default=False, help_text="More steps may come, and the outcome is still to be told.")
    appended_at = models.DateTimeField(null=True, blank=True, editable=False)
    spans = StoredJson(
        default=list, blank=True, editable=False, help_text="Trace spans of an open run, from which its steps are read."
    )
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    metadata = StoredJson(default=dict, blank=True)
    redactions = StoredJson(default=dict, blank=True, editable=False)
    retrieval = models.ForeignKey(
        "memory.Retrieval",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="trajectories",
        db_constraint=False,
        db_index=False,
    )
    client = StoredText(blank=True, default="", editable=False)
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    request_id = StoredText(blank=True, default="", editable=False)
    # By the database's clock, as in quarantine, not the recording machine's.
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    outcome_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TrajectoryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "trajectories"
        ordering = ["-created_at", "-id"]
        constraints = [
            not_blank("task", "memory_trajectory_task_not_blank"),
            one_of("outcome", TrajectoryOutcome, "memory_trajectory_outcome_known"),
            one_of("outcome_source", TrajectoryOutcomeSource, "memory_trajectory_source_known"),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1),
                name="memory_trajectory_score_0_to_1",
            ),
            models.CheckConstraint(
                condition=Q(cost_usd__isnull=True) | Q(cost_usd__gte=0),
                name="memory_trajectory_cost_positive",
            ),
            models.UniqueConstraint(
                fields=["project", "external_id"],
                condition=~Q(external_id=""),
                name="memory_trajectory_external_id_unique",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="memory_trajectory_recent"),
            models.Index(fields=["project", "task_id", "-created_at"], name="memory_trajectory_family"),
            models.Index(
                fields=["project", "task_id", "agent", "-created_at"],
                # So that score histories are read from the index alone.
                include=["score", "outcome"],
                name="memory_trajectory_scores",
            ),
            models.Index(fields=["retrieval"], name="memory_trajectory_guided", condition=Q(retrieval__isnull=False)),
            models.Index(fields=["created_at"], name="memory_trajectory_open", condition=Q(is_open=True)),
            models.Index(
                fields=["project", "user_id", "-created_at"],
                name="memory_trajectory_of_user",
                condition=~Q(user_id=""),
            ),
            models.Index(fields=["parent"], name="memory_trajectory_parent", condition=Q(parent__isnull=False)),
            models.Index(
                fields=["system_prompt"], name="memory_trajectory_told", condition=Q(system_prompt__isnull=False)
            ),
            models.Index(
                F("project"),
                CONVERSATION,
                name="memory_trajectory_turns",
                condition=Q(metadata__has_any_keys=[*CONVERSATION_NAMES]),
            ),
            GinIndex(fields=["tags"], name="memory_trajectory_tags"),
        ]

    def __str__(self) -> str:
        return Truncator(self.task).chars(80)

    @property
    def number_of_steps(self) -> int:
        """How many steps the run had: those that are kept, or as many as it said."""
        return len(self.steps) or self.stated_step_count or 0

    @property
    def conversation(self) -> str:
        """What the run's conversation is named, "" where it is in none."""
        name = next((self.metadata[key] for key in CONVERSATION_NAMES if self.metadata.get(key) is not None), "")
        return name[:MAX_NAME_CHARS] if isinstance(name, str) else ""

    def read_steps(self) -> tuple[EpisodeStep, ...]:
        """Return the steps in the form that a reflector reads."""
        return tuple(_step(raw) for raw in self.steps)

    def as_episode(self, *, injected: tuple[str, ...] = ()) -> Episode:
        """Return this run in the form that a reflector reads."""
        return Episode(
            task=self.task,
            steps=self.read_steps(),
            outcome=self.outcome,
            score=self.score,
            outcome_source=self.outcome_source,
            task_id=self.task_id,
            agent=self.agent,
            tags=tuple(self.tags),
            summary=self.summary,
            mistakes=tuple(self.mistakes),
            successes=tuple(self.successes),
            mistake_cards=tuple(self.mistake_cards),
            injected=injected,
            tools=tuple(tool_names(self.tools)),
            offered=tuple(describe_tools(self.tools)),
            system_prompt=self.system_prompt.text if self.system_prompt else "",
            cut_off=limit_reached(self.metadata),
        )


def _step(raw: dict[str, Any]) -> EpisodeStep:
    action = raw.get("action")
    return EpisodeStep(
        index=raw["index"],
        thought=raw.get("thought", ""),
        action=Action(name=action["name"], arguments=action.get("arguments", {})) if action else None,
        observation=raw.get("observation", ""),
        error=raw.get("error", ""),
    )
