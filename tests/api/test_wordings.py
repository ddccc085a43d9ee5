"""The other wordings of a proposal, and what an approval closed, as an API client reads them."""

import pytest
from rest_framework.test import APIClient

from memory.curation.evidence import add_evidence
from memory.curation.proposal_groups import join_group
from memory.heuristics.models import Heuristic
from memory.heuristics.text import Citation
from memory.projects.models import Project
from tests.factories import approve_as_read, make_heuristic, make_trajectory, read
from tests.reflection.test_proposal_groups import BY

pytestmark = pytest.mark.django_db

URL = "/api/v1/heuristics"


@pytest.fixture
def row(project: Project) -> tuple[Heuristic, Heuristic]:
    """A proposal that stands in the queue for another wording."""
    leader = make_heuristic(trajectory=make_trajectory(project=project))
    other = make_heuristic(
        trajectory=make_trajectory(project=project), guideline="Look at the fare class first, please."
    )
    assert join_group(other, leader=leader)
    return leader, other


def test_proposal_lists_its_other_wordings(api_client: APIClient, row: tuple[Heuristic, Heuristic]) -> None:
    leader, other = row

    body = api_client.get(f"{URL}/{leader.pk}").json()

    [wording] = body["wordings"]
    assert (wording["heuristic_id"], wording["guideline"]) == (str(other.pk), "Look at the fare class first, please.")
    assert (wording["content_sha256"], body["merged_ids"]) == (read(other), [])


def test_filter_finds_the_other_wordings_of_a_proposal(api_client: APIClient, row: tuple[Heuristic, Heuristic]) -> None:
    leader, other = row

    body = api_client.get(URL, {"leader_id": str(leader.pk)}).json()

    assert [each["id"] for each in body["results"]] == [str(other.pk)]


def test_approval_names_the_wordings_it_closed(api_client: APIClient, row: tuple[Heuristic, Heuristic]) -> None:
    leader, other = row

    body = api_client.post(f"{URL}/{leader.pk}/approve", {"content_sha256": read(leader)}).json()

    assert (body["status"], body["merged_ids"], body["wordings"]) == ("approved", [str(other.pk)], [])
    decisions = {each["heuristic_id"]: each for each in api_client.get("/api/v1/reviews").json()["results"]}
    assert decisions[str(other.pk)]["decided_with"] == decisions[str(leader.pk)]["id"]


def test_support_says_which_runs_count(api_client: APIClient, project: Project) -> None:
    heuristic = make_heuristic(trajectory=make_trajectory(project=project))
    approve_as_read(heuristic, by=BY)
    add_evidence(heuristic, make_trajectory(project=project), citations=[Citation(first_step=1, last_step=1)])

    body = api_client.get(f"{URL}/{heuristic.pk}").json()

    assert (body["support"], body["approved_support"]) == (2, 1)
    assert [each["counts"] for each in body["evidence"]] == [True, False]
