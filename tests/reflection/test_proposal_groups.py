"""The same advice in other words: one row in the queue, one decision, each wording on record."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from memory.curation.decisions import reject_heuristic, split_heuristic
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import revise_heuristic
from memory.curation.reviewers import claim_heuristic
from memory.curation.undo import undo_review
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import get_active_model
from memory.projects.actors import Actor
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.quarantine import quarantine_source
from reflection.reflectors.models import Proposal
from reflection.reflectors.reflections import run_reflection
from tests.factories import approve_as_read, make_heuristic, make_project, make_reflection, make_trajectory
from tests.reflection.queueing import in_threads
from tests.reflection.scripted import ScriptedReflector, make_lesson, propose
from tests.reflection.test_proposing import reflect

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")
TRIGGER = "A refund for a basic economy reservation is asked for"
FIRST = make_lesson(TRIGGER, "Read the fare class with `get_reservation` and tell the user that it cannot be refunded.")
OTHER = make_lesson(
    "A user asks for money back for a basic economy reservation",
    "Read the fare class with `get_reservation` and say that a refund cannot be given.",
)
THIRD = make_lesson(
    "Someone asks to be paid back for a basic economy reservation",
    "Check the fare class with `get_reservation` and answer that it cannot be refunded.",
)
# What a strong model wrote after two runs each, for one piece of advice
RECORDED = [
    (
        {
            "trigger": "When `edit` replaces lines inside a function or class, or answers E999 IndentationError",
            "guideline": "Write the first replacement line with exactly the leading spaces that the replaced line has "
            "in the latest view, then submit the same lines again.",
            "avoid": "Starting the replacement at the margin.",
        },
        {
            "trigger": "When `edit` replaces a line of an indented block, or refuses it with E999 IndentationError",
            "guideline": "Give the replacement the same leading spaces as the line it replaces, as the latest view of "
            "the file shows them.",
            "avoid": "Starting the replacement at the margin.",
        },
    ),
    (
        {
            "trigger": "When the user does not know the reservation ID or asks whether it can be looked up another way",
            "guideline": "Ask for the user ID alone and look up the user's profile with it; open the reservations "
            "listed there one by one and pick the one whose route and dates match what the user describes. Only then "
            "go on with the change or the cancellation.",
            "avoid": "Asking again for the reservation ID, sending the user to search their e-mail, or recommending a "
            "human agent before a lookup was tried.",
        },
        {
            "trigger": "When the user says that the reservation ID is not at hand",
            "guideline": "Ask for the user ID only, look up the profile with it, and find the reservation among those "
            "listed there by what the user tells about it. Continue with the change or cancellation from there.",
            "avoid": "Asking for the reservation ID a second time.",
        },
    ),
]


def make_group(project: Any = None) -> tuple[Heuristic, Heuristic]:
    """Return a proposal that stands for a group, and the other wording."""
    project = project or make_project()
    [first] = reflect(project, FIRST)
    [other] = reflect(project, OTHER)
    assert other.effect == Proposal.Effect.GROUP
    leader, member = Heuristic.objects.get(pk=first.heuristic_id), Heuristic.objects.get(pk=other.heuristic_id)
    return (leader, member) if leader.leader_id is None else (member, leader)


def test_same_advice_in_other_words_is_one_row_with_the_runs_of_both() -> None:
    leader, member = make_group()

    assert list(Heuristic.objects.proposed().leading()) == [leader]
    assert member.leader_id == leader.pk
    assert (leader.support, member.support) == (2, 1)


def test_the_wording_of_most_runs_stands_for_the_group() -> None:
    project = make_project()
    leader, member = make_group(project)
    words = OTHER if member.current_revision.guideline == OTHER.text.guideline else FIRST  # type: ignore[union-attr]

    reflect(project, words)

    leader.refresh_from_db()
    member.refresh_from_db()
    assert (member.leader_id, leader.leader_id) == (None, member.pk)
    assert member.support == 3


def test_approval_closes_the_other_wordings_and_counts_their_runs() -> None:
    leader, member = make_group()

    approve_as_read(leader, by=BY)

    leader.refresh_from_db()
    member.refresh_from_db()
    assert (leader.status, member.status, member.superseded_by_id) == ("approved", "superseded", leader.pk)
    assert (leader.support, leader.approved_support) == (2, 2)
    approval = Review.objects.get(heuristic=leader)
    closed = Review.objects.get(heuristic=member)
    assert (closed.decision, closed.decided_with) == ("merge", approval.pk)


def test_other_words_for_an_approved_lesson_support_it_and_are_kept() -> None:
    project = make_project()
    [first] = reflect(project, FIRST)
    approve_as_read(first.heuristic, by=BY)

    [second] = reflect(project, OTHER)

    assert (second.effect, second.heuristic) == (Proposal.Effect.SUPPORT, first.heuristic)
    assert OTHER.text.guideline in second.findings[-1]["message"]
    assert Heuristic.objects.get().support == 2


@pytest.mark.parametrize(("first", "second"), RECORDED, ids=["indentation", "reservation"])
def test_recorded_paraphrase_of_another_family_is_shown_beside_the_first(first: Any, second: Any) -> None:
    project = make_project()
    [one] = reflect(project, make_lesson(**first, task_id="main"))

    [other] = reflect(project, make_lesson(**second, task_id="swe_main"))

    assert (other.effect, other.near) == (Proposal.Effect.MERGE, one.heuristic)
    assert [finding["code"] for finding in other.findings] == ["may_repeat"]


def test_wording_that_joined_after_the_reading_stays_in_the_queue() -> None:
    leader, member = make_group()
    read_at = timezone.now() - timedelta(minutes=1)

    approve_as_read(leader, by=BY, read_at=read_at)

    member.refresh_from_db()
    assert (member.status, member.leader_id) == ("proposed", None)


def test_approving_another_wording_of_the_group_closes_the_first() -> None:
    leader, member = make_group()

    approve_as_read(member, by=BY)

    leader.refresh_from_db()
    assert (leader.status, leader.superseded_by_id) == ("superseded", member.pk)


def test_wording_of_a_group_put_back_by_undo_closes_nothing_its_reader_did_not_see() -> None:
    leader, member = make_group()
    approve_as_read(leader, by=BY)
    read_at = timezone.now()
    undo_review(Review.objects.get(heuristic=leader, decision="approve"), by=BY)

    approve_as_read(member, by=BY, read_at=read_at)

    leader.refresh_from_db()
    member.refresh_from_db()
    assert (member.status, leader.status, leader.leader_id) == ("approved", "proposed", None)


def test_rejection_refuses_each_wording() -> None:
    leader, member = make_group()

    reject_heuristic(leader, by=BY, reason="Wrong")

    assert set(Heuristic.objects.values_list("status", flat=True)) == {"rejected"}
    assert Review.objects.get(heuristic=member).reason == "Wrong"


@pytest.mark.parametrize("approves", [True, False])
def test_undo_puts_each_wording_back(approves: bool) -> None:
    leader, member = make_group()
    evidence = leader.evidence.count()
    approve_as_read(leader, by=BY) if approves else reject_heuristic(leader, by=BY)

    undo_review(Review.objects.exclude(decision="merge").filter(decided_with=None).get(), by=BY)

    assert set(Heuristic.objects.values_list("status", flat=True)) == {"proposed"}
    assert Heuristic.objects.leading().get().support == 2
    assert (Heuristic.objects.get(pk=leader.pk).evidence.count(), member.evidence.count()) == (evidence, 1)


def test_split_wording_stands_for_itself() -> None:
    leader, member = make_group()

    split_heuristic(member, by=BY)

    leader.refresh_from_db()
    assert set(Heuristic.objects.leading()) == {leader, member}
    assert leader.support == 1
    assert Review.objects.get().decision == "split"


def test_new_words_leave_the_group() -> None:
    leader, member = make_group()
    text = make_lesson(TRIGGER, "Offer a travel credit instead.").text

    revise_heuristic(leader, text=text, by=BY)

    assert set(Heuristic.objects.leading()) == {leader, member}


def test_merge_takes_the_other_wordings_along() -> None:
    project = make_project()
    leader, member = make_group(project)
    into = make_heuristic(project=project)

    merge_heuristics(leader, into=into, by=BY)

    member.refresh_from_db()
    assert (member.status, member.superseded_by_id) == ("superseded", into.pk)
    assert into.evidence.values("trajectory").distinct().count() == 2


@pytest.mark.parametrize(
    "other",
    [
        make_lesson(TRIGGER, "Read the fare class with `get_user` and tell the user that it cannot be refunded."),
        make_lesson(TRIGGER, "Read the fare class with `get_reservation` and tell the user that it can be refunded."),
        make_lesson(OTHER.text.trigger, OTHER.text.guideline, polarity="works"),
        make_lesson(OTHER.text.trigger, OTHER.text.guideline, task_id="hotels"),
    ],
)
def test_other_names_sense_polarity_or_family_is_other_advice(other: Any) -> None:
    project = make_project()
    reflect(project, FIRST)

    [second] = reflect(project, other)

    assert second.effect not in (Proposal.Effect.GROUP, Proposal.Effect.SUPPORT)
    assert Heuristic.objects.leading().count() == 2


def test_no_group_reaches_into_another_project() -> None:
    reflect(make_project(), FIRST)

    [other] = reflect(make_project(), OTHER)

    assert other.effect == Proposal.Effect.NEW


def test_wordings_of_an_approved_lesson_make_no_row() -> None:
    project = make_project()
    [approved] = reflect(project, FIRST)
    approve_as_read(approved.heuristic, by=BY)

    [second], [third] = reflect(project, OTHER), reflect(project, THIRD)

    assert {second.heuristic_id, third.heuristic_id} == {approved.heuristic_id}
    assert not Heuristic.objects.proposed().exists()


def test_database_hides_no_proposal_behind_a_decided_one() -> None:
    leader, _ = make_group()

    Heuristic.objects.filter(pk=leader.pk).update(status="rejected")
    with pytest.raises(DatabaseError, match="hidden"):
        connection.check_constraints()


def test_wording_a_person_has_open_keeps_its_place(admin_user: Any) -> None:
    project = make_project()
    leader, member = make_group(project)
    assert leader.current_revision is not None
    claim_heuristic(leader, user_id=admin_user.pk)
    words = OTHER if member.current_revision.guideline == OTHER.text.guideline else FIRST  # type: ignore[union-attr]

    reflect(project, words)

    member.refresh_from_db()
    assert member.leader_id == leader.pk


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_propose_at_once_make_one_row() -> None:
    project = make_project()
    get_active_model()
    reflections = [make_reflection(trajectory=make_trajectory(project=project)) for _ in range(2)]

    def work(number: int) -> None:
        lesson = (FIRST, OTHER)[number]
        run_reflection(
            reflections[number].pk, owner=str(number), make_reflector=ScriptedReflector(plan=propose(lesson))
        )

    in_threads(2, work)

    assert Heuristic.objects.proposed().count() == 2
    assert Heuristic.objects.proposed().leading().get().support == 2


def test_reflection_that_is_repeated_adds_no_wording() -> None:
    project = make_project()
    make_group(project)
    trajectory = Heuristic.objects.filter(leader__isnull=False).get().evidence.get().trajectory
    words = Heuristic.objects.filter(leader__isnull=False).get().current_revision
    assert words is not None
    again = OTHER if words.guideline == OTHER.text.guideline else FIRST

    plan = propose(again)
    run_reflection(make_reflection(trajectory=trajectory).pk, owner="test", make_reflector=ScriptedReflector(plan=plan))

    assert Heuristic.objects.count() == 2
    assert Heuristic.objects.leading().get().support == 2


def test_quarantine_of_a_source_leaves_the_wordings_of_others() -> None:
    leader, member = make_group()
    run = leader.evidence.get().trajectory
    Trajectory.objects.filter(pk=run.pk).update(client="bad")

    quarantine_source(leader.project, client="bad", since=timezone.now() - timedelta(hours=1), by=BY)

    leader.refresh_from_db()
    member.refresh_from_db()
    assert (leader.status, member.status, member.leader_id) == ("quarantined", "proposed", None)
    assert member.support == 1


def test_erasing_the_run_of_the_leader_leaves_the_other_wording_in_the_queue() -> None:
    leader, member = make_group()

    erase_trajectory(leader.evidence.get().trajectory, by=BY)

    member.refresh_from_db()
    assert not Heuristic.objects.filter(pk=leader.pk).exists()
    assert (member.status, member.leader_id, member.support) == ("proposed", None, 1)


def test_wording_that_says_what_two_rows_say_joins_them() -> None:
    project = make_project()
    trigger = "When a flight is to be cancelled"
    first, second, both = (
        make_lesson(trigger, guideline)
        for guideline in (
            "Check the time of booking before calling cancel_reservation.",
            "The agent should always look up when the reservation was booked before it cancels the reservation.",
            "Before cancel_reservation: check when the booking was made.",
        )
    )
    reflect(project, first)
    reflect(project, second)
    assert Heuristic.objects.leading().count() == 2

    reflect(project, both)

    assert Heuristic.objects.leading().get().support == 3
    assert Heuristic.objects.count() == 3
