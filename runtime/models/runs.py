"""Runs, their steps and their events."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.constraints import one_of
from memory.ids import uuid7
from memory.projects.models import ApiKey, Project
from memory.releases.models import Release
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.stored_text import StoredJson, StoredText
from reflection.llm.models import ModelCall
from runtime.models.agents import Agent, AgentRevision
from runtime.models.conversations import Compaction, Conversation

KIND = "agent_run"  # of the jobs that go on with runs


class RunStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting", "Waiting for a person"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WaitsFor(models.TextChoices):
    NOTHING = "", "Nothing"
    WORKER = "worker", "A worker"
    MODEL = "model", "Its model"
    LATER = "later", "The next try, or tomorrow's budget"
    PERSON = "person", "A person"


class StopReason(models.TextChoices):
    NONE = "", "It goes on"
    END_TURN = "end_turn", "The agent has finished"
    TOOL_RULE = "tool_rule", "A rule ended it after a tool"
    CANCELLED = "cancelled", "Cancelled"
    MAX_STEPS = "max_steps", "No steps left"
    MAX_TOKENS = "max_tokens", "No tokens left"
    MAX_COST = "max_cost", "No money left"
    MAX_SECONDS = "max_seconds", "No time left"
    REQUIRED_TOOL = "required_tool_missing", "A tool that has to be called was not"
    CONTEXT_OVERFLOW = "context_overflow", "The prompt does not fit into the context window"
    INVALID_ANSWER = "invalid_answer", "The model's answers could not be used"
    EMPTY_ANSWER = "empty_answer", "The model answered with nothing"
    CUT_OFF = "answer_cut_off", "The model's answer was cut off"
    REFUSED = "refused", "The model refused to answer"
    FILTERED = "filtered", "The provider's content filter stopped the answer"
    NO_PROGRESS = "no_progress", "The same call again and again"
    MODEL_FAILED = "model_failed", "The model could not be asked"
    WORKER_LOST = "worker_lost", "Its workers died again and again"
    ERROR = "error", "An unexpected error"


class RunQuerySet(models.QuerySet["Run"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def live(self) -> Self:
        return self.filter(status__in=Run.LIVE)


class Run(models.Model):
    """One turn of an agent: from a message of the user until the agent has finished.

    It pins what it is made of, so that another version of ERL can go on with it: the revision of the agent, the lessons
    (`retrieval`, with its release and arm), the head of the prompt and the tools in the form that the model reads.
    """

    Status = RunStatus
    StopReason = StopReason
    LIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="runs", db_index=False)
    revision = models.ForeignKey(AgentRevision, on_delete=models.CASCADE, related_name="runs")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="runs")
    resumes = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="resumed_by")
    status = models.TextField(choices=Status.choices, default=Status.QUEUED)
    stop_reason = models.TextField(choices=StopReason.choices, blank=True, default="")
    error = StoredText(blank=True, default="", help_text="What went wrong, for people.")
    task = StoredText(help_text="What the agent is to do, in the user's words.")
    task_id = models.TextField(blank=True, default="", help_text="Task family.")
    # No foreign key in the database: it would not let a month of answers be dropped.
    retrieval = models.ForeignKey(
        Retrieval, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    release = models.ForeignKey(Release, null=True, on_delete=models.SET_NULL, related_name="+")
    arm = models.TextField(blank=True, default="")
    head = StoredText(blank=True, default="", help_text="The beginning of every prompt.")
    tools = StoredJson(default=list, blank=True, help_text="The tools as the model reads them.")
    trajectory = models.OneToOneField(Trajectory, null=True, on_delete=models.SET_NULL, related_name="agent_run")
    max_steps = models.PositiveIntegerField()
    max_tokens = models.PositiveBigIntegerField(null=True)
    max_cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    max_seconds = models.PositiveIntegerField(null=True)
    approval_seconds = models.PositiveIntegerField(help_text="After so long without a decision, a call is rejected.")
    steps_taken = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    waited_seconds = models.FloatField(default=0, help_text="For people; it does not count as its time.")
    waiting_since = models.DateTimeField(null=True)
    events_written = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    created_by = models.TextField()
    client = models.TextField(blank=True, default="")
    api_key = models.ForeignKey(ApiKey, null=True, on_delete=models.SET_NULL, related_name="+")
    request_id = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    prepared_at = models.DateTimeField(null=True, help_text="When head, tools and lessons were fixed.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("status", RunStatus, "agents_run_status_known"),
            one_of("stop_reason", StopReason, "agents_run_stop_reason_known"),
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(status__in=["queued", "running", "waiting"]),
                name="agents_run_one_live",
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=["queued", "running", "waiting"],
                    finished_at__isnull=True,
                    stop_reason="",
                    trajectory__isnull=True,
                )
                | (Q(status__in=["succeeded", "failed", "cancelled"], finished_at__isnull=False) & ~Q(stop_reason="")),
                name="agents_run_end_is_known",
            ),
            models.CheckConstraint(
                condition=Q(status="waiting", waiting_since__isnull=False)
                | (~Q(status="waiting") & Q(waiting_since__isnull=True)),
                name="agents_run_waits_since",
            ),
            models.CheckConstraint(
                condition=Q(steps_taken=0) | Q(prepared_at__isnull=False), name="agents_run_prepared_before_steps"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at", "-id"], name="agents_run_newest"),
            models.Index(fields=["agent", "-created_at", "-id"], name="agents_run_of_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.status} run {self.id}"

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class StepStatus(models.TextChoices):
    ASKING = "asking", "The model is asked"
    ANSWERED = "answered"


class Step(models.Model):
    """One question to the model and its answer.

    The prompt is the run's head and tools, then the conversation up to message `through`, shown as `compaction` says.
    From these the very bytes can be built again; `prompt_sha256` is their hash.
    """

    Status = StepStatus

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps", db_index=False)
    seq = models.PositiveIntegerField()
    status = models.TextField(choices=Status.choices, default=Status.ASKING)
    through = models.PositiveIntegerField(help_text="The last message that the model reads.")
    compaction = models.ForeignKey(Compaction, null=True, on_delete=models.SET_NULL, related_name="+")
    prompt_sha256 = models.CharField(max_length=64)
    request_sha256 = models.CharField(max_length=64)
    prompt_tokens = models.PositiveIntegerField(default=0, help_text="Estimated.")
    head = StoredText(null=True, help_text="The beginning of its prompt, where the run's has changed since.")
    max_output_tokens = models.PositiveIntegerField(null=True, help_text="Of the answer; empty for the agent's own.")
    model_call = models.ForeignKey(ModelCall, null=True, on_delete=models.SET_NULL, related_name="+")
    model = models.TextField(blank=True, default="")
    finish_reason = models.TextField(blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    fence = models.PositiveIntegerField(help_text="The attempt that began it.")
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["run", "seq"]
        constraints = [
            one_of("status", StepStatus, "agents_step_status_known"),
            models.UniqueConstraint(fields=["run", "seq"], name="agents_step_seq_unique"),
            # A step without an answer is asked again; there is never a second one.
            models.UniqueConstraint(fields=["run"], condition=Q(status="asking"), name="agents_step_one_asking"),
            models.CheckConstraint(
                condition=Q(status="asking", finished_at__isnull=True)
                | Q(status="answered", finished_at__isnull=False),
                name="agents_step_end_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.seq}"


class Event(models.Model):
    """What happened in a run, in order: what a stream sends, with the texts of what an event is about.

    The numbers have no gaps, and become visible in their order.
    """

    # Events are read by run and number only, so a key of their own would be of no use.
    pk = models.CompositePrimaryKey("run", "seq")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    kind = models.TextField()
    payload = StoredJson(default=dict)  # ids and small values, as of that moment
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["run", "seq"]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
