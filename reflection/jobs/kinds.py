"""The kinds of jobs there are. An app registers its own when it is ready."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from reflection.jobs.models import Job


GRACE_SECONDS = 30  # between being asked to stop and being killed


class RunJob(Protocol):
    """Claim a job, or the one of its kind that is due longest, and carry it out."""

    def __call__(self, job_id: UUID | None = None, /, *, owner: str) -> object: ...


def _do_nothing(job: "Job") -> None:
    """A job that is given up leaves nothing behind but its own row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKind:
    """How the jobs of one kind are run, and in which Celery queue their messages wait; "" is the default queue.

    `time_limit_seconds` bounds one attempt where it differs from the limit of all tasks, and `most_attempts` the
    attempts where they differ from ERL_REFLECTION_MAX_ATTEMPTS. `give_up` runs in the transaction that marks a job
    dead.
    """

    name: str
    run: RunJob
    queue: str = ""
    time_limit_seconds: int | None = None
    most_attempts: int | None = None
    give_up: Callable[["Job"], None] = _do_nothing

    @property
    def message_options(self) -> dict[str, Any]:
        """What Celery has to know about a message for such a job."""
        options: dict[str, Any] = {"queue": self.queue} if self.queue else {}
        if self.time_limit_seconds is not None:
            options["soft_time_limit"] = self.time_limit_seconds
            options["time_limit"] = self.time_limit_seconds + GRACE_SECONDS
        return options


_kinds: dict[str, JobKind] = {}


def register_kind(kind: JobKind) -> None:
    """Let the workers run jobs of a kind."""
    _kinds[kind.name] = kind


def get_kind(name: str) -> JobKind:
    """Return a registered kind; raise `KeyError` where there is none of the name."""
    return _kinds[name]


def is_registered(name: str) -> bool:
    """Tell whether this version runs jobs of a kind. During a roll-out, the database has those of the next one, too."""
    return name in _kinds


def all_kinds() -> list[JobKind]:
    """Return the registered kinds."""
    return list(_kinds.values())
