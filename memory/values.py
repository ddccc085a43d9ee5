"""Value objects that travel between services: an episode as a reflector reads it, and a lesson as it is proposed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

    from memory.models import ApiKey

# Sections of the record in the context block, in the order they are written, and most lines of each.
RECORD_SIZES: dict[str, int] = {
    "task_rules": 5,
    "general_rules": 3,
    "mistakes": 3,
    "mistake_cards": 3,
    "recent_outcomes": 5,
    "mean_score": 1,
}
MAX_RECORD_SIZE = 50

# A heuristic with this tag is a rule: it is for every task of its family, or of the project, and needs no search.
RULE_TAG = "rule"


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """A tool call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a run. `index` counts from 1. Texts are "" where the agent said nothing."""

    index: int
    thought: str = ""
    action: Action | None = None
    observation: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """A finished run, free of the database: what a reflector may read.

    `score` is 0–1 or None when not known. `injected` holds the texts of lessons this run was given, which may not
    come back as lessons of its own.
    """

    task: str
    steps: tuple[Step, ...] = ()
    outcome: str = "unknown"
    score: float | None = None
    outcome_source: str = ""
    task_id: str = ""
    agent: str = ""
    tags: tuple[str, ...] = ()
    summary: str = ""
    mistakes: tuple[str, ...] = ()
    successes: tuple[str, ...] = ()
    mistake_cards: tuple[dict[str, Any], ...] = ()
    injected: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LessonText:
    """What a heuristic says. Only `trigger` and `guideline` are required."""

    trigger: str
    guideline: str
    avoid: str = ""
    not_when: str = ""
    rationale: str = ""
    polarity: str = "mixed"
    scope: str = "task_family"
    task_id: str = ""
    tags: tuple[str, ...] = ()
    source_task: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MistakeText:
    """What a mistake card says. It says at least one of `bad_decision`, `correct_decision` and `lesson`."""

    mistake_type: str
    task_id: str = ""
    worker_id: str = ""
    bad_decision: str = ""
    correct_decision: str = ""
    evidence: str = ""
    lesson: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """Where in a run a lesson comes from: steps `first_step` to `last_step`, both counted from 1, and a quote."""

    first_step: int | None = None
    last_step: int | None = None
    quote: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Who does something: a person, an API key or a named policy.

    `label` is what stays in the records when the person or key is gone, for example "user:ana" or "key:ci".
    """

    label: str
    user_id: int | None = None
    api_key_id: UUID | None = None

    @classmethod
    def person(cls, user: "AbstractBaseUser") -> Self:
        """The actor for a logged-in person."""
        return cls(label=f"user:{user.get_username()}", user_id=user.pk)

    @classmethod
    def key(cls, api_key: "ApiKey") -> Self:
        """The actor for an authenticated API client."""
        return cls(label=f"key:{api_key.client}", api_key_id=api_key.pk)

    @classmethod
    def policy(cls, name: str) -> Self:
        """The actor for a named rule that decides without a person, such as the quickstart's."""
        return cls(label=f"policy:{name}")
