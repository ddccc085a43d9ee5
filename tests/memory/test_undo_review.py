"""Taking a decision back."""

from datetime import timedelta

import pytest

from memory.curation.decisions import (
    edit_and_approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import propose_heuristic, revise_heuristic
from memory.curation.undo import is_undoable, undo_review
from memory.errors import TooLateToUndo
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.review.models import Review
from tests.factories import approve_as_read, make_heuristic, make_project, make_trajectory, read

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")
LESSON = HeuristicText(trigger="a booking is basic economy", guideline="cancel and book again")
OTHER = HeuristicText(trigger="a booking is basic economy", guideline="offer to cancel within a day")


def proposed() -> Heuristic:
    return propose_heuristic(make_project(), text=LESSON, by=Actor(label="key:agent"))


def undo(heuristic: Heuristic, *, by: Actor = ANA) -> Heuristic:
    undo_review(Review.objects.filter(heuristic=heuristic)[0], by=by)
    return Heuristic.objects.with_text().get(pk=heuristic.pk)


def served(heuristic: Heuristic) -> list[int]:
    return list(HeuristicRevision.objects.filter(heuristic=heuristic, served=True).values_list("number", flat=True))


def test_undone_approval_is_proposed_again_and_not_served() -> None:
    heuristic = undo(approve_as_read(proposed(), by=ANA))

    assert (heuristic.status, served(heuristic)) == ("proposed", [])
    assert heuristic.current_revision is not None
    assert heuristic.current_revision.as_text() == LESSON


def test_undo_is_a_decision_of_its_own() -> None:
    heuristic = undo(approve_as_read(proposed(), by=ANA))

    decisions = list(Review.objects.filter(heuristic=heuristic).values_list("decision", "reason"))
    assert decisions == [("undo", "Undid: approve."), ("approve", "")]


def test_approval_after_an_undo_is_a_fresh_one() -> None:
    heuristic = undo(approve_as_read(proposed(), by=ANA))

    approve_as_read(heuristic, by=Actor(label="user:ben"))

    revision = HeuristicRevision.objects.get(heuristic=heuristic, served=True)
    assert (revision.number, revision.approved_by) == (2, "user:ben")


def test_undone_approval_of_a_new_wording_serves_the_earlier_one_again() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    approve_as_read(revise_heuristic(heuristic, text=OTHER, by=ANA), by=ANA)

    assert served(undo(heuristic)) == [1]


def test_two_undone_approvals_still_serve_the_earlier_wording() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    approve_as_read(revise_heuristic(heuristic, text=OTHER, by=ANA), by=ANA)
    approve_as_read(undo(heuristic), by=ANA)

    assert served(undo(heuristic)) == [1]


def test_undone_edit_brings_back_the_words_before_it() -> None:
    heuristic = undo(edit_and_approve_heuristic(before := proposed(), text=OTHER, by=ANA, content_sha256=read(before)))

    assert heuristic.current_revision is not None
    assert (heuristic.status, heuristic.current_revision.as_text()) == ("proposed", LESSON)


def test_undone_rejection_is_proposed_again() -> None:
    heuristic = undo(reject_heuristic(proposed(), by=ANA, reason="too general"))

    assert heuristic.current_revision is not None
    assert (heuristic.status, heuristic.current_revision.number) == ("proposed", 1)


def test_undone_quarantine_of_a_proposal_is_proposed_again() -> None:
    assert undo(quarantine_heuristic(proposed(), by=ANA, reason="odd")).status == "proposed"


def test_undone_retirement_is_served_again() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    heuristic = undo(retire_heuristic(heuristic, by=ANA, reason="old"))

    assert (heuristic.status, served(heuristic)) == ("approved", [1])


def test_undone_retirement_keeps_the_wording_that_was_waiting() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    revise_heuristic(heuristic, text=OTHER, by=ANA)
    heuristic = undo(retire_heuristic(heuristic, by=ANA, reason="old"))

    assert heuristic.current_revision is not None
    assert (heuristic.status, heuristic.current_revision.number, served(heuristic)) == ("proposed", 2, [1])


def test_undo_by_another_person_is_refused() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)

    with pytest.raises(TooLateToUndo, match="Only the person who decided"):
        undo(heuristic, by=Actor(label="user:ben"))

    assert served(heuristic) == [1]


def test_undo_of_what_was_followed_by_another_decision_is_refused() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    approval = Review.objects.get(heuristic=heuristic)
    retire_heuristic(heuristic, by=ANA, reason="old")

    with pytest.raises(TooLateToUndo, match="Another decision was made"):
        undo_review(approval, by=ANA)


def test_undo_after_the_time_is_refused() -> None:
    heuristic = approve_as_read(proposed(), by=ANA)
    approval = Review.objects.get(heuristic=heuristic)
    approval.created_at -= timedelta(seconds=16)  # the row itself cannot be changed

    with pytest.raises(TooLateToUndo, match="for 10 seconds"):
        undo_review(approval, by=ANA)

    assert not is_undoable(approval)


def test_undone_duplicate_waits_again_and_takes_its_runs_back() -> None:
    project = make_project()
    kept = make_heuristic(trajectory=make_trajectory(project=project), status="approved")
    heuristic = make_heuristic(trajectory=make_trajectory(project=project))
    merge_heuristics(heuristic, into=kept, by=ANA)
    assert Heuristic.objects.get(pk=kept.pk).support == 2

    heuristic = undo(heuristic)

    assert (heuristic.status, heuristic.superseded_by_id, heuristic.support) == ("proposed", None, 1)
    assert Heuristic.objects.get(pk=kept.pk).support == 1
    assert served(kept) == [1]


def test_undone_duplicate_that_was_approved_is_served_again() -> None:
    project = make_project()
    kept = make_heuristic(project=project, status="approved")
    heuristic = approve_as_read(make_heuristic(project=project), by=ANA)
    merge_heuristics(heuristic, into=kept, by=ANA)

    heuristic = undo(heuristic)

    assert (heuristic.status, heuristic.superseded_by_id, served(heuristic)) == ("approved", None, [1])


def test_merge_that_changed_the_other_words_is_not_undone() -> None:
    project = make_project()
    kept, heuristic = make_heuristic(project=project, status="approved"), make_heuristic(project=project)
    merge_heuristics(heuristic, into=kept, take_wording=True, by=ANA)

    with pytest.raises(TooLateToUndo, match="changed the words of the other lesson"):
        undo(heuristic)
