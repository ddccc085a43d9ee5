"""A question to retrieval: a task and its options."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memory.projects.actors import Actor
from memory.projects.models import Project

PATIENCE_SECONDS = 1.0  # a part that failed after a longer wait is not followed by another that may wait as long


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which lessons may be considered at all; an empty tuple does not restrict.

    `tags` must all be on the lesson. `task_ids` are families that a lesson is for or, if it is for the whole project,
    was drawn from. `agents` are those whose runs the lesson is drawn from.
    """

    task_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    polarities: tuple[str, ...] = ()


NO_FILTERS = Filters()


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A task and how to choose lessons for it.

    Args:
        task: the new task, in the words the agent was given.
        task_id: its family. Lessons of the family come first among equals; others are not excluded.
        agent: the agent that asks; kept with the answer.
        tools: the names of the tools that it has; None takes those of its newest runs. A lesson that names another
            tool of the project is not given.
        top_k: most lessons to inject; None takes DEFAULT_TOP_K.
        mode: how to choose; None takes ERL_RETRIEVE_MODE. "none" answers nothing, as a control group needs it.
        budget_tokens: size of the whole block; None takes DEFAULT_BUDGET_TOKENS for the lessons and adds the
            record's own budget.
        seed: for mode "random"; None takes the task itself, so that a task always draws the same lessons.
        record: begin the block with what is known of earlier runs: rules, mistakes, scores.
        random_boundary: delimit the block by words that cannot be guessed; its bytes then differ every time.
        session: a conversation, a user, an episode: what stays in one arm of a deployment.
        release_id: answer from this release, in no arm; it has to be kept ready.
        as_of: answer with the lessons that were approved by then and had not ended then, for replays; what
            was withdrawn since is not among them. None is now.
        by: the client that asks, with its key; kept with the answer.
    """

    project: Project
    task: str
    by: Actor
    task_id: str = ""
    agent: str = ""
    tools: tuple[str, ...] | None = None
    top_k: int | None = None
    mode: str | None = None
    budget_tokens: int | None = None
    filters: Filters = NO_FILTERS
    seed: str | None = None
    record: bool = True
    random_boundary: bool = False
    session: str = ""
    release_id: UUID | None = None
    as_of: datetime | None = None
    client: str = ""
    request_id: str = ""
