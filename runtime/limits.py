"""What an agent's revision says about its limits, and the defaults."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from memory.api.input import WHOLE, Dollars, Input
from memory.limits import MAX_BUDGET_TOKENS, MAX_TOP_K

DEFAULT_MAX_STEPS = 50
MAX_STEPS = 10_000
DEFAULT_MAX_SECONDS = 3_600
DEFAULT_APPROVAL_SECONDS = 7 * 86_400
YEAR_SECONDS = 366 * 86_400
LEAST_BUDGET_TOKENS = 100
USUAL_OUTPUT_TOKENS = 8_000
THINKING_OUTPUT_TOKENS = 16_000  # what it thinks counts as output


Price = Annotated[
    Dollars,
    Field(gt=0),
    WithJsonSchema({"type": "number", "format": "double", "exclusiveMinimum": 0, "exclusiveMaximum": 100_000_000}),
]


class Limits(Input):
    """How much one run may use."""

    max_steps: Annotated[
        Annotated[int, Field(ge=1, le=MAX_STEPS), WHOLE], Field(description="Questions to the model in one run.")
    ] = DEFAULT_MAX_STEPS
    max_tokens: Annotated[
        Annotated[int, Field(ge=1, le=10**12), WHOLE] | None, Field(description="Tokens in one run, read and written.")
    ] = None
    max_cost_usd: Annotated[
        Price | None,
        Field(
            description="What one run may cost, in US dollars, more than 0. Digits below a millionth are dropped. It "
            "ends before the first question after which it has cost as much."
        ),
    ] = None
    max_seconds: Annotated[
        Annotated[int, Field(ge=1, le=YEAR_SECONDS), WHOLE] | None,
        Field(description="How long one run may take. The time that it waits for a person does not count."),
    ] = DEFAULT_MAX_SECONDS
    approval_seconds: Annotated[
        Annotated[int, Field(ge=1, le=YEAR_SECONDS), WHOLE],
        Field(description="A call that nobody has decided on for so long is rejected."),
    ] = DEFAULT_APPROVAL_SECONDS


class Compacting(Input):
    """When and how far a long conversation is shortened in the prompt."""

    at: Annotated[float, Field(ge=0.3, le=1, description="The share of the window from which it is.")] = 0.9
    keep_results: Annotated[
        Annotated[int, Field(ge=0, le=1000), WHOLE],
        Field(description="How many of the newest tool results stay whole."),
    ] = 10
    summarise: Annotated[str, Field(pattern="^(auto|model|extract)$", description="Who writes summaries.")] = "auto"


class ModelSettings(Input):
    """How the model is asked. What it does not know is left out."""

    thinking: Annotated[
        Literal["off", "minimal", "low", "medium", "high", "max"] | None,
        Field(description="How much it thinks before it answers; without it, as much as is usual for the model."),
    ] = None
    tool_choice: Annotated[
        str,
        Field(
            max_length=100,
            description="Whether it calls tools: `auto`, `none`, `required`, or the name of the one that it must call.",
        ),
    ] = "auto"
    parallel_tool_calls: Annotated[
        bool | None, Field(description="Whether one answer may call several tools; without it, as is usual.")
    ] = None
    cache: Annotated[
        bool, Field(description="Whether the provider may keep the beginning of the prompt, where it asks to be told.")
    ] = True
    output_schema: Annotated[
        dict[str, Any] | None,
        Field(description="A JSON schema, of an object. The reply of a run is then JSON that fits it."),
    ] = None


def usual_output_tokens(window_tokens: int, settings: ModelSettings) -> int:
    """Return how long an answer may be where an agent says nothing about it, and leave room for the prompt."""
    if settings.thinking in (None, "off"):
        return min(USUAL_OUTPUT_TOKENS, window_tokens // 4)
    return min(THINKING_OUTPUT_TOKENS, window_tokens // 2)


class Retrieving(Input):
    """How many lessons the runs of the project are given. What is left out stays as it is."""

    top_k: Annotated[
        Annotated[int, Field(ge=1, le=MAX_TOP_K), WHOLE] | None, Field(description="Maximum number of lessons.")
    ] = None
    context_budget_tokens: Annotated[
        Annotated[int, Field(ge=LEAST_BUDGET_TOKENS, le=MAX_BUDGET_TOKENS), WHOLE] | None,
        Field(description="Maximum size of the block with lessons."),
    ] = None


def written(limits: Limits) -> dict[str, object]:
    """Return limits as JSON that is the same for the same limits."""
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in limits.model_dump().items()}
