"""The inbox without script: what it lists, and deciding by its forms and links alone."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from desk.shell.word_diff import DiffPart, diff_words
from memory.curation.proposal_groups import join_group
from memory.heuristics.models import Heuristic
from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.review.models import Review
from tests.desk.desk_pages import ANA, hold, log_in
from tests.factories import approve_as_read, make_heuristic, make_member, make_project, make_trajectory, require_two

pytestmark = pytest.mark.django_db
INBOX = "/admin/inbox/"


def address(heuristic: Heuristic, kind: str = "lesson", query: str = "") -> str:
    return reverse("admin:inbox_item", args=[kind, heuristic.pk]) + query


def titles(html: str) -> list[str]:
    return [part.partition("<")[0] for part in html.split('<span class="row-title">')[1:]]


def decide(client: Client, at: str, heuristic: Heuristic, decision: str, **values: Any) -> Any:
    assert heuristic.current_revision is not None
    sent = {"decision": decision, "content_sha256": heuristic.current_revision.content_sha256} | values
    return client.post(at, sent, headers=values.pop("headers", {}))


def read(client: Client, path: str = INBOX) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_inbox_lists_what_waits_and_shows_the_first(reviewer: Client) -> None:
    project = make_project()
    make_heuristic(project=project, trigger="the older one", guideline="Call `get_user`.")
    make_heuristic(project=project, trigger="the newer one", status="approved")

    html = read(reviewer)

    assert titles(html) == ["the older one"]
    assert "→ Call <code>get_user</code>." in html
    assert 'data-field="guideline">Call <code>get_user</code>.</dd>' in html


def test_one_row_stands_for_all_wordings_of_the_same_advice(reviewer: Client) -> None:
    project = make_project()
    shown, other = (make_heuristic(trajectory=make_trajectory(project=project), trigger=each) for each in ("a", "b"))
    join_group(other, leader=shown)

    html = read(reviewer)

    assert titles(html) == ["a"]
    assert "2 wordings, 2 runs" in html


def test_other_kinds_can_be_chosen_while_one_is_shown(client: Client, card: MistakeCard) -> None:
    client.force_login(get_user_model().objects.create_superuser("ana"))
    make_heuristic(project=card.project)

    html = read(client, f"{INBOX}?kind=card")

    assert titles(html) == ["Cancelled it."]
    assert 'href="/admin/inbox/?kind=lesson"' in html


def test_decision_leads_to_the_next_item_with_the_filters_kept(reviewer: Client) -> None:
    project = make_project()
    last, other, first = (make_heuristic(project=project, task_id=each) for each in ("retail", "airline", "retail"))
    query = "?kind=lesson&family=retail"
    html = read(reviewer, address(first, query=query))
    assert f'name="next" value="lesson/{last.pk}"' in html

    response = decide(reviewer, address(first, query=query), first, "approve", next=f"lesson/{last.pk}")

    assert response["Location"] == address(last, query="?kind=lesson&family=retail")
    assert Review.objects.get().subject_id == first.pk
    assert str(other.pk) not in html


def test_next_passes_over_what_others_have_claimed(reviewer: Client) -> None:
    project = make_project()
    free, claimed, shown = (make_heuristic(project=project) for _ in range(3))
    hold(log_in("ben"), claimed)

    html = read(reviewer, address(shown))

    assert f'name="next" value="lesson/{free.pk}"' in html
    assert "with ben" in html


def test_looking_claims_nothing(reviewer: Client) -> None:
    heuristic = make_heuristic()

    read(reviewer, address(heuristic))
    assert not Heuristic.objects.claimed().exists()
    hold(reviewer, heuristic)
    assert Heuristic.objects.claimed().get() == heuristic
    reviewer.post(reverse("admin:inbox_release", args=["lesson", heuristic.pk]))

    assert not Heuristic.objects.claimed().exists()


def test_rejection_without_a_reason_is_asked_for_one(reviewer: Client) -> None:
    heuristic = make_heuristic()

    html = decide(reviewer, address(heuristic), heuristic, "reject").content.decode()

    assert "Choose a reason or write one" in html
    assert not Review.objects.exists()


def test_next_page_offers_to_undo_and_undoing_shows_the_item_again(reviewer: Client) -> None:
    project = make_project()
    following, first = (make_heuristic(project=project) for _ in range(2))
    response = decide(reviewer, address(first), first, "approve", next=f"lesson/{following.pk}")
    html = read(reviewer, response["Location"])
    review = Review.objects.get()
    assert f'name="token" value="{review.pk}"' in html
    assert html.count("Approved. Agents get this lesson") == 1  # and not in a second banner

    sent = {"kind": "lesson", "item": f"lesson/{first.pk}", "token": str(review.pk)}
    response = reviewer.post(reverse("admin:inbox_undo") + "?family=-", sent)

    first.refresh_from_db()
    assert (first.status, response["Location"]) == ("proposed", address(first, query="?family=-"))


def test_second_approval_waits_for_the_other_reviewer_alone() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    require_two(heuristic.project)
    decide(ana, address(heuristic), heuristic, "approve")

    assert titles(read(ana)) == []
    html = read(ben)
    assert 'data-kind="second"' in html
    assert "Your approval is the second" in html


def test_list_costs_the_same_queries_however_long_it_is(reviewer: Client) -> None:
    project = make_project()
    make_heuristic(trajectory=make_trajectory(project=project))
    read(reviewer)

    with CaptureQueriesContext(connection) as few:
        read(reviewer)
    for _ in range(4):
        make_heuristic(trajectory=make_trajectory(project=project))
    with CaptureQueriesContext(connection) as many:
        read(reviewer)

    assert len(many) == len(few)


def test_member_of_no_project_is_told_so(client: Client) -> None:
    make_heuristic()
    client.force_login(make_member("eve"))
    ProjectMembership.objects.all().delete()

    assert "You are not a member of any project" in read(client)


def test_item_of_another_project_is_not_found(client: Client) -> None:
    heuristic = make_heuristic()
    client.force_login(make_member("eve", project=make_project()))

    response = client.get(address(heuristic), headers={"HX-Request": "true"})

    assert response.status_code == 404


def test_withdrawn_lesson_stays_on_the_page(reviewer: Client) -> None:
    """Where the next item was shown after a withdrawal, `a` approved an unrelated proposal."""
    heuristic = make_heuristic()
    make_heuristic(project=heuristic.project)
    approve_as_read(heuristic, by=ANA)
    own = reverse("admin:memory_heuristic_change", args=[heuristic.pk])
    assert reviewer.get(own)["Location"] == address(heuristic)
    following = re.search(r'name="next" value="([^"]+)"', read(reviewer, address(heuristic)))
    assert following is not None

    response = decide(reviewer, address(heuristic), heuristic, "retire", reason="wrong", next=following[1])

    assert response["Location"] == address(heuristic)


# ── Mistake cards ──


@pytest.fixture
def card() -> MistakeCard:
    card = {"mistake_type": "wrong_fare", "bad_decision": "Cancelled it.", "correct_decision": "Look first."}
    data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "mistake_cards": [card]}
    record_trajectory(make_project(), data=data, by=Actor(label="key:a"), reflect=False)
    return MistakeCard.objects.get()


def test_card_is_decided_and_the_decision_undone(client: Client, card: MistakeCard) -> None:
    client.force_login(get_user_model().objects.create_superuser("ana"))
    assert titles(read(client)) == ["Cancelled it."]
    at = reverse("admin:inbox_item", args=["card", card.pk])
    sha256 = card.current_revision.content_sha256  # type: ignore[union-attr]
    sent = {"decision": "reject", "content_sha256": sha256, "reason_code": "Not a mistake"}

    answer = client.post(at, sent, headers={"Accept": "application/json"}).json()
    assert answer["said"] == "Rejected. Its runs are still counted."
    assert titles(read(client)) == []
    client.post(reverse("admin:inbox_undo"), {"kind": "card", "item": f"card/{card.pk}", "token": answer["undo"]})

    assert titles(read(client)) == ["Cancelled it."]
    assert list(card.reviews.values_list("decision", "reason")) == [("reject", "Not a mistake")]


def test_approved_card_is_taken_out_of_use_when_undone(client: Client, card: MistakeCard) -> None:
    client.force_login(get_user_model().objects.create_superuser("ana"))
    at = reverse("admin:inbox_item", args=["card", card.pk])
    sha256 = card.current_revision.content_sha256  # type: ignore[union-attr]
    sent = {"decision": "approve", "content_sha256": sha256}
    answer = client.post(at, sent, headers={"Accept": "application/json"}).json()

    client.post(reverse("admin:inbox_undo"), {"kind": "card", "item": f"card/{card.pk}", "token": answer["undo"]})

    card.refresh_from_db()
    assert (card.status, card.revisions.filter(served=True).exists()) == ("proposed", False)


# ── Texts ──


def test_texts_that_share_little_are_shown_side_by_side() -> None:
    old, new = "Look up the fare class before cancelling.", "Retry with another currency and say why it failed."

    assert diff_words(old, new) == [DiffPart(kind="removed", text=old), DiffPart(kind="added", text=new)]


def test_changed_words_in_a_row_are_one_change() -> None:
    parts = diff_words("Say that recorded runs the rule is met.", "Say that 2 within in rule is met.")

    assert [part.text for part in parts if part.kind == "removed"] == ["recorded runs the"]
    assert [part.text for part in parts if part.kind == "added"] == ["2 within in"]


@pytest.mark.parametrize(
    ("status", "minutes", "said"),
    [
        ("approved", 28, "compared with recorded tasks only while they wait"),
        ("proposed", 28, "no worker has compared it"),
        ("proposed", 0, "A worker is finding out"),
    ],
)
def test_effect_promises_a_comparison_only_while_one_is_coming(
    reviewer: Client, status: str, minutes: int, said: str
) -> None:
    heuristic = make_heuristic(status=status)
    Heuristic.objects.update(created_at=timezone.now() - timedelta(minutes=minutes))

    assert said in read(reviewer, reverse("admin:inbox_tab", args=["lesson", heuristic.pk, "effect"]))


def test_decision_without_a_cookie_is_refused_on_a_page_to_read() -> None:
    heuristic = make_heuristic()
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member("ana"))

    response = decide(client, address(heuristic), heuristic, "approve")

    assert response.status_code == 403
    assert "Nothing was changed. ERL needs a cookie" in response.content.decode()
