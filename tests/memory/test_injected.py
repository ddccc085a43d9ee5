"""A lesson counts as given where it stood in the block of an answer, and every page and the API count the same."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.effects.feedback import Feedback, record_feedback
from memory.effects.outcomes import count_by_heuristic
from memory.retrieval.models import Retrieval
from memory.trust.carried import find_carried
from tests.factories import bearer, make_api_key, make_heuristic, make_project, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db


class World:
    """Three answers gave a lesson, and four only listed it; the runs of all of them ended one way or the other."""

    def __init__(self) -> None:
        self.project = make_project()
        self.heuristic = make_heuristic(project=self.project, status="approved", trigger="a refund is asked for")
        self.given = [self._answer(injected=True, outcome=each) for each in ("success", "failure", "unknown")]
        self.listed = [self._answer(injected=False, outcome="failure") for _ in range(4)]

    def _answer(self, *, injected: bool, outcome: str) -> Retrieval:
        item = {
            "heuristic": str(self.heuristic.pk),
            "revision": 1,
            "content_sha256": "",
            "scores": {},
            "reason": "",
            "injected": injected,
        }
        ids = [self.heuristic.pk]
        answer = make_retrieval(
            project=self.project, heuristic_ids=ids, injected_ids=ids if injected else [], items=[item]
        )
        make_trajectory(project=self.project, retrieval=answer, outcome=outcome)
        return answer


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(admin_client: Client) -> Client:
    return admin_client


def read(client: Client, name: str, *args: Any) -> str:
    return " ".join(client.get(reverse(f"admin:{name}", args=args)).content.decode().split())


def test_count_leaves_out_what_was_only_listed(world: World) -> None:
    counted = count_by_heuristic([world.project.pk])[world.heuristic.pk]

    assert (counted.answers, counted.runs, counted.successes, counted.failures) == (3, 3, 1, 1)


def test_desk_says_what_the_count_says(world: World, admin: Client) -> None:
    page = read(admin, "inbox_tab", "lesson", world.heuristic.pk, "effect")

    assert "Given in 3 answers" in page
    assert "Of the runs given it, 1 succeeded and 1 failed." in page


def test_list_says_what_the_count_says(world: World, admin: Client) -> None:
    page = read(admin, "memory_heuristic_changelist")

    assert "3×, 1 succeeded, 1 failed" in page


def test_outcomes_page_says_what_the_count_says(world: World, admin: Client) -> None:
    page = read(admin, "memory_retrieval_outcomes")

    row = page.split('id="lessons"')[1].split("<tr>")[2]
    assert [cell.split("<")[0] for cell in row.split("<td>")[1:]] == ["3", "3", "1", "1", "50% (9–91%, 2 runs)"]


def test_api_says_what_the_count_says(world: World, client: Client) -> None:
    key = make_api_key(project=world.project)

    body = client.get("/api/v1/retrievals/outcomes", headers=bearer(key.token)).json()

    figures = {"answers": 3, "runs": 3, "successes": 1, "failures": 1, "success_rate": 0.5, "mean_score": 0.0}
    assert body["by_lesson"] == [{"heuristic": str(world.heuristic.pk), **figures}]


def test_run_page_says_what_the_count_says(world: World, admin: Client) -> None:
    page = read(admin, "memory_trajectory_change", world.given[0].trajectories.get().pk)

    assert "of all runs given it, 1 succeeded and 1 failed" in page


def test_run_page_of_a_lesson_only_listed_names_none(world: World, admin: Client) -> None:
    page = read(admin, "memory_trajectory_change", world.listed[0].trajectories.get().pk)

    assert "Its answer contained no lessons." in page


def test_list_of_runs_given_lessons_leaves_the_others_out(world: World, admin: Client) -> None:
    page = admin.get(reverse("admin:memory_trajectory_changelist"), {"given": "yes"})

    assert page.context["cl"].result_count == 3


def test_list_of_runs_marks_those_given_lessons(world: World, admin: Client) -> None:
    page = read(admin, "memory_trajectory_changelist")

    assert page.count('class="field-was_given">given</td>') == len(world.given)


def test_quarantine_names_the_answers_that_gave_it(world: World) -> None:
    carried = find_carried(world.project, set(world.heuristic.revisions.values_list("pk", flat=True)))

    assert {each.retrieval_id for each in carried} == {each.pk for each in world.given}


def test_feedback_of_a_run_that_was_not_given_it_counts_for_nothing(world: World) -> None:
    followed = Feedback(verdict="followed")

    record_feedback(world.heuristic, followed, client="agent", trajectory=world.listed[0].trajectories.get())
    record_feedback(world.heuristic, followed, client="agent", retrieval=world.listed[1])
    record_feedback(world.heuristic, followed, client="agent", trajectory=world.given[0].trajectories.get())

    world.heuristic.refresh_from_db()
    assert (world.heuristic.usefulness_basis["runs"], world.heuristic.usefulness_basis["followed_success"]) == (1, 1)
