"""The queue: its order and the reason for it, and its filters."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.curation.priority import prioritise_heuristics, prioritise_queue
from memory.heuristics.models import Heuristic, SavedFilter
from memory.index.recent_tasks import find_projects_to_remember, remember_tasks
from memory.retrieval.models import EmbeddingModel, TaskVector
from memory.retrieval.ranking import FLOORS
from memory.review.models import Review
from memory.runs.models import Trajectory
from reflection.reflectors.models import Proposal, Reflection
from tests.desk.desk_pages import embed, hold, model
from tests.factories import make_heuristic, make_member, make_project, make_reflection, make_trajectory

pytestmark = pytest.mark.django_db
QUEUE = "?status__exact=proposed"


def remember(trajectory: Trajectory, *vector: float) -> Trajectory:
    TaskVector.objects.create(
        trajectory=trajectory,
        project=trajectory.project,
        embedding_model=model(),
        vector=list(vector),
        recorded_at=trajectory.created_at,
    )
    return trajectory


def flag(heuristic: Heuristic, code: str = "url") -> None:
    Proposal.objects.create(
        project=heuristic.project,
        heuristic=heuristic,
        effect="new",
        ordinal=1,
        reflection=make_reflection(trajectory=make_trajectory(project=heuristic.project)),
        findings=[{"code": code, "message": "The lesson contains a web address."}],
    )


def listed(client: Client, query: str = QUEUE) -> list[Heuristic]:
    response = client.get(reverse("admin:memory_heuristic_changelist") + query)
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def address(heuristic: Heuristic, query: str = "") -> str:
    return reverse("admin:inbox_item", args=["lesson", heuristic.pk]) + query


# ── Order ──


def test_lesson_that_fits_more_recent_tasks_comes_first(reviewer: Client) -> None:
    project = make_project()
    often, never = (make_heuristic(project=project) for _ in range(2))
    embed(often, 1, 0), embed(never, 0, 1)
    for _ in range(3):
        remember(make_trajectory(project=project), 1, 0)

    prioritise_heuristics([often.pk, never.pk])

    assert listed(reviewer) == [often, never]
    html = reviewer.get(reverse("admin:memory_heuristic_changelist") + QUEUE).content.decode()
    assert "fits 3 of the last 3 tasks, seen in 0 runs" in html
    assert "fits 0 of the last 3 tasks" in html


@pytest.mark.parametrize(("similarity", "matches"), [(FLOORS["hybrid"] + 0.02, 1), (FLOORS["hybrid"] - 0.02, 0)])
def test_lesson_fits_the_tasks_that_it_would_be_given_to(similarity: float, matches: int) -> None:
    heuristic = embed(make_heuristic(), 1, 0)
    remember(make_trajectory(project=heuristic.project), similarity, (1 - similarity**2) ** 0.5)

    prioritise_heuristics([heuristic.pk])

    heuristic.refresh_from_db()
    assert heuristic.review_basis["matches"] == matches


@pytest.mark.parametrize(
    ("floors", "task", "matches"),
    [
        ({"english": 0.25}, "这位顾客的订单能退款吗？", 0),
        ({"english": 0.25, "chinese": 0.8}, "这位顾客的订单能退款吗？", 0),
        ({"english": 0.25, "chinese": 0.5}, "这位顾客的订单能退款吗？", 1),
        ({"english": 0.8}, "Cancel the flight", 0),
        ({"english": 0.5, "growth": 0.1}, "Cancel the flight", 1),
        ({"english": 0.5, "growth": 0.1}, "Cancel the flight. " * 10, 0),
    ],
)
def test_floor_is_that_of_the_language_of_the_task(floors: dict[str, float], task: str, matches: int) -> None:
    heuristic = embed(make_heuristic(), 1, 0)
    EmbeddingModel.objects.update(floors=floors)
    remember(make_trajectory(project=heuristic.project, task=task), 0.6, 0.8)

    prioritise_heuristics([heuristic.pk])

    heuristic.refresh_from_db()
    assert heuristic.review_basis["matches"] == matches


def test_runs_it_was_learnt_from_do_not_count() -> None:
    trajectory = remember(make_trajectory(), 1, 0)
    heuristic = embed(make_heuristic(trajectory=trajectory), 1, 0)

    prioritise_heuristics([heuristic.pk])

    heuristic.refresh_from_db()
    assert (heuristic.review_basis["matches"], heuristic.review_basis["tasks"]) == (0, 0)


def test_harm_and_uncertainty_raise_the_priority(reviewer: Client) -> None:
    project = make_project()
    sure, single, flagged = (make_heuristic(project=project) for _ in range(3))
    Heuristic.objects.filter(pk=sure.pk).update(support=9)
    flag(flagged)

    prioritise_queue()

    assert listed(reviewer) == [flagged, single, sure]
    flagged.refresh_from_db()
    assert (flagged.risk_flags, flagged.review_basis["harm"]) == (["url"], 2.0)


def test_tasks_of_the_newest_runs_are_remembered_and_older_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.index.recent_tasks.RECENT_TASKS", 2)
    project = make_project()
    make_heuristic(project=project)
    oldest, middle, newest = (make_trajectory(project=project) for _ in range(3))
    remember(oldest, 1, 0)

    assert find_projects_to_remember() == [project.pk]
    remember_tasks(project.pk)

    assert set(TaskVector.objects.values_list("pk", flat=True)) == {middle.pk, newest.pk}
    assert find_projects_to_remember() == []


def test_desk_shows_the_tasks_it_fits_and_how_they_ended(reviewer: Client) -> None:
    project = make_project()
    heuristic = embed(make_heuristic(project=project), 1, 0)
    remember(make_trajectory(project=project, task="Change my seat", outcome="success", score=1), 1, 0)
    remember(make_trajectory(project=project, task="Write a poem"), 0, 1)

    html = reviewer.get(reverse("admin:inbox_tab", args=["lesson", heuristic.pk, "effect"])).content.decode()

    assert "It fits 1 recorded task" in html
    assert "Change my seat" in html
    assert "Write a poem" not in html


# ── Filters ──


def test_filters_leave_what_they_say(reviewer: Client) -> None:
    project = make_project()
    plain = make_heuristic(project=project, task_id="airline")
    flagged = make_heuristic(project=project, task_id="retail")
    flag(flagged, "injection")
    Heuristic.objects.filter(pk=flagged.pk).update(support=3)
    prioritise_queue()
    hold(reviewer, plain)

    assert listed(reviewer, f"{QUEUE}&claim=mine") == [plain]
    assert listed(reviewer, f"{QUEUE}&claim=unassigned") == [flagged]
    assert listed(reviewer, f"{QUEUE}&claim=others") == []
    assert listed(reviewer, f"{QUEUE}&risk=any") == listed(reviewer, f"{QUEUE}&risk=injection") == [flagged]
    assert listed(reviewer, f"{QUEUE}&risk=none") == [plain]
    assert listed(reviewer, f"{QUEUE}&family=airline") == [plain]
    assert listed(reviewer, f"{QUEUE}&support=2") == [flagged]
    assert listed(reviewer, f"{QUEUE}&age=older") == []
    assert listed(reviewer, f"{QUEUE}&order=oldest") == [plain, flagged]


def test_filter_is_saved_under_a_name_for_its_person_alone(reviewer: Client) -> None:
    query = f"{QUEUE[1:]}&risk=any"
    reviewer.post(reverse("admin:memory_heuristic_save_filter"), {"name": "Risky <ones>", "query": query})
    html = reviewer.get(reverse("admin:memory_heuristic_changelist") + QUEUE).content.decode()
    ben = Client()
    ben.force_login(make_member("ben"))

    assert "Risky &lt;ones&gt;" in html
    assert "Risky" not in ben.get(reverse("admin:memory_heuristic_changelist") + QUEUE).content.decode()
    ben.post(reverse("admin:memory_heuristic_forget_filter", args=[SavedFilter.objects.get().pk]))
    assert SavedFilter.objects.exists()


def test_queue_costs_the_same_queries_however_long_it_is(reviewer: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    listed(reviewer)
    with CaptureQueriesContext(connection) as few:
        listed(reviewer)
    for _ in range(8):
        reviewer.get(address(make_heuristic(project=project)))
    with CaptureQueriesContext(connection) as many:
        listed(reviewer)

    assert len(many) == len(few)


# ── Another reflection ──


def test_another_reflection_of_its_run_is_queued_and_recorded(reviewer: Client) -> None:
    heuristic = make_heuristic(trajectory=make_trajectory())
    sent = {"decision": "again", "content_sha256": heuristic.current_revision.content_sha256}  # type: ignore[union-attr]

    html = reviewer.post(address(heuristic), sent, follow=True).content.decode()

    assert "queued for another reflection" in html
    assert Reflection.objects.get().requested_by == "user:ana"
    assert Review.objects.get().decision == "reflect_again"
    history = reverse("admin:inbox_tab", args=["lesson", heuristic.pk, "history"])
    assert "Another reflection requested" in reviewer.get(history).content.decode()


def test_another_reflection_without_a_run_says_why_not(reviewer: Client) -> None:
    heuristic = make_heuristic()
    sent = {"decision": "again", "content_sha256": heuristic.current_revision.content_sha256}  # type: ignore[union-attr]

    html = reviewer.post(address(heuristic), sent, follow=True).content.decode()

    assert "No run is linked to this lesson" in html
    assert not Review.objects.exists()
