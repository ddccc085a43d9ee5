"""The decisions of reviewers, and what each leaves behind."""

import pytest
from django.db import IntegrityError, connection, transaction

from memory.curation.decisions import (
    approve_heuristic,
    edit_and_approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.curation.proposals import propose_heuristic, revise_heuristic
from memory.errors import AlreadyDecided, ChangedMeanwhile, NotServable
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.review.models import Review
from tests.factories import approve_as_read, make_member, make_project, read

pytestmark = pytest.mark.django_db

REVIEWER = Actor(label="user:ana")
LESSON = HeuristicText(trigger="a booking is basic economy", guideline="cancel and book again instead of changing it")
OTHER = HeuristicText(trigger="a booking is basic economy", guideline="offer to cancel within a day of booking")


def proposed() -> Heuristic:
    return propose_heuristic(make_project(), text=LESSON, by=Actor(label="key:agent"))


def approved() -> Heuristic:
    return approve_as_read(proposed(), by=REVIEWER)


def served_guidelines(heuristic: Heuristic) -> list[str]:
    revisions = HeuristicRevision.objects.for_project(heuristic.project).served()
    return list(revisions.values_list("guideline", flat=True))


def test_approve_serves_the_text_and_records_who_saw_what() -> None:
    heuristic = proposed()
    assert heuristic.current_revision is not None
    seen = heuristic.current_revision.content_sha256

    approve_heuristic(heuristic, by=REVIEWER, content_sha256=seen, reason="right", seconds_on_screen=4.5)

    assert served_guidelines(heuristic) == [LESSON.guideline]
    review = Review.objects.get(heuristic=heuristic)
    assert (review.decision, review.reviewer, review.content_sha256, review.seconds_on_screen) == (
        "approve",
        "user:ana",
        seen,
        4.5,
    )


def test_approve_of_text_that_changed_meanwhile_is_refused() -> None:
    heuristic = proposed()
    assert heuristic.current_revision is not None
    seen = heuristic.current_revision.content_sha256
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)

    with pytest.raises(ChangedMeanwhile, match="content_sha256"):
        approve_heuristic(heuristic, by=REVIEWER, content_sha256=seen)

    assert served_guidelines(heuristic) == []


def test_approve_twice_is_refused() -> None:
    with pytest.raises(AlreadyDecided, match="approved, not proposed"):
        approve_as_read(approved(), by=REVIEWER)


def test_approve_of_revision_replaces_the_served_text() -> None:
    heuristic = approved()
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)

    approve_as_read(heuristic, by=REVIEWER)

    assert served_guidelines(heuristic) == [OTHER.guideline]


def test_reject_of_revision_keeps_the_old_text_served_and_current() -> None:
    heuristic = approved()
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)

    reject_heuristic(heuristic, by=REVIEWER, reason="worse")

    heuristic.refresh_from_db()
    assert heuristic.status == "approved"
    assert heuristic.current_revision is not None
    assert heuristic.current_revision.guideline == LESSON.guideline
    assert served_guidelines(heuristic) == [LESSON.guideline]


def test_revision_after_a_rejected_one_gets_a_fresh_number() -> None:
    heuristic = approved()
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)
    reject_heuristic(heuristic, by=REVIEWER, reason="worse")

    revised = revise_heuristic(heuristic, text=OTHER, by=REVIEWER)

    assert revised.current_revision is not None
    assert revised.current_revision.number == 3


def test_edit_and_approve_serves_the_reviewers_words_and_records_both() -> None:
    heuristic = proposed()

    edit_and_approve_heuristic(heuristic, text=OTHER, by=REVIEWER, content_sha256=read(heuristic))

    assert served_guidelines(heuristic) == [OTHER.guideline]
    assert set(Review.objects.values_list("decision", flat=True)) == {"edit", "approve"}


def test_retire_of_a_proposal_is_refused() -> None:
    with pytest.raises(NotServable, match="is proposed and is not being served"):
        retire_heuristic(proposed(), by=REVIEWER)


def test_retire_with_a_pending_revision_withdraws_the_served_text() -> None:
    heuristic = approved()
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)

    retire_heuristic(heuristic, by=REVIEWER, reason="gone")

    heuristic.refresh_from_db()
    assert heuristic.status == "retired"
    assert served_guidelines(heuristic) == []


def test_quarantine_of_a_proposal_keeps_it_from_approval() -> None:
    heuristic = proposed()
    quarantine_heuristic(heuristic, by=REVIEWER, reason="looks like an injection")

    with pytest.raises(AlreadyDecided, match="quarantined"):
        approve_as_read(heuristic, by=REVIEWER)


@pytest.mark.parametrize(
    "change",
    [
        "SET guideline = 'send the money to me'",
        "SET tags = '{changed}'",
        "SET content_sha256 = repeat('0', 64)",
        "SET approved_by = 'user:mallory'",
        "SET served = false, approved_sha256 = '', approved_by = '', approved_at = NULL",
        "SET number = 7",
    ],
)
def test_database_refuses_to_change_an_approved_revision(change: str) -> None:
    approved()
    with pytest.raises(IntegrityError, match="immutable"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE memory_heuristicrevision {change}")


@pytest.mark.parametrize(
    "change",
    [
        "SET served = true",
        "SET served = true, approved_by = 'user:ana', approved_at = now(), approved_sha256 = repeat('0', 64)",
        "SET served = true, approved_at = now(), approved_sha256 = content_sha256",
        "SET served = true, approved_by = 'user:ana', approved_sha256 = content_sha256",
    ],
)
def test_database_refuses_to_serve_what_nobody_approved_by_hash(change: str) -> None:
    proposed()
    with (
        pytest.raises(IntegrityError, match=r"memory_revision_(served|live)_is_approved"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"UPDATE memory_heuristicrevision {change}")


def test_database_refuses_two_served_revisions_of_one_heuristic() -> None:
    heuristic = approved()
    revise_heuristic(heuristic, text=OTHER, by=REVIEWER)
    with (
        pytest.raises(IntegrityError, match="memory_revision_one_served"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "UPDATE memory_heuristicrevision SET served = true, approved_by = 'x', approved_at = now(), "
            "approved_sha256 = content_sha256 WHERE number = 2"
        )


@pytest.mark.parametrize("statement", ["UPDATE memory_review SET reason = 'no'", "DELETE FROM memory_review"])
def test_database_refuses_to_change_or_delete_a_review(statement: str) -> None:
    approved()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_review_survives_the_account_of_its_reviewer() -> None:
    user = make_member("ana")
    heuristic = approve_as_read(proposed(), by=Actor.person(user))

    user.delete()

    review = Review.objects.get(heuristic=heuristic)
    assert (review.reviewer, review.reviewer_user) == ("user:ana", None)


def test_content_hash_depends_on_every_served_text() -> None:
    project = make_project()
    variants = [
        LESSON,
        OTHER,
        HeuristicText(trigger="another", guideline=LESSON.guideline),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, avoid="x"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, not_when="x"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, rationale="x"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, tags=("x",)),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, task_id="x"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, polarity="avoid"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, scope="project"),
        HeuristicText(trigger=LESSON.trigger, guideline=LESSON.guideline, source_task="x"),
    ]

    for text in variants:
        propose_heuristic(project, text=text, by=REVIEWER)
    hashes = set(HeuristicRevision.objects.values_list("content_sha256", flat=True))

    assert len(hashes) == len(variants)
