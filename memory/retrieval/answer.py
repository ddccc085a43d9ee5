"""What retrieval passes around: who was asked what, and the answer."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which lessons may be considered at all; an empty tuple does not restrict.

    `tags` must all be on the lesson. `task_ids` are families that a lesson is for, or, where it is for the whole
    project, was drawn from. `agents` are those whose runs the lesson is drawn from.
    """

    task_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    polarities: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalAnswer:
    """Lessons for a task, best first, and the text to inject.

    `items` are ready for JSON: id, revision, content_sha256, trigger, guideline, avoid, not_when, rationale,
    polarity, task_id, tags, support, scores (by component), reason (one sentence), subtask (the part of the task it
    serves), matched_task, injected (whether it is in the context: it fits the task and the budget); `items_json` is
    their JSON, for who only passes them on. `degraded` says what was not available and is empty when all was. `tokens`
    counts the context.
    """

    retrieval_id: UUID
    mode: str
    degraded: str = ""
    items: list[dict[str, Any]] = field(default_factory=list)
    items_json: str = "[]"
    context: str = ""
    context_sha256: str = ""
    tokens: int = 0
    candidate_count: int = 0
    subtasks: list[str] = field(default_factory=list)
    duration_ms: float = 0.0
    recorded: bool = True
