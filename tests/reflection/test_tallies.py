"""How many failures a lesson would have met, and how many successes did what it says to avoid."""

from typing import Any

import pytest

from desk.lessons.queue import explain_priority
from memory.curation.priority import prioritise_heuristics
from memory.heuristics.extensions import Tally, find_tallies
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from reflection.reflectors.models import RunPatterns
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.rules import RulesReflector
from tests.factories import make_project, make_reflection, make_trajectory
from tests.reflection.scripted import make_lesson
from tests.reflection.test_proposing import reflect

pytestmark = pytest.mark.django_db

REPEATED = [
    {
        "index": n,
        "action": {"name": "cancel", "arguments": {"id": "R1"}},
        "observation": "Error: fare is not refundable",
    }
    for n in range(1, 11)
]
OTHER = [{"index": 1, "action": {"name": "cancel", "arguments": {"id": "R1"}}, "observation": "done"}]


def record(project: Project, *, steps: Any = REPEATED, outcome: str = "failure", **fields: Any) -> Trajectory:
    """Record a run and let the offline reflector read it."""
    trajectory = make_trajectory(project=project, steps=steps, outcome=outcome, score=None, **fields)
    reflection = make_reflection(trajectory=trajectory)
    run_reflection(reflection.pk, owner="test", make_reflector=lambda ask: RulesReflector())
    return trajectory


def tally_of(heuristic: Heuristic) -> Tally | None:
    return find_tallies([heuristic.pk]).get(heuristic.pk)


def test_failures_with_the_pattern_and_successes_with_it_are_counted() -> None:
    project = make_project()
    for _ in range(2):
        record(project)
    record(project, steps=OTHER)
    record(project, outcome="success")
    record(project, steps=OTHER, outcome="success")
    record(make_project())

    tally = tally_of(Heuristic.objects.get(project=project))

    assert tally is not None
    assert (tally.failures_met, tally.failures) == (2, 3)
    assert (tally.successes_contradicted, tally.successes) == (1, 2)
    assert str(tally) == ("Would have met 2 of 3 failures in the project; 1 of 2 successes did what it says to avoid.")


def test_outcome_reported_later_is_counted_again() -> None:
    project = make_project()
    record(project)
    trajectory = record(project)
    Trajectory.objects.filter(pk=trajectory.pk).update(outcome="success")

    run_reflection(make_reflection(trajectory=trajectory).pk, owner="test", make_reflector=lambda ask: RulesReflector())

    tally = tally_of(Heuristic.objects.get(project=project))
    assert tally is not None
    assert (tally.failures, tally.successes, tally.successes_contradicted) == (1, 1, 1)


def test_nothing_is_known_of_what_no_pattern_stands_behind() -> None:
    [proposal] = reflect(make_project(), make_lesson())

    assert tally_of(proposal.heuristic) is None


def test_new_run_with_the_pattern_orders_its_lesson_again() -> None:
    project = make_project()
    record(project)
    heuristic = Heuristic.objects.get()
    prioritise_heuristics([heuristic.pk])

    record(project)

    heuristic.refresh_from_db()
    assert heuristic.prioritised_at is None
    prioritise_heuristics([heuristic.pk])
    heuristic.refresh_from_db()
    assert heuristic.review_basis["gain"] == 2
    assert "would have met 2 of 2 failures" in explain_priority(heuristic)


def test_patterns_are_erased_with_their_run() -> None:
    trajectory = record(make_project())
    assert RunPatterns.objects.get().keys

    erase_trajectory(trajectory, by=Actor(label="user:ana"))

    assert not RunPatterns.objects.exists()
