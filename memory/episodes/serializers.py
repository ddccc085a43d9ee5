"""What a project remembers, as clients read it."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memory.api.output import Answer, source


class ScoreHistoryAnswer(Answer):
    """How one agent did on one task family."""

    task_id: Annotated[str, Field(description="The task family; empty for runs that named none.")]
    agent: Annotated[str, Field(description="The agent; empty for runs that named none.")]
    count: Annotated[int, Field(description="Runs with a score.")]
    mean: Annotated[float, Field(description="Their mean score.")]
    best: Annotated[float, Field(description="Their best score.")]
    last: Annotated[list[float], Field(description="The newest ten, newest first.")]
    trend: Annotated[
        float | None,
        Field(
            description="Of the newest twenty scores, the mean of the newer half minus that of the older; null below "
            "two."
        ),
    ]
    newest_at: Annotated[datetime, Field(description="When the newest of these runs was recorded.")]


class MistakeCardSummary(Answer):
    """A mistake and how often it was seen. Only what is `served` is given to agents."""

    id: UUID
    mistake_type: str
    task_id: str
    worker_id: str
    # One that was merged into another is not listed, and orders name lessons alone.
    status: Literal["proposed", "approved", "rejected", "retired"]
    bad_decision: str = source("current_revision", "avoid")
    correct_decision: str = source("current_revision", "guideline")
    lesson: str = source("current_revision", "rationale")
    seen_count: int = source("support", description="Distinct runs, up to a limit per client.")
    first_seen_id: Annotated[UUID | None, Field(description="The first run it was seen in.")]
    last_seen_id: Annotated[UUID | None, Field(description="The newest run it was seen in.")]


class MemorySummaryAnswer(Answer):
    """Counts, scores by task and agent, the mistakes seen most often."""

    counts: Annotated[dict[str, int], Field(description="How many, by kind and status.")]
    scores: list[ScoreHistoryAnswer]
    mistake_cards: list[MistakeCardSummary] = source("cards", description="The ten that were seen most often.")
