"""The review desk's page and what its form does, without a browser."""

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core import signing
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import EmbeddingModel, Heuristic, HeuristicEmbedding, HeuristicRevision, Review
from memory.services.propose_heuristic import revise_heuristic
from memory.services.review_heuristic import approve_heuristic
from memory.values import Actor, LessonText
from reflection.models import Proposal
from tests.factories import (
    make_evidence,
    make_heuristic,
    make_member,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")


@pytest.fixture
def reviewer(client: Client) -> Client:
    client.force_login(make_member("ana"))
    return client


def address(heuristic: Heuristic) -> str:
    return reverse("admin:memory_heuristic_change", args=[heuristic.pk])


def page(client: Client, heuristic: Heuristic) -> str:
    response = client.get(address(heuristic))
    assert response.status_code == 200
    return response.content.decode()


def decide(client: Client, heuristic: Heuristic, decision: str, **values: Any) -> str:
    heuristic = Heuristic.objects.with_text().get(pk=heuristic.pk)
    sent = {"decision": decision, "content_sha256": heuristic.current_revision.content_sha256} | values
    return client.post(address(heuristic), sent, follow=True).content.decode()


def embed(heuristic: Heuristic, *vector: float) -> None:
    model, _ = EmbeddingModel.objects.get_or_create(id="test", defaults={"dimensions": 2})
    HeuristicEmbedding.objects.create(
        project=heuristic.project,
        heuristic=heuristic,
        revision=heuristic.current_revision,
        embedding_model=model,
        kind="lesson",
        text_sha256="0" * 64,
        vector=list(vector),
    )


def test_desk_costs_the_same_queries_however_much_there_is_to_show(reviewer: Client) -> None:
    project = make_project()
    small, big = (make_heuristic(trajectory=make_trajectory(project=project)) for _ in range(2))
    for _ in range(6):
        make_evidence(heuristic=big, trajectory=make_trajectory(project=project))
        Proposal.objects.create(
            project=project,
            heuristic=big,
            effect="new",
            ordinal=1,
            reflection=make_reflection(trajectory=make_trajectory(project=project)),
        )
        make_retrieval(project=project, heuristic_ids=[big.pk])
        embed(make_heuristic(project=project), 1, 0)
    embed(small, 0, 1)
    embed(big, 1, 0)
    page(reviewer, small)

    with CaptureQueriesContext(connection) as few:
        page(reviewer, small)
    with CaptureQueriesContext(connection) as many:
        page(reviewer, big)

    assert len(many) == len(few) == 25


def test_desk_shows_the_nearest_lesson_with_a_word_diff(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, guideline="Check the fare class first.")
    existing = make_heuristic(project=project, status="approved", guideline="Check the cabin class first.")
    embed(proposal, 0.96, 0.28)
    embed(existing, 1, 0)

    html = page(reviewer, proposal)

    assert "96 % alike" in html
    assert "Check the <del>cabin</del><ins>fare</ins> class first." in html


def test_desk_leaves_out_lessons_that_are_not_close(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project)
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, status="approved"), 0, 1)
    embed(make_heuristic(project=project, status="rejected"), 1, 0)
    embed(make_heuristic(), 1, 0)  # another project's

    assert "No other lesson is close to it" in page(reviewer, proposal)


def test_desk_warns_of_a_possible_contradiction(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, polarity="works")
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, polarity="avoid"), 1, 0)

    assert "contradiction?" in page(reviewer, proposal)


def test_desk_warns_where_one_tells_to_do_what_the_other_tells_to_avoid(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, guideline="Cancel the reservation at once.")
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, avoid="cancel a reservation at once"), 1, 0)

    assert "What one tells to do, the other tells to avoid" in page(reviewer, proposal)


def test_desk_shows_what_the_checks_found(reviewer: Client) -> None:
    trajectory = make_trajectory()
    heuristic = make_heuristic(trajectory=trajectory)
    Proposal.objects.create(
        project=trajectory.project,
        heuristic=heuristic,
        effect="new",
        ordinal=1,
        reflection=make_reflection(trajectory=trajectory, cost_usd="0.0123"),
        findings=[{"code": "url", "message": "The lesson contains <a> web address."}],
    )

    html = page(reviewer, heuristic)

    assert "The lesson contains &lt;a&gt; web address." in html
    assert "$0.0123" in html


