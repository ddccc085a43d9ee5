"""Input and output of the evaluation API."""

from typing import Annotated, Any, Literal

from drf_spectacular.utils import extend_schema_field
from pydantic import Field
from rest_framework import serializers

from evaluation.models import EvaluationRun
from evaluation.runner import MACHINE, count_units
from evaluation.suites.base import Options
from memory.api.input import WHOLE, Input, Text

SMALL = {"limit": 120, "experience": 100}
# Only the command compares runs task by task, and these are a hundred times as long as the rest
LEFT_OUT = ("per_task", "tasks", "learned")
OF_OPERATOR = (*MACHINE, "agent", "environment")  # places and commands of the operator's machine


class EvaluateInput(Input):
    """What to evaluate. All members are optional; the default is small, about a minute on two processors."""

    suites: Annotated[
        list[Literal["toolchoice", "replay", "retrieval", "yours"]],
        Field(min_length=1, description="Default: toolchoice and replay."),
    ] = Field(default_factory=list)
    arms: Annotated[
        list[Annotated[Text, Field(max_length=60)]],
        Field(max_length=20, description="For example `hybrid:5`; default: those of the suite."),
    ] = Field(default_factory=list)
    seed: Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE] = 0
    seeds: Annotated[int, Field(ge=1, le=5), WHOLE] = 0
    limit: Annotated[int, Field(ge=1, le=2000, description="Maximum number of new tasks; default 120."), WHOLE] = 0
    experience: Annotated[
        int, Field(ge=1, le=800, description="Maximum number of earlier tasks; default 100."), WHOLE
    ] = 0
    k: Annotated[int, Field(ge=1, le=50, description="Lessons to retrieve; default 5."), WHOLE] = 0
    budget_tokens: Annotated[int, Field(ge=100, le=32_000), WHOLE] = 0


def read_options(values: dict[str, Any], *, project: str) -> Options:
    """Return the options of a request, limited to its project."""
    return Options.from_json(SMALL | values | {"project": project})


class EvaluationRunSerializer(serializers.ModelSerializer[EvaluationRun]):
    """An evaluation: its options, progress and results."""

    units_finished = serializers.SerializerMethodField()
    units_total = serializers.SerializerMethodField()
    configuration = serializers.SerializerMethodField()
    results = serializers.SerializerMethodField()

    class Meta:
        model = EvaluationRun
        fields = [
            "id",
            "status",
            "suites",
            "configuration",
            "versions",
            "units_finished",
            "units_total",
            "results",
            "failure",
            "requested_by",
            "created_at",
            "finished_at",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.IntegerField(help_text="Number of finished parts: seeds, data sets."))
    def get_units_finished(self, run: EvaluationRun) -> int:
        return count_units(run)[0]

    @extend_schema_field(serializers.IntegerField(help_text="Number of parts."))
    def get_units_total(self, run: EvaluationRun) -> int:
        return count_units(run)[1]

    @extend_schema_field({"type": "object", "additionalProperties": True})
    def get_configuration(self, run: EvaluationRun) -> dict[str, Any]:
        return _without(run.configuration, OF_OPERATOR)

    @extend_schema_field(
        {"type": "object", "additionalProperties": True, "description": "The report; empty until the end."}
    )
    def get_results(self, run: EvaluationRun) -> dict[str, Any]:
        if not run.results:
            return {}
        suites = [_without(suite, LEFT_OUT) for suite in run.results["suites"]]
        asked = {"configuration": _without(run.results.get("configuration", {}), OF_OPERATOR)}
        results: dict[str, Any] = run.results | {"suites": suites} | asked
        return results


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


class EvaluationsSerializer(serializers.Serializer[Any]):
    running = EvaluationRunSerializer(allow_null=True, help_text="The one that is queued or running.")
    finished = EvaluationRunSerializer(allow_null=True, help_text="The newest that finished.")
    failed = EvaluationRunSerializer(allow_null=True, help_text="The newest that failed, if none finished since.")
