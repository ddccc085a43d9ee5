"""Erasing a run and what was learnt from it alone."""

from dataclasses import replace

import pytest
from django.db import IntegrityError, connection, transaction

from memory.api.models import IdempotencyRecord
from memory.curation.evidence import add_evidence
from memory.curation.proposals import revise_heuristic
from memory.effects.feedback import Feedback, record_feedback
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.text import Citation
from memory.projects.actors import Actor
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from tests.factories import approve_as_read, make_heuristic, make_idempotency_record, make_trajectory

pytestmark = pytest.mark.django_db

OPERATOR = Actor(label="user:ops")


def test_erase_deletes_the_run_and_the_heuristic_that_rests_on_it_alone() -> None:
    trajectory = make_trajectory()
    heuristic = make_heuristic(trajectory=trajectory)
    approve_as_read(heuristic, by=OPERATOR)

    erased = erase_trajectory(trajectory, by=OPERATOR)

    assert (erased.heuristics_deleted, erased.heuristics_kept) == (1, 0)
    assert not Trajectory.objects.exists()
    assert not Heuristic.objects.exists()
    assert not HeuristicRevision.objects.exists()
    assert not Review.objects.exists()


def test_erase_keeps_a_heuristic_with_other_evidence_and_recounts_its_support() -> None:
    first = make_trajectory()
    second = make_trajectory(project=first.project)
    heuristic = make_heuristic(trajectory=first)
    add_evidence(heuristic, second, citations=[Citation(first_step=1, last_step=1)])

    erase_trajectory(first, by=OPERATOR)

    heuristic.refresh_from_db()
    assert heuristic.support == 1
    assert list(Evidence.objects.values_list("trajectory", flat=True)) == [second.pk]


def test_erase_keeps_a_lesson_that_a_run_only_showed_again() -> None:
    heuristic = make_heuristic()
    cited = make_trajectory(project=heuristic.project)
    add_evidence(heuristic, cited, citations=[Citation(first_step=1, last_step=1)])
    approve_as_read(heuristic, by=OPERATOR)

    erased = erase_trajectory(cited, by=OPERATOR)

    heuristic.refresh_from_db()
    assert (erased.heuristics_deleted, erased.heuristics_kept) == (0, 1)
    assert (heuristic.status, heuristic.support, heuristic.approved_support) == ("approved", 0, 0)


def test_erase_of_all_runs_leaves_nothing_in_either_order() -> None:
    first = make_trajectory()
    second = make_trajectory(project=first.project)
    heuristic = make_heuristic(trajectory=first)
    add_evidence(heuristic, second, citations=[Citation(first_step=1, last_step=1)])

    erase_trajectory(first, by=OPERATOR)
    erased = erase_trajectory(second, by=OPERATOR)

    assert erased.heuristics_deleted == 1
    assert not HeuristicRevision.objects.exists()


def test_erase_deletes_a_lesson_with_edited_words_from_the_run() -> None:
    run = make_trajectory()
    heuristic = make_heuristic(trajectory=run)
    assert heuristic.current_revision is not None
    words = replace(heuristic.current_revision.as_text(), guideline="Read the fare rules first.")
    revise_heuristic(heuristic, text=words, by=OPERATOR)

    assert erase_trajectory(run, by=OPERATOR).heuristics_deleted == 1


def test_erase_takes_back_what_the_run_said_of_lessons() -> None:
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED)
    run = make_trajectory(project=heuristic.project, outcome="success", score=1.0)
    record_feedback(heuristic, Feedback(verdict="followed"), client="agent", trajectory=run)
    heuristic.refresh_from_db()
    assert heuristic.usefulness_basis["runs"] == 1

    erase_trajectory(run, by=OPERATOR)

    heuristic.refresh_from_db()
    assert heuristic.usefulness_basis["runs"] == 0


def test_erase_leaves_other_runs_alone() -> None:
    trajectory = make_trajectory()
    other = make_trajectory(project=trajectory.project)
    make_idempotency_record(project=other.project, resource_id=other.pk)

    erase_trajectory(trajectory, by=OPERATOR)

    assert list(Trajectory.objects.all()) == [other]
    assert IdempotencyRecord.objects.filter(erased_at=None).count() == 1


def test_erase_closes_the_door_behind_it() -> None:
    trajectory = make_trajectory()
    kept = make_heuristic(project=trajectory.project)
    erase_trajectory(trajectory, by=OPERATOR)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM memory_heuristicrevision WHERE heuristic_id = %s", [kept.pk])
