"""Runs that are recorded in parts: append their steps, finish them, and close those that were left open."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from memory.database_clock import database_now
from memory.effects.uses import refresh_uses_of_run
from memory.errors import InvalidSteps, RunIsFinished, RunOfAnotherClient, StepsDiffer
from memory.intake.recording import announce
from memory.limits import MAX_OPEN_RUN_CHARS, MAX_STEPS
from memory.projects.actors import Actor
from memory.redaction import redact
from memory.runs.models import LAST_WORDS_AT, Trajectory
from memory.runs.steps import read_step

CLOSED_AT_ONCE = 500
LEFT_OPEN_HOURS = 24.0  # without a new step


@transaction.atomic
def append_steps(trajectory: Trajectory, *, steps: Sequence[Any], by: Actor) -> Trajectory:
    """Add steps to an open run. Steps that are there already change nothing.

    The first step says its index; without one the steps follow those that are stored.

    Raises:
        InvalidSteps: a step cannot be read.
        RunIsFinished: the run is not open, and a step is new.
        RunOfAnotherClient: another client opened it.
        StepsDiffer: a step is stored and says something else, or steps before these are missing.
    """
    trajectory = Trajectory.objects.select_for_update(of=("self",)).select_related("project").get(pk=trajectory.pk)
    stored: list[dict[str, Any]] = trajectory.steps
    redacted = redact({"steps": list(steps)})
    sent: list[Any] = redacted.value["steps"]
    first = sent[0].get("index") if sent and isinstance(sent[0], dict) else None
    if not isinstance(first, int) or isinstance(first, bool) or first < 1:
        first = len(stored) + 1
    if first > len(stored) + 1:
        raise StepsDiffer(f"The next step is {len(stored) + 1}. Send the steps from there on.")
    if first - 1 + len(sent) > MAX_STEPS:
        raise InvalidSteps(f"steps would be {first - 1 + len(sent)}; at most {MAX_STEPS} are kept. Split the run.")
    read = [read_step(step, number=first + n, where=f"steps[{n}]") for n, step in enumerate(sent)]
    known, new = read[: len(stored) - first + 1], read[len(stored) - first + 1 :]
    if known != stored[first - 1 : first - 1 + len(known)]:
        raise StepsDiffer("A different step with this index is already stored. Steps are never changed.")
    if not new:
        return trajectory
    if not trajectory.is_open:
        raise RunIsFinished("This run is finished. Steps can only be added to a run that was recorded as open.")
    check_opener(trajectory, by=by)
    if len(json.dumps([*stored, *new])) > MAX_OPEN_RUN_CHARS:
        raise InvalidSteps(f"steps would be longer than {MAX_OPEN_RUN_CHARS:,} characters of JSON. Split the run.")
    counts = trajectory.redactions
    trajectory.redactions = counts | {kind: counts.get(kind, 0) + n for kind, n in redacted.counts.items()}
    trajectory.steps = [*stored, *new]
    trajectory.appended_at = database_now()
    trajectory.save(update_fields=["steps", "redactions", "appended_at"])
    return trajectory


@transaction.atomic
def finish_run(trajectory: Trajectory, *, ending: dict[str, Any], by: Actor, reflect: bool | None = None) -> Trajectory:
    """Finish an open run: from now on it counts, and is reflected on. Finishing it again the same way changes nothing.

    Args:
        ending: `outcome`, `score` and `outcome_source`; also `ended_at`, `tokens`, `cost_usd`, `summary`, `mistakes`
            and `successes`.

    Raises:
        RunIsFinished: it is finished and ended otherwise.
        RunOfAnotherClient: another client opened it.
    """
    trajectory = Trajectory.objects.select_for_update(of=("self",)).select_related("project").get(pk=trajectory.pk)
    ending = redact(ending).value
    if not trajectory.is_open:
        if any(getattr(trajectory, name) != value for name, value in ending.items()):
            raise RunIsFinished("This run is finished. Send another outcome to POST /api/v1/trajectories/{id}/outcome.")
        return trajectory
    check_opener(trajectory, by=by)
    for name, value in ending.items():
        setattr(trajectory, name, value)
    if by.api_key_id is not None:
        trajectory.appended_at = database_now()
    trajectory.is_open, trajectory.outcome_at, trajectory.spans = False, timezone.now(), []
    trajectory.save(update_fields=[*ending, "is_open", "appended_at", "outcome_at", "spans"])
    refresh_uses_of_run(trajectory)
    announce(trajectory, reflect=reflect, by=by)
    return trajectory


def check_opener(trajectory: Trajectory, *, by: Actor) -> None:
    """Let only the client that opened a run say more in it: all of its words count as that client's.

    Raises RunOfAnotherClient.
    """
    if by.api_key_id is not None and by.label != f"key:{trajectory.client}":
        raise RunOfAnotherClient("Another client opened this run, and only that client can add to it or finish it.")


def close_unfinished_runs() -> int:
    """Finish the runs to which nothing was added for LEFT_OPEN_HOURS; how they ended stays unknown."""
    limit = Now() - timedelta(hours=LEFT_OPEN_HOURS)
    open_runs = Trajectory.objects.filter(is_open=True).alias(last_at=LAST_WORDS_AT)
    left = list(open_runs.filter(last_at__lt=limit).order_by("created_at")[:CLOSED_AT_ONCE])
    for run in left:
        finish_run(run, ending={"metadata": {**run.metadata, "left_open": True}}, by=Actor(label="housekeeping"))
    return len(left)
