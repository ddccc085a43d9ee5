"""Input and output of the evaluation API."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from evaluation.models import EvaluationRun
from evaluation.suites.base import Options
from evaluation.suites.registry import get_suite
from memory.api.fields import Choice, StrictSerializer, Text, Whole

SUITES = ("toolchoice", "replay", "retrieval", "yours")
SMALL = {"limit": 120, "experience": 100}
# Only the command compares runs task by task, and these are a hundred times as long as the rest
LEFT_OUT = ("per_task", "tasks", "learned")


class EvaluateInputSerializer(StrictSerializer):
    """What to evaluate. All members are optional; the default is small, about a minute on two processors."""

    suites = serializers.ListField(
        child=Choice(choices=SUITES), required=False, min_length=1, help_text="Default: toolchoice and replay."
    )
    arms = serializers.ListField(
        child=Text(max_length=60),
        required=False,
        max_length=20,
        help_text="For example `hybrid:5`; default: those of the suite.",
    )
    seed = Whole(required=False, min_value=0, max_value=2**31 - 1)
    seeds = Whole(required=False, min_value=1, max_value=5)
    limit = Whole(required=False, min_value=1, max_value=2000, help_text="Most new tasks; default 120.")
    experience = Whole(required=False, min_value=1, max_value=800, help_text="Most earlier tasks; default 100.")
    k = Whole(required=False, min_value=1, max_value=50, help_text="Lessons to retrieve; default 5.")
    budget_tokens = Whole(required=False, min_value=100, max_value=32_000)


def read_options(values: dict[str, Any], *, project: str) -> Options:
    """Return the options of a request, limited to its project."""
    return Options.from_json(SMALL | values | {"project": project})


class EvaluationRunSerializer(serializers.ModelSerializer[EvaluationRun]):
    """An evaluation: its options, progress and results."""

    units_finished = serializers.SerializerMethodField()
    units_total = serializers.SerializerMethodField()
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
        return sum(map(len, run.units.values()))

    @extend_schema_field(serializers.IntegerField(help_text="Number of parts."))
    def get_units_total(self, run: EvaluationRun) -> int:
        options = Options.from_json(run.configuration)
        return sum(len(get_suite(name).units(options)) for name in run.suites)

    @extend_schema_field(
        {"type": "object", "additionalProperties": True, "description": "The report; empty until the end."}
    )
    def get_results(self, run: EvaluationRun) -> dict[str, Any]:
        if not run.results:
            return {}
        suites = [
            {name: value for name, value in suite.items() if name not in LEFT_OUT} for suite in run.results["suites"]
        ]
        results: dict[str, Any] = run.results | {"suites": suites}
        return results


class EvaluationsSerializer(serializers.Serializer[Any]):
    running = EvaluationRunSerializer(allow_null=True, help_text="The one that is queued or running.")
    finished = EvaluationRunSerializer(allow_null=True, help_text="The newest that finished.")
    failed = EvaluationRunSerializer(allow_null=True, help_text="The newest that failed, if none finished since.")
