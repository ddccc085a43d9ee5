"""Mistake cards: counted by run and client, merged, and forgotten with their runs."""

import pytest

from memory.errors import AlreadyDecided
from memory.heuristics.models import HeuristicRevision
from memory.mistakes.merge import merge_cards, undo_merge
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.projects.models import Project
from memory.trust.erasure import erase_trajectory
from tests.factories import approve_card_as_read
from tests.memory.mistakes import ANA, CARD, OTHER, PARAPHRASE, merged_card, only_card, record, served_words

pytestmark = pytest.mark.django_db


def test_card_of_a_run_waits_for_review(project: Project) -> None:
    run = record(project, CARD)

    card = only_card()
    assert (card.status, card.support, card.first_seen_id, card.last_seen_id) == ("proposed", 1, run.pk, run.pk)
    assert (card.task_id, card.worker_id) == ("airline", "bot")
    assert served_words(card) == []


def test_same_mistake_is_one_card_whatever_its_case_and_spaces(project: Project) -> None:
    record(project, CARD)
    last = record(project, CARD | {"correct_decision": " check the time of BOOKING  before cancelling"})

    assert (only_card().support, only_card().last_seen_id) == (2, last.pk)


def test_run_counts_once_however_often_it_reports_a_mistake(project: Project) -> None:
    record(project, CARD, CARD, CARD)

    assert only_card().support == 1


@pytest.mark.parametrize("different", ["mistake_type", "task_id", "worker_id"])
def test_another_type_family_or_worker_is_another_card(
    project: Project, different: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.mistakes.similarity.MERGE_SIMILARITY", 2.0)
    record(project, CARD, CARD | {different: "other"})

    assert MistakeCard.objects.count() == 2


def test_runs_of_one_client_count_up_to_the_limit(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.mistakes.counts.SIGHTINGS_PER_CLIENT", 3)
    monkeypatch.setattr("memory.mistakes.sightings.SIGHTINGS_PER_CLIENT", 3)
    for _ in range(5):
        record(project, CARD, client="loud")
    record(project, CARD, client="quiet")

    card = only_card()
    assert (card.support, card.evidence.count()) == (4, 6)


def test_paraphrase_is_merged_visibly(project: Project) -> None:
    record(project, CARD)
    record(project, PARAPHRASE)

    card = merged_card()
    assert card.newest.guideline == PARAPHRASE["correct_decision"]
    assert card.merge is not None
    assert card.merge["by"] == "policy:mistake-similarity"
    assert card.merge["similarity"] > 0.93
    assert MistakeCard.objects.get(pk=card.superseded_by_id).support == 2


def test_different_mistake_is_not_merged(project: Project) -> None:
    record(project, CARD)
    record(project, OTHER)

    assert MistakeCard.objects.unmerged().count() == 2


def test_undone_merge_counts_both_again_and_stays_undone(project: Project) -> None:
    record(project, CARD)
    record(project, PARAPHRASE)
    card = undo_merge(merged_card(), by=ANA)
    settle_cards([card.pk], new_ids=[card.pk])

    assert [c.support for c in MistakeCard.objects.unmerged()] == [1, 1]
    assert [merge["undone_by"] for merge in card.undone_merges] == ["user:ana"]
    with pytest.raises(AlreadyDecided):
        undo_merge(card, by=ANA)


def test_undone_merge_serves_what_was_served(project: Project) -> None:
    record(project, CARD)
    record(project, OTHER)
    card = approve_card_as_read(MistakeCard.objects.get(current_revision__trigger="wrong_fare"), by=ANA)

    merge = merge_cards(card, into=MistakeCard.objects.get(current_revision__trigger="gift_card_balance"), by=ANA)
    assert served_words(card) == []
    undo_merge(merge, by=ANA)
    assert served_words(card) == [CARD["lesson"]]


def test_erasing_the_only_run_deletes_the_card(project: Project) -> None:
    run = record(project, CARD)
    approve_card_as_read(only_card(), by=ANA)

    erase_trajectory(run, by=ANA)

    assert not MistakeCard.objects.exists()
    assert not HeuristicRevision.objects.exists()


def test_erasing_one_of_two_runs_recounts_and_drops_its_words(project: Project) -> None:
    first = record(project, CARD)
    last = record(project, CARD | {"lesson": "A lesson of the second run."})

    erase_trajectory(last, by=ANA)

    card = only_card()
    assert card.current_revision is not None
    assert (card.support, card.last_seen_id, card.current_revision.rationale) == (1, first.pk, CARD["lesson"])


def test_opposite_mistake_is_another_card(project: Project) -> None:
    record(project, CARD)
    record(project, CARD | {"correct_decision": "Check the time of booking after cancelling."})

    assert MistakeCard.objects.unmerged().count() == 2
