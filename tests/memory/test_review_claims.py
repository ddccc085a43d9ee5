"""What two people who want to decide at once are told."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memory.curation.reviewers import claim_heuristic, take_over_heuristic
from memory.errors import ClaimedByOther
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.review.models import Review
from tests.desk.desk_pages import decide, hold, log_in, page
from tests.factories import (
    approve_as_read,
    make_heuristic,
    make_member,
)

pytestmark = pytest.mark.django_db


def test_second_reviewer_sees_who_is_on_it_and_gets_no_buttons() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    hold(ana, heuristic)

    html = page(ben, heuristic)

    assert "Claimed by ana</strong> until" in html
    assert 'value="claim"' in html
    assert 'value="approve"' not in html


def test_decision_on_what_another_is_on_is_refused() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    hold(ana, heuristic)

    html = decide(ben, heuristic)

    assert "claimed by ana until" in html
    assert not Review.objects.exists()


def test_take_over_lets_the_second_decide_and_refuses_the_first() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    hold(ana, heuristic)

    assert "Reserved for you until" in decide(ben, heuristic, "claim")
    assert "claimed by ben until" in decide(ana, heuristic)
    assert "Approved. Agents get" in decide(ben, heuristic)
    assert Review.objects.get().reviewer == "user:ben"


def test_second_of_two_decisions_says_who_was_faster() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    decide(ana, heuristic)

    html = decide(ben, heuristic, "reject", reason_code="Wrong")

    assert "it was already decided by ana at" in html
    assert "your decision changed nothing" in html
    assert Review.objects.get().decision == "approve"


def test_claim_ends_by_itself() -> None:
    heuristic = make_heuristic()
    ana, ben = make_member("ana"), make_member("ben")
    assert heuristic.current_revision is not None
    claim_heuristic(heuristic, user_id=ana.pk)
    past = timezone.now() - timedelta(minutes=10)
    Heuristic.objects.update(claimed_until=past)

    claimed = claim_heuristic(heuristic, user_id=ben.pk)

    assert claimed.claimed_by == ben
    assert approve_as_read(heuristic, by=Actor.person(ben)).status == "approved"


def test_released_claim_is_free_for_others() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    hold(ana, heuristic)

    assert "Released." in decide(ana, heuristic, "release")
    assert not Heuristic.objects.claimed().exists()


def test_claim_is_asked_for_in_the_service() -> None:
    heuristic = make_heuristic()
    take_over_heuristic(heuristic, by=Actor.person(make_member("ana")))

    with pytest.raises(ClaimedByOther, match="claimed by ana"):
        approve_as_read(heuristic, by=Actor.person(make_member("ben")))
