"""Two heuristics that say the same become one."""

import pytest

from memory.curation.merge import merge_heuristics
from memory.curation.reviewers import claim_heuristic
from memory.errors import AlreadyDecided, CannotMerge, ClaimedByOther
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from tests.factories import make_heuristic, make_member, make_project, make_trajectory

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")


def pair(*, status: str = "approved") -> tuple[Heuristic, Heuristic]:
    project = make_project()
    existing = make_heuristic(trajectory=make_trajectory(project=project), status=status, guideline="old words")
    return make_heuristic(trajectory=make_trajectory(project=project), guideline="new words"), existing


def served_guidelines(project: Project) -> list[str]:
    return list(HeuristicRevision.objects.filter(project=project, served=True).values_list("guideline", flat=True))


def test_merge_adds_up_support_and_evidence() -> None:
    proposal, existing = pair()

    kept = merge_heuristics(proposal, into=existing, by=ANA)

    assert (kept.pk, kept.support, kept.evidence.count()) == (existing.pk, 2, 2)


def test_merge_counts_a_run_that_both_cite_once() -> None:
    run = make_trajectory()
    proposal, existing = make_heuristic(trajectory=run), make_heuristic(trajectory=run, status="approved")

    assert merge_heuristics(proposal, into=existing, by=ANA).support == 1


def test_merged_heuristic_is_superseded_and_keeps_its_words_and_evidence() -> None:
    proposal, existing = pair()

    merge_heuristics(proposal, into=existing, by=ANA, reason="same")

    proposal.refresh_from_db()
    assert (proposal.status, proposal.superseded_by, proposal.evidence.count()) == ("superseded", existing, 1)
    review = Review.objects.get()
    assert (review.heuristic, review.decision, review.reason) == (proposal, "merge", "same")


def test_merge_into_a_proposal_leaves_it_waiting() -> None:
    proposal, existing = pair(status="proposed")

    merge_heuristics(proposal, into=existing, take_wording=True, by=ANA)

    existing.refresh_from_db()
    assert (existing.status, served_guidelines(existing.project)) == ("proposed", [])


def test_merge_across_projects_is_refused() -> None:
    with pytest.raises(CannotMerge):
        merge_heuristics(make_heuristic(), into=make_heuristic(), by=ANA)


def test_merge_into_a_rejected_one_is_refused() -> None:
    proposal, existing = pair(status="rejected")
    with pytest.raises(AlreadyDecided):
        merge_heuristics(proposal, into=existing, by=ANA)


def test_merge_into_what_another_reviewer_is_on_is_refused() -> None:
    proposal, existing = pair(status="proposed")
    ben, eve = make_member("ben"), make_member("eve")
    assert existing.current_revision is not None
    claim_heuristic(existing, user_id=eve.pk)

    with pytest.raises(ClaimedByOther):
        merge_heuristics(proposal, into=existing, by=Actor.person(ben))
