"""Input and output of the evaluation API."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from evaluation.models import EvaluationRun
from evaluation.runner import MACHINE
from evaluation.suites.base import Options
from memory.api.input import WHOLE, Input, OneOf, Text
from memory.api.output import Answer

SMALL = {"limit": 120, "experience": 100}
# Only the command compares runs task by task, and these are a hundred times as long as the rest
LEFT_OUT = ("per_task", "tasks", "learned")
OF_OPERATOR = (*MACHINE, "agent", "environment")  # places and commands of the operator's machine


class EvaluateInput(Input):
    """What to evaluate. All members are optional; the default is small, about a minute on two processors."""

    suites: Annotated[
        list[Literal["toolchoice", "replay", "retrieval", "reflection", "yours"]],
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


class EvaluationRunAnswer(Answer):
    """An evaluation: its options, progress and results."""

    id: UUID
    status: Annotated[str, OneOf(EvaluationRun.Status)]
    suites: list[str]
    configuration: dict[str, Any]
    versions: dict[str, Any]
    units_finished: Annotated[int, Field(description="Number of finished parts: seeds, data sets.")]
    units_total: Annotated[int, Field(description="Number of parts.")]
    results: Annotated[dict[str, Any], Field(description="The report; empty until the end.")]
    failure: str
    requested_by: str
    created_at: datetime
    finished_at: datetime | None

    @field_validator("configuration", mode="before")
    @classmethod
    def _leave_out_places(cls, configuration: dict[str, Any]) -> dict[str, Any]:
        return _without(configuration, OF_OPERATOR)

    @field_validator("results", mode="before")
    @classmethod
    def _leave_out_details(cls, results: dict[str, Any] | None) -> dict[str, Any]:
        if not results:
            return {}
        suites = [_without(suite, LEFT_OUT) for suite in results["suites"]]
        return results | {
            "suites": suites,
            "configuration": _without(results.get("configuration", {}), OF_OPERATOR),
        }


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


class EvaluationsAnswer(BaseModel):
    """The newest evaluations of a project."""

    running: Annotated[EvaluationRunAnswer | None, Field(description="The one that is queued or running.")]
    finished: Annotated[EvaluationRunAnswer | None, Field(description="The newest that finished.")]
    failed: Annotated[EvaluationRunAnswer | None, Field(description="The newest that failed, if none finished since.")]
