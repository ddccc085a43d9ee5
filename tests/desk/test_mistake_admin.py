"""The pages of mistake cards and scores: what they show, who may decide."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.mistakes.similarity import merge_similar
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.review.models import Review
from tests.factories import make_project

pytestmark = pytest.mark.django_db
CARDS = [
    {
        "mistake_type": "wrong_fare",
        "bad_decision": "Cancelled <b>basic economy</b>\u202e.",
        "correct_decision": "Check the time of booking.",
        "evidence": "Error in step 4.",
        "lesson": "24 hours only.",
    },
    {"mistake_type": "wrong_fare", "bad_decision": "Cancelled <b>basic economy</b>.", "lesson": "24 hours only."},
]


@pytest.fixture
def card() -> MistakeCard:
    data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "score": 0.25, "mistake_cards": CARDS[:1]}
    record_trajectory(make_project(), data=data, by=Actor(label="key:a"), reflect=False)
    return MistakeCard.objects.get()


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("ana"))
    return client


def page_of(card: MistakeCard) -> str:
    return reverse("admin:inbox_item", args=["card", card.pk])


def decide(client: Client, card: MistakeCard, decision: str, **data: Any) -> str:
    response = client.post(page_of(card), {"decision": decision, **data}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def merged_pair(card: MistakeCard) -> tuple[MistakeCard, MistakeCard]:
    """Return the card that was merged, and the one it was merged into."""
    data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "mistake_cards": CARDS[1:]}
    record_trajectory(card.project, data=data, by=Actor(label="key:a"), reflect=False)
    for each in MistakeCard.objects.order_by("pk"):
        merge_similar(each.pk)
    merged = MistakeCard.objects.get(superseded_by__isnull=False)
    return merged, MistakeCard.objects.get(pk=merged.superseded_by_id)


def test_list_shows_the_cards_that_count_for_themselves(
    admin: Client, card: MistakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.mistakes.similarity.MERGE_SIMILARITY", 0.5)
    merged, into = merged_pair(card)

    page = admin.get(reverse("admin:memory_mistakecard_changelist")).content.decode()
    assert str(into.pk) in page
    assert str(merged.pk) not in page


def test_desk_shows_words_run_and_evidence_escaped(admin: Client, card: MistakeCard) -> None:
    page = admin.get(page_of(card)).content.decode()

    assert "Cancelled &lt;b&gt;basic economy&lt;/b&gt;⟨U+202E⟩." in page
    assert "Error in step 4." in page
    assert "seen 1×" in page


def test_desk_takes_a_fixed_number_of_queries(
    admin: Client, card: MistakeCard, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "mistake_cards": CARDS[:1]}
        record_trajectory(card.project, data=data, by=Actor(label="key:a"), reflect=False)

    with django_assert_max_num_queries(50):
        admin.get(page_of(card))


def test_reviewer_approves_what_was_read(admin: Client, card: MistakeCard) -> None:
    assert card.current_revision is not None
    page = decide(admin, card, "approve", content_sha256=card.current_revision.content_sha256, reason="True.")

    assert "Agents get it" in page
    review = Review.objects.get()
    assert (review.reviewer, review.decision, review.reason) == ("user:ana", "approve", "True.")


def test_words_that_changed_are_not_approved(admin: Client, card: MistakeCard) -> None:
    assert "changed after you read it" in decide(admin, card, "approve", content_sha256="0" * 64)


@pytest.mark.parametrize("decision", ["retire", "confirm_count", "merge", "undo_merge", "explode"])
def test_decision_that_cannot_be_taken_says_so(admin: Client, card: MistakeCard, decision: str) -> None:
    assert "errornote" in (page := decide(admin, card, decision)) or 'class="error"' in page
    assert not Review.objects.exists()


def test_merge_is_shown_and_can_be_undone(admin: Client, card: MistakeCard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.mistakes.similarity.MERGE_SIMILARITY", 0.5)
    merged, into = merged_pair(card)
    assert "policy mistake-similarity" in admin.get(page_of(into)).content.decode()

    page = decide(admin, into, "undo_merge", merge=str(merged.pk))

    assert "ana undid the merge" in page
    assert MistakeCard.objects.unmerged().count() == 2


def in_bulk(client: Client, action: str, cards: list[MistakeCard]) -> str:
    data = {"action": action, "_selected_action": [str(card.pk) for card in cards]}
    url = reverse("admin:memory_mistakecard_changelist")
    return client.post(url, data, follow=True).content.decode()


def test_selected_cards_are_rejected_and_not_approved(admin: Client, card: MistakeCard) -> None:
    in_bulk(admin, "approve_selected", [card])
    assert not Review.objects.exists()

    assert "Rejected. Its runs are still counted." in in_bulk(admin, "reject_selected", [card])
    assert Review.objects.get().decision == "reject"


def test_at_most_twenty_are_decided_at_once(admin: Client, card: MistakeCard) -> None:
    mistakes = [CARDS[0] | {"mistake_type": f"type {number}"} for number in range(20)]
    data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "mistake_cards": mistakes}
    record_trajectory(card.project, data=data, by=Actor(label="key:a"), reflect=False)

    page = in_bulk(admin, "reject_selected", list(MistakeCard.objects.all()))

    assert "At most 20 can be decided at once" in page
    assert not Review.objects.exists()


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_decision_without_the_hash_of_the_words_is_refused(admin: Client, card: MistakeCard, decision: str) -> None:
    assert "does not say which words you read" in decide(admin, card, decision)
    assert not Review.objects.exists()


def looker(client: Client, card: MistakeCard, *codenames: str, role: str = "") -> Client:
    user = get_user_model().objects.create_user("eva", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    if role:
        ProjectMembership.objects.create(project=card.project, user=user, role=role)
    client.force_login(user)
    return client


def test_viewing_a_card_does_not_allow_deciding(client: Client, card: MistakeCard) -> None:
    looker(client, card, "view_mistakecard", role="reviewer")

    assert client.get(page_of(card)).status_code == 200
    assert client.post(page_of(card), {"decision": "approve"}).status_code == 403
    assert not Review.objects.exists()


def test_reviewer_of_another_project_does_not_see_it(client: Client, card: MistakeCard) -> None:
    looker(client, card, "view_mistakecard", "review_mistakecard", "view_trajectory")

    client.post(page_of(card), {"decision": "approve"})
    assert not Review.objects.exists()
    assert b"airline" not in client.get(reverse("admin:memory_scores"), {"project": str(card.project_id)}).content


def test_scores_are_drawn_with_their_runs(admin: Client, card: MistakeCard) -> None:
    page = admin.get(reverse("admin:memory_scores"), {"project": str(card.project_id)}).content.decode()

    assert 'aria-label="1 run' in page
    assert "mean 0.25" in page
    assert reverse("admin:memory_trajectory_change", args=[card.first_seen_id]) in page


def test_scores_need_the_permission_to_see_runs(client: Client, card: MistakeCard) -> None:
    looker(client, card, "view_mistakecard", role="reviewer")

    assert client.get(reverse("admin:memory_scores")).status_code == 403


def test_page_of_a_run_names_its_cards(admin: Client, card: MistakeCard) -> None:
    page = admin.get(reverse("admin:memory_trajectory_change", args=[card.first_seen_id])).content.decode()

    assert reverse("admin:memory_mistakecard_change", args=[card.pk]) in page