def test_desk_says_what_the_lesson_costs_each_time(reviewer: Client) -> None:
    assert "21 tokens each time" in page(
        reviewer, make_heuristic(trigger="a refund is asked for", guideline="Look up the fare class before anything.")
    )


def test_desk_says_how_the_runs_that_were_given_it_ended(reviewer: Client) -> None:
    heuristic = make_heuristic(status="approved")
    retrieval = make_retrieval(project=heuristic.project, heuristic_ids=[heuristic.pk])
    make_trajectory(project=heuristic.project, retrieval=retrieval, outcome="success", score=1)

    html = page(reviewer, heuristic)

    assert "Given to agents 1 time," in html
    assert "1 succeeded and 0 failed" in html


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
    assert 'class="undo"' in html
    undo = reverse("admin:memory_heuristic_undo", args=[Review.objects.get().pk])
    html = reviewer.post(undo, follow=True).content.decode()

    heuristic.refresh_from_db()
    assert heuristic.status == "proposed"
    assert "Undone. It waits for a decision again" in html
    assert 'class="undo"' not in html


def test_undone_retirement_says_that_it_is_served(reviewer: Client) -> None:
    heuristic = make_heuristic()
    decide(reviewer, heuristic, "approve")
    decide(reviewer, heuristic, "retire", reason="wrong")

    undo = reverse("admin:memory_heuristic_undo", args=[Review.objects.get(decision="retire").pk])
    html = reviewer.post(undo, follow=True).content.decode()

    heuristic.refresh_from_db()
    assert heuristic.status == "approved"
    assert "Undone. It is served again" in html
    assert 'class="undo"' not in html


def test_undo_without_the_permission_is_refused(reviewer: Client) -> None:
    heuristic = make_heuristic()
    decide(reviewer, heuristic, "approve")
    get_user_model().objects.get().user_permissions.set(Permission.objects.filter(codename="view_heuristic"))

    response = reviewer.post(reverse("admin:memory_heuristic_undo", args=[Review.objects.get().pk]))

    assert response.status_code == 403
    assert Review.objects.count() == 1


def test_undo_by_a_link_is_refused(reviewer: Client) -> None:
    decide(reviewer, make_heuristic(), "approve")

    assert reviewer.get(reverse("admin:memory_heuristic_undo", args=[Review.objects.get().pk])).status_code == 405


def test_timeline_tells_the_whole_life(reviewer: Client) -> None:
    heuristic = make_heuristic(guideline="first words")
    approve_heuristic(heuristic, by=ANA, reason="sound", seconds_on_screen=6)
    revise_heuristic(heuristic, text=LessonText(trigger="x", guideline="second words"), by=Actor(label="user:ben"))

    html = page(reviewer, heuristic)

    assert "<strong>Approved</strong> by user:ana after 6 s: sound" in html
    assert "<strong>Revision 2 written</strong> by user:ben" in html
    assert "<del>first</del><ins>second</ins> words" in html


def test_restored_revision_is_proposed_again(reviewer: Client) -> None:
    heuristic = make_heuristic(trigger="x", guideline="first words")
    revise_heuristic(heuristic, text=LessonText(trigger="x", guideline="second words"), by=ANA)

    html = decide(reviewer, heuristic, "restore", number=1)

    heuristic.refresh_from_db()
    assert (heuristic.current_revision.number, heuristic.current_revision.guideline) == (3, "first words")
    assert heuristic.status == "proposed"
    assert "The words of revision 1 are proposed again" in html


def test_restore_of_a_rejected_heuristic_puts_it_back_into_the_queue(reviewer: Client) -> None:
    heuristic = make_heuristic(status="rejected")

    decide(reviewer, heuristic, "restore", number=1)

    heuristic.refresh_from_db()
    assert heuristic.status == "proposed"


def test_restore_of_a_revision_that_is_not_there_says_so(reviewer: Client) -> None:
    assert "no revision 9" in decide(reviewer, make_heuristic(), "restore", number=9)


def test_desk_of_another_permission_is_forbidden(client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True))

    assert client.get(address(make_heuristic())).status_code == 403


def test_queue_can_be_walked_without_deciding(reviewer: Client) -> None:
    project = make_project()
    oldest, middle, newest = (make_heuristic(project=project) for _ in range(3))

    html = page(reviewer, middle)

    assert "2 of 3 waiting" in html
    assert f'rel="prev" href="{address(newest)}"' in html
    assert f'rel="next" href="{address(oldest)}"' in html
