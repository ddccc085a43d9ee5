"""Trajectories as clients send and read them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from memory.api.fields import (
    MAX_TASK_CHARS,
    Choice,
    Flag,
    Id,
    JsonObject,
    Money,
    Name,
    Number,
    OptionalText,
    StrictSerializer,
    Tags,
    Text,
    Texts,
    Whole,
)
from memory.errors import InvalidSteps
from memory.intake.step_serializers import MessagesField, StepSerializer, StepsField
from memory.runs.chat_messages import opening_message
from memory.runs.models import Trajectory

SUCCESS_FROM, FAILURE_BELOW = 0.85, 0.5  # Sentinel's thresholds (reference: c.9); between them nothing is claimed
MAX_TOKENS = 2**53
MAX_STEPS = 2**31 - 1


class MistakeCardSerializer(StrictSerializer):
    """A mistake in a fixed form, so that its repetitions can be counted."""

    mistake_type = Name(required=True, allow_blank=False, help_text="What kind of mistake it is, in a word or two.")
    task_id = Name(help_text="The task family; that of the run if left out.")
    worker_id = Name(help_text="Which agent, or part of one, made it; the run's agent if left out.")
    bad_decision = OptionalText(max_length=8_000)
    correct_decision = OptionalText(max_length=8_000)
    evidence = OptionalText(max_length=8_000)
    lesson = OptionalText(max_length=8_000)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        said = ("bad_decision", "correct_decision", "lesson")
        if not any(attrs.get(name, "").strip() for name in said):
            raise serializers.ValidationError(
                {"lesson": ["Say what was decided wrongly, what would have been right, or the lesson."]}
            )
        return attrs


class OutcomeFields(StrictSerializer):
    """How a run ended."""

    outcome = Choice(
        choices=Trajectory.Outcome.choices,
        required=False,
        help_text="If it is left out the score decides: success from 0.85, failure below 0.5, else unknown.",
    )
    score = Number(
        min_value=0, max_value=1, required=False, allow_null=True, help_text="How well it went, from 0 to 1."
    )
    outcome_source = Choice(
        choices=Trajectory.OutcomeSource.choices, required=False, help_text="Who says so; the agent itself if left out."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        outcome, score = attrs.get("outcome"), attrs.get("score")
        if outcome is None and score is not None:
            attrs["outcome"] = outcome_of(score)
        if (outcome, score) in ((Trajectory.Outcome.SUCCESS, 0.0), (Trajectory.Outcome.FAILURE, 1.0)):
            raise serializers.ValidationError(
                {"outcome": [f"A {outcome} cannot have the score {score}. Correct one of the two."]}
            )
        return attrs


class TrajectoryInputSerializer(OutcomeFields):
    """A finished run to record."""

    task = Text(
        max_length=MAX_TASK_CHARS,
        required=False,
        help_text="What the run was asked to do. A chat log says so itself: its first user message is the task then. "
        "Else the `task_id` stands for it.",
    )
    task_id = Name(help_text="The task family, such as `airline.cancel`.")
    steps = StepsField(required=False, help_text="What the agent did, in order, or the chat log of it.")
    messages = MessagesField(required=False, help_text="The chat log, in place of steps.")
    step_count = Whole(
        min_value=0,
        max_value=MAX_STEPS,
        required=False,
        allow_null=True,
        help_text="How many steps the run had, where the steps are not sent.",
    )
    agent = Name(help_text="Which agent ran.")
    model = Name(help_text="Which language model it ran on.")
    tags = Tags(help_text="Words to filter by.")
    summary = OptionalText(max_length=20_000, help_text="The run in a few sentences.")
    mistakes = Texts(help_text="What went wrong, a sentence each.")
    successes = Texts(help_text="What went well, a sentence each.")
    mistake_cards = MistakeCardSerializer(many=True, required=False, max_length=200)  # type: ignore[call-arg]
    tokens = Whole(
        min_value=0, max_value=MAX_TOKENS, required=False, allow_null=True, help_text="Model tokens the run used."
    )
    cost_usd = Money(required=False, allow_null=True, help_text="What the run cost, in US dollars.")
    external_id = Name(
        help_text="Your own id of the run, unique in the project. Recording the same run again changes nothing."
    )
    metadata = JsonObject(required=False, help_text="Whatever else you want to keep with it.")
    retrieval_id = Id(
        required=False,
        allow_null=True,
        help_text="The answer of POST /retrieve that the run was given: its outcome measures those lessons.",
    )
    reflect = Flag(
        required=False,
        allow_null=True,
        default=None,
        help_text="Whether to queue a reflection; null leaves it to the project.",
    )

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        return {name: fields[name] for name in ("task", "task_id", "steps", "messages", *fields)}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if "messages" in attrs:
            if "steps" in attrs:
                raise serializers.ValidationError({"messages": ["Send either steps or messages, not both."]})
            attrs["steps"] = {"messages": attrs.pop("messages")}
        if "task" not in attrs:
            attrs["task"] = _task_of(attrs.get("steps"), task_id=attrs.get("task_id", ""))
        stated = attrs.pop("step_count", None)
        if stated is not None:
            if attrs.get("steps"):
                raise serializers.ValidationError(
                    {"step_count": ["Leave this out where the steps are sent: they are counted."]}
                )
            attrs["stated_step_count"] = stated
        return attrs


class OutcomeInputSerializer(OutcomeFields):
    """How a run ended, known only after it was recorded."""

    reflect = Flag(
        required=False,
        allow_null=True,
        default=None,
        help_text="Whether to queue a reflection; null leaves it to the project.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("outcome") is None and attrs.get("score") is None:
            raise serializers.ValidationError({"outcome": ["Send the outcome, the score or both."]})
        return super().validate(attrs)


class TrajectoryLinksSerializer(serializers.Serializer[Any]):
    reflections = serializers.CharField(help_text="The reflections on this run.")


class TrajectoryItemSerializer(serializers.ModelSerializer[Trajectory]):
    """A run in a list: all but its steps."""

    step_count = serializers.IntegerField(read_only=True)
    cost_usd = Money(allow_null=True, read_only=True)
    mistake_cards = MistakeCardSerializer(many=True, read_only=True)
    metadata = JsonObject(read_only=True)
    redactions = serializers.DictField(
        child=serializers.IntegerField(), read_only=True, help_text="What was taken out, by kind."
    )
    retrieval_id = serializers.UUIDField(read_only=True, allow_null=True)

    class Meta:
        model = Trajectory
        fields = [
            "id",
            "external_id",
            "task",
            "task_id",
            "outcome",
            "score",
            "outcome_source",
            "agent",
            "model",
            "tags",
            "summary",
            "mistakes",
            "successes",
            "mistake_cards",
            "tokens",
            "cost_usd",
            "metadata",
            "redactions",
            "retrieval_id",
            "client",
            "created_at",
            "outcome_at",
            "step_count",
        ]
        read_only_fields = fields


class TrajectorySerializer(TrajectoryItemSerializer):
    """A run with its steps in normal form."""

    step_count = serializers.SerializerMethodField()  # type: ignore[assignment]
    steps = serializers.SerializerMethodField()
    links = serializers.SerializerMethodField()

    class Meta(TrajectoryItemSerializer.Meta):
        fields = [*TrajectoryItemSerializer.Meta.fields, "steps", "links"]
        read_only_fields = fields

    def get_step_count(self, trajectory: Trajectory) -> int:
        return trajectory.number_of_steps

    @extend_schema_field(StepSerializer(many=True))
    def get_steps(self, trajectory: Trajectory) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = trajectory.steps  # in normal form since they were recorded
        return steps

    @extend_schema_field(TrajectoryLinksSerializer)
    def get_links(self, trajectory: Trajectory) -> dict[str, str]:
        # The reflections belong to another app, which this one does not know: only the address is shared.
        root = reverse("api:trajectory-list").removesuffix("trajectories")
        return {"reflections": f"{root}reflections?trajectory={trajectory.pk}"}


def outcome_of(score: float) -> str:
    """Name the outcome that a score alone stands for."""
    if score >= SUCCESS_FROM:
        return Trajectory.Outcome.SUCCESS
    return Trajectory.Outcome.FAILURE if score < FAILURE_BELOW else Trajectory.Outcome.UNKNOWN


def _task_of(steps: Any, *, task_id: str) -> str:
    """Take what a chat log was asked to do as the task, or the name of the family, where no task is named."""
    messages = steps.get("messages") if isinstance(steps, dict) else steps
    if isinstance(messages, list):
        try:
            task = opening_message(messages)
        except InvalidSteps:
            task = ""  # the service says what is wrong with the steps
        if task.strip():
            return task[:MAX_TASK_CHARS]
    if task_id.strip():
        return task_id
    raise serializers.ValidationError({"task": ["Say what the run was asked to do."]})
