"""What happens in a project that others may want to be told of: announced to its listeners, in its transaction.

Other apps know memory, memory does not know them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import models


class EventKind(models.TextChoices):
    PROPOSAL_WAITING = "proposal.waiting", "A lesson is waiting for review"
    DECISION_MADE = "decision.made", "A decision on a lesson was made"
    APPROVAL_WAITING = "approval.waiting", "A call of an agent is waiting for a decision"
    LESSON_HARMFUL = "lesson.harmful", "A lesson may be harmful: runs that follow it fail"
    RELEASE_CUT = "release.cut", "A release was cut"
    DEPLOYMENT_CHANGED = "deployment.changed", "What agents are given has changed"
    EVALUATION_FINISHED = "evaluation.finished", "An evaluation ended"
    EXPERIMENT_ENDED = "experiment.ended", "An experiment ended: with a verdict, or stopped"
    COMMENT_WRITTEN = "comment.written", "A comment was written on an item of the inbox"
    ITEM_ASSIGNED = "item.assigned", "An item of the inbox was assigned to a person"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectEvent:
    """Something that happened in a project. `details` are codes, ids and numbers, never text."""

    kind: str
    project_id: UUID
    lesson_ids: tuple[UUID, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


_listeners: list[Callable[[ProjectEvent], None]] = []


def add_listener(listen: Callable[[ProjectEvent], None]) -> None:
    """Call a function with every event, inside the transaction that makes it happen."""
    # Apps may be set up more than once in a process, and an event must reach each once.
    if listen not in _listeners:
        _listeners.append(listen)


def announce(event: ProjectEvent) -> None:
    """Tell the listeners of an event. What they write is committed or rolled back with it."""
    for listen in _listeners:
        listen(event)
