"""The ledger of model calls, what projects spend on them, and which providers answer."""

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Cast, Concat, Replace
from django.utils import timezone

from memory.constraints import one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.stored_text import StoredJson, StoredText
from reflection.jobs.models import Job


class ModelCallQuerySet(models.QuerySet["ModelCall"]):
    """Calls of language models."""

    def erase_words(self) -> int:
        """Erase what the models answered; return how many calls there were. Their costs stay with their jobs."""
        # No question has this hash, so that a job that goes on asks again.
        digits = Replace(Cast("pk", models.CharField()), Value("-"))
        hash_of_none = Concat(Value("erased-"), digits, output_field=models.CharField())
        return self.update(response="", tool_calls=[], received=None, prompt_sha256=hash_of_none)


class ModelCall(models.Model):
    """One answered call to a language model, committed as soon as it came, so that the job need not ask again."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    job = models.ForeignKey(
        Job,
        null=True,
        on_delete=models.CASCADE,
        related_name="model_calls",
        help_text="None: asked by a request.",
        db_index=False,
    )
    subject = models.TextField(
        blank=True, default="", help_text="Where more than one job may ask the same: what they work on."
    )
    step = models.TextField(help_text="What the call was for, for example reflect or reflect:repair.")
    prompt_sha256 = models.CharField(max_length=64)
    provider = models.TextField()
    model = models.TextField()
    response = StoredText(help_text="The model's answer as it came.")
    tool_calls = StoredJson(default=list, blank=True, help_text="The tools it called, in a chat.")
    received = StoredJson(
        null=True, blank=True, help_text="In a chat: the answer with all that the provider wants back as it was."
    )
    finish_reason = models.TextField(blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    latency_ms = models.FloatField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ModelCallQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "subject", "step", "prompt_sha256"], name="reflection_modelcall_recovery_point"
            ),
            models.UniqueConstraint(
                fields=["project", "subject", "step", "prompt_sha256"],
                condition=~Q(subject=""),
                name="reflection_modelcall_subject_recovery_point",
            ),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="reflection_modelcall_recent")]

    def __str__(self) -> str:
        return f"{self.provider} {self.model} {self.step}"


class DailySpend(models.Model):
    """What a project spent on models in one UTC day: reserved before a call, settled after it."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    calls = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)

    class Meta:
        verbose_name_plural = "daily spend"
        ordering = ["-day"]
        constraints = [models.UniqueConstraint(fields=["project", "day"], name="reflection_dailyspend_one_a_day")]

    def __str__(self) -> str:
        return f"{self.day}: {self.tokens} tokens"


class Reservation(models.Model):
    """What a call that is under way may cost at most, set aside on the project's day; deleted when the call has ended.

    One that was left by a worker that died in the call is settled with the answer to the same question.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    spend = models.ForeignKey(DailySpend, on_delete=models.CASCADE, related_name="reservations")
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="+")
    tokens = models.PositiveBigIntegerField()
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.tokens} tokens set aside"


class ProviderStateName(models.TextChoices):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open", "Half open"


class ProviderState(models.Model):
    """Whether a provider answers, as all workers together have seen it (reliability B10); chats count apart.

    After several failures in a row it is not asked (open) until `opened_until`; then one call goes through as a probe
    (half open), whose end decides.
    """

    State = ProviderStateName

    provider = models.TextField(primary_key=True)
    state = models.TextField(choices=State.choices, default=State.CLOSED)
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    opened_until = models.DateTimeField(null=True)
    rest_seconds = models.FloatField(default=0, help_text="How long the next rest is.")
    last_error_code = models.TextField(blank=True, default="")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["provider"]
        constraints = [one_of("state", ProviderStateName, "reflection_providerstate_state_known")]

    def __str__(self) -> str:
        return f"{self.provider}: {self.state}"
