"""Evidence counts in ranking once a reviewer has seen it: with an approval, or confirmed later."""

from typing import Any

import pytest
from django.db import connection

from memory.curation.decisions import confirm_evidence, retire_heuristic
from memory.curation.evidence import add_evidence
from memory.curation.undo import undo_review
from memory.errors import NotAllowed, NotServable
from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.text import Citation
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Filters, Question
from memory.retrieval.snapshot import snapshots
from memory.review.models import Review
from tests.desk.desk_pages import address, decide, log_in, page
from tests.factories import approve_as_read, make_heuristic, make_member, make_trajectory, read

pytestmark = pytest.mark.django_db
ANA = Actor(label="user:ana")
TASK = "Transfer the savings of Ms Okafor to her new account"


def lesson(project: Project, **words: Any) -> Heuristic:
    heuristic = make_heuristic(project=project, trigger="A plant is dry", guideline="Water it slowly.", **words)
    embed_heuristics([heuristic.pk])
    return heuristic


def record_run(heuristic: Heuristic, task: str = TASK, **run: Any) -> None:
    """Have a client record a run whose reflection finds the lesson again."""
    trajectory = make_trajectory(project=heuristic.project, task=task, client="intruder", **run)
    add_evidence(heuristic, trajectory, citations=[Citation()])
    embed_heuristics([heuristic.pk])


def answer(project: Project, task: str = TASK, **filters: Any) -> list[str]:
    """Who is listed for a task, best first."""
    snapshots.clear()
    question = Question(project=project, task=task, by=ANA, record=False, filters=Filters(**filters))
    return [item["id"] for item in retrieve(question).items]


def test_task_of_a_later_run_leads_nowhere_until_it_is_confirmed(project: Project) -> None:
    heuristic = approve_as_read(lesson(project), by=ANA)
    record_run(heuristic)

    assert answer(project) == []
    confirm_evidence(heuristic, by=ANA, content_sha256=read(heuristic))

    assert answer(project) == [str(heuristic.pk)]
    assert list(Review.objects.values_list("decision", flat=True).order_by("created_at")) == [
        "approve",
        "confirm_evidence",
    ]


def test_task_that_was_there_at_the_approval_counts(project: Project) -> None:
    heuristic = lesson(project)
    record_run(heuristic)
    assert answer(project) == []

    approve_as_read(heuristic, by=ANA)

    assert answer(project) == [str(heuristic.pk)]
    assert Evidence.objects.get().approved_by == "user:ana"


def test_run_that_came_after_the_page_was_drawn_does_not_count(project: Project) -> None:
    heuristic, ana = lesson(project), log_in("ana")
    shown = ana.get(address(heuristic)).context["form"].initial["opened"]
    record_run(heuristic)

    decide(ana, heuristic, opened=shown)

    assert answer(project) == []
    decide(ana, heuristic, "confirm_evidence", opened=ana.get(address(heuristic)).context["form"].initial["opened"])
    assert answer(project) == [str(heuristic.pk)]
    assert "not reviewed" not in page(ana, heuristic)


def test_support_of_later_runs_does_not_count_in_ranking(project: Project) -> None:
    heuristic = approve_as_read(lesson(project), by=ANA)
    for number in range(3):
        record_run(heuristic, task=f"Water plant {number}")

    heuristic.refresh_from_db()
    with connection.cursor() as cursor:
        cursor.execute("SELECT support FROM servable_heuristic")
        assert (heuristic.support, cursor.fetchone()) == (3, (0,))
    confirm_evidence(heuristic, by=ANA, content_sha256=read(heuristic))
    heuristic.refresh_from_db()
    assert heuristic.approved_support == 3


def test_later_run_admits_a_lesson_to_no_family_and_no_agent(project: Project) -> None:
    heuristic = approve_as_read(lesson(project, scope="project"), by=ANA)
    record_run(heuristic, task="Water a plant", task_id="bank", agent="teller")

    assert answer(project, "A plant is dry", task_ids=("bank",)) == []
    assert answer(project, "A plant is dry", agents=("teller",)) == []
    confirm_evidence(heuristic, by=ANA, content_sha256=read(heuristic))
    assert answer(project, "A plant is dry", task_ids=("bank",)) == [str(heuristic.pk)]


def test_same_task_counts_by_whichever_run_was_approved(project: Project) -> None:
    heuristic = lesson(project)
    record_run(heuristic)
    approve_as_read(heuristic, by=ANA)
    record_run(heuristic)  # the same task again

    assert answer(project) == [str(heuristic.pk)]


def test_flood_of_later_runs_displaces_no_approved_task(project: Project) -> None:
    heuristic = lesson(project)
    record_run(heuristic)
    approve_as_read(heuristic, by=ANA)
    for number in range(21):
        record_run(heuristic, task=f"Flood {number}")
    heuristic.embeddings.all().delete()
    embed_heuristics([heuristic.pk])

    assert answer(project) == [str(heuristic.pk)]


def test_undone_approval_takes_its_evidence_back(project: Project) -> None:
    heuristic = lesson(project)
    record_run(heuristic)
    approve_as_read(heuristic, by=ANA)

    undo_review(Review.objects.get(), by=ANA)

    heuristic.refresh_from_db()
    assert Evidence.objects.get().approved_at is None
    assert heuristic.approved_support == 0


def test_undo_after_a_confirmation_serves_what_was_served(project: Project) -> None:
    heuristic = approve_as_read(lesson(project), by=ANA)
    record_run(heuristic)
    confirm_evidence(heuristic, by=ANA, content_sha256=read(heuristic))
    retire_heuristic(heuristic, by=ANA)
    undo_review(Review.objects.get(decision="retire"), by=ANA)

    heuristic.refresh_from_db()
    assert heuristic.status == "approved"
    assert answer(project) == [str(heuristic.pk)]


def test_evidence_of_a_proposal_is_not_confirmed_by_itself(project: Project) -> None:
    heuristic = lesson(project)
    record_run(heuristic)

    with pytest.raises(NotServable):
        confirm_evidence(heuristic, by=ANA, content_sha256=read(heuristic))


def test_operator_cannot_confirm_evidence(project: Project) -> None:
    heuristic = approve_as_read(lesson(project), by=ANA)
    record_run(heuristic)
    operator = make_member("olga", role="operator", permissions=["change_apikey"])

    with pytest.raises(NotAllowed):
        confirm_evidence(heuristic, by=Actor.person(operator), content_sha256=read(heuristic))
