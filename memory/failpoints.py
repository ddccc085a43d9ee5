"""Places in the code at which a test makes a process die, wait or fail. In production none of them does anything.

`TEST_FAILPOINTS` (tests/settings.py) names points and what happens there: `idempotency.before_commit=crash`,
`reflection.asked=sleep:2`, `erasure.before_commit=error`, several separated by commas. `crash@3` is the third time a
process gets there, `crash~0.1` one time in ten. Without the variable a point costs a look into an empty dictionary.
"""

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

NAMES = frozenset(
    {
        "idempotency.key_taken",
        "idempotency.before_commit",
        "idempotency.after_commit",
        "job.claimed",
        "reflection.asked",
        "reflection.before_write",
        "reflection.before_commit",
        "reflection.after_commit",
        "review.before_commit",
        "erasure.before_delete",
        "erasure.before_commit",
        "erasure.after_commit",
        "quarantine.before_commit",
        "deployment.before_commit",
        "block.before_commit",
        "block_review.before_commit",
        "webhook.before_send",
        "webhook.sent",
        "agent.effect_started",
        "agent.effect_done",
        "agent.local_before_commit",
        "agent.answered",
        "agent.answer_before_commit",
        "change.rehearsed",
        "sleep.before_proposal",
        "sleep.before_end",
        "evolution.before_end",
        "periodic.work",
    }
)
_SPELLING = re.compile(
    r"(?P<name>[a-z_.]+)=(?P<action>crash|error|sleep)(?::(?P<seconds>[0-9.]+))?"
    r"(?:@(?P<time>[0-9]+)|~(?P<chance>[0-9.]+))?"
)
_actions: dict[str, Callable[[], None]] = {}


class FailpointError(Exception):
    """What an armed failpoint raises: an error that nothing expects."""


@dataclass(kw_only=True)
class Failpoint:
    """What happens at a point: each time, the n-th time, or at random."""

    kind: str
    seconds: float = 0.0
    time: int | None = None
    chance: float = 1.0
    reached: int = 0

    def __call__(self) -> None:
        self.reached += 1
        if (self.time is not None and self.reached != self.time) or random.random() >= self.chance:  # noqa: S311
            return
        match self.kind:
            case "crash":
                # As a power cut: no `finally` block and no exit handler runs.
                os.kill(os.getpid(), signal.SIGKILL)
            case "sleep":
                time.sleep(self.seconds)
            case _:
                raise FailpointError("A failpoint was reached.")


def failpoint(name: str) -> None:
    """Do what was asked for at this point, which is nothing unless a test asked."""
    if _actions and (action := _actions.get(name)) is not None:
        action()


def arm_failpoints(spellings: Iterable[str]) -> None:
    """Arm what the setting names, for as long as the process lives.

    Raises:
        ImproperlyConfigured: a spelling is wrong, or there is no such point.
    """
    _actions.update(_read(spelling.strip()) for spelling in spellings if spelling.strip())


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Let a function of a test run at a point while the block lasts."""
    if name not in NAMES:
        raise ImproperlyConfigured(f"There is no failpoint {name}.")
    _actions[name] = action
    try:
        yield
    finally:
        del _actions[name]


def _read(spelling: str) -> tuple[str, Failpoint]:
    match = _SPELLING.fullmatch(spelling)
    if match is None or match["name"] not in NAMES:
        raise ImproperlyConfigured(
            f"TEST_FAILPOINTS has {spelling!r}. Write name=crash, name=error or name=sleep:seconds, with @3 for the "
            f"third time or ~0.1 for one time in ten; the names are {', '.join(sorted(NAMES))}."
        )
    return match["name"], Failpoint(
        kind=match["action"],
        seconds=float(match["seconds"] or 0),
        time=int(match["time"]) if match["time"] else None,
        chance=float(match["chance"] or 1),
    )
