"""What the form of the review desk does, without a browser."""

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core import signing
from django.test import Client
from django.urls import reverse

from memory.curation.proposals import revise_heuristic
from memory.heuristics.models import HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.review.models import Review
from tests.desk.desk_pages import ANA, decide
from tests.factories import make_heuristic, make_project

pytestmark = pytest.mark.django_db


def undo(client: Client, decision: str) -> str:
    """Undo the one decision of its kind, and return the page that follows."""
    html: str = send_undo(client, Review.objects.get(decision=decision)).content.decode()
    return html


def send_undo(client: Client, review: Review) -> Any:
    sent = {"kind": "lesson", "item": f"lesson/{review.subject_id}", "token": str(review.pk)}
    return client.post(reverse("admin:inbox_undo"), sent, follow=True)


def test_decision_keeps_the_seconds_on_screen(reviewer: Client) -> None:
    heuristic = make_heuristic()

    decide(reviewer, heuristic, "approve", opened=signing.dumps(time.time() - 7, salt="desk"))

    assert Review.objects.get().seconds_on_screen == pytest.approx(7, abs=3)


def test_decision_with_made_up_seconds_keeps_none(reviewer: Client) -> None:
    decide(reviewer, make_heuristic(), "approve", opened="0.1")

    assert Review.objects.get().seconds_on_screen is None


def test_reject_takes_a_reason_of_the_list(reviewer: Client) -> None:
    decide(reviewer, make_heuristic(), "reject", reason_code="Wrong", reason="the policy changed")

    assert Review.objects.get().reason == "Wrong: the policy changed"


def test_reject_with_a_reason_that_is_not_on_the_list_is_refused(reviewer: Client) -> None:
    decide(reviewer, make_heuristic(), "reject", reason_code="Because")

    assert not Review.objects.exists()


def test_preview_shows_the_change_and_decides_nothing(reviewer: Client) -> None:
    heuristic = make_heuristic(trigger="a refund is asked for", guideline="Check the fare class first.")

    html = decide(
        reviewer, heuristic, "preview", trigger="a refund is asked for", guideline="Check the cabin class first."
    )

    assert "Check the <del>fare</del><ins>cabin</ins> class first." in html
    assert not Review.objects.exists()


def test_duplicate_supersedes_the_proposal(reviewer: Client) -> None:
    project = make_project()
    proposal, existing = make_heuristic(project=project), make_heuristic(project=project, status="approved")

    html = decide(reviewer, proposal, "duplicate", into=existing.pk)

    proposal.refresh_from_db()
    assert (proposal.status, proposal.superseded_by) == ("superseded", existing)
    assert "Marked as a duplicate" in html


def test_merge_serves_the_words_of_the_proposal(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, guideline="new words")
    existing = make_heuristic(project=project, status="approved")

    assert existing.current_revision is not None
    decide(reviewer, proposal, "merge", into=existing.pk, into_sha256=existing.current_revision.content_sha256)

    assert HeuristicRevision.objects.get(served=True).guideline == "new words"


def test_merge_into_nothing_says_what_to_do(reviewer: Client) -> None:
    html = decide(reviewer, make_heuristic(), "merge")

    assert "Reload the page and choose another" in html
    assert not Review.objects.exists()


def test_decision_offers_to_undo_it(reviewer: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    heuristic = make_heuristic(project=project)

    html = decide(reviewer, heuristic, "approve")
    assert 'class="undo">' in html

    html = undo(reviewer, "approve")

    heuristic.refresh_from_db()
    assert heuristic.status == "proposed"
    assert "Undone. It is waiting for a decision again" in html
    assert 'class="undo" hidden>' in html


def test_undone_retirement_says_that_it_is_served(reviewer: Client) -> None:
    heuristic = make_heuristic()
    decide(reviewer, heuristic, "approve")
    decide(reviewer, heuristic, "retire", reason="wrong")

    html = undo(reviewer, "retire")

    heuristic.refresh_from_db()
    assert heuristic.status == "approved"
    assert "Undone. It is served again" in html


def test_undo_without_the_permission_is_refused(reviewer: Client) -> None:
    heuristic = make_heuristic()
    decide(reviewer, heuristic, "approve")
    get_user_model().objects.get().user_permissions.set(Permission.objects.filter(codename="view_heuristic"))

    response = send_undo(reviewer, Review.objects.get())

    assert response.status_code == 403
    assert Review.objects.count() == 1


def test_undo_by_a_link_is_refused(reviewer: Client) -> None:
    decide(reviewer, make_heuristic(), "approve")

    assert reviewer.get(reverse("admin:inbox_undo")).status_code == 405


def test_restored_revision_is_proposed_again(reviewer: Client) -> None:
    heuristic = make_heuristic(trigger="x", guideline="first words")
    revise_heuristic(heuristic, text=HeuristicText(trigger="x", guideline="second words"), by=ANA)

    html = decide(reviewer, heuristic, "restore", number=1)

    heuristic.refresh_from_db()
    assert heuristic.current_revision is not None
    assert (heuristic.current_revision.number, heuristic.current_revision.guideline) == (3, "first words")
    assert heuristic.status == "proposed"
    assert "Revision 1 is proposed again" in html


def test_restore_of_a_rejected_heuristic_puts_it_back_into_the_queue(reviewer: Client) -> None:
    heuristic = make_heuristic(status="rejected")

    decide(reviewer, heuristic, "restore", number=1)

    heuristic.refresh_from_db()
    assert heuristic.status == "proposed"


def test_restore_of_a_revision_that_is_not_there_says_so(reviewer: Client) -> None:
    assert "no revision 9" in decide(reviewer, make_heuristic(), "restore", number=9)
