"""What runs did with lessons: counted from rows, in any order, and not to be talked up by one client."""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from memory.curation.proposals import revise_heuristic
from memory.effects.feedback import Feedback, record_feedback
from memory.effects.models import UsageVerdict
from memory.effects.uses import RUNS_OF_A_CLIENT, Use, count_uses, refresh_uses
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import embed_heuristics, find_heuristics_without_vectors
from memory.intake.recording import report_outcome
from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.models import HeuristicEmbedding, Retrieval
from memory.retrieval.question import Question
from memory.runs.models import Trajectory
from tests.factories import make_heuristic, make_project, make_retrieval, make_trajectory

START = timezone.now()
BY = Actor(label="key:agent")


def make_use(number: int, **overrides: Any) -> Use:
    fields: dict[str, Any] = {
        "heuristic_id": UUID(int=1),
        "trajectory_id": UUID(int=number),
        "at": START + timedelta(minutes=number),
        "client": "agent",
        "verdict": "followed",
        "outcome": "success",
    }
    return Use(**fields | overrides)


def test_order_of_arrival_does_not_matter() -> None:
    uses = [make_use(n, outcome="failure" if n % 3 else "success", client=f"c{n % 4}") for n in range(1, 60)]
    shuffled = random.Random(7).sample(uses, len(uses))

    assert count_uses(shuffled) == count_uses(uses)


def test_one_client_counts_for_so_many_runs() -> None:
    honest = [make_use(n, client=f"c{n}", outcome="failure") for n in range(1, 6)]
    enough = [make_use(100 + n, client="loud") for n in range(RUNS_OF_A_CLIENT)]
    flood = [make_use(100 + n, client="loud") for n in range(10_000)]

    counted = count_uses([*honest, *flood])
    assert counted | {"left_out": 0} == count_uses([*honest, *enough])
    assert counted["left_out"] == 10_000 - RUNS_OF_A_CLIENT


@pytest.mark.django_db
def test_feedback_counts_once() -> None:
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED)
    run = make_trajectory(project=heuristic.project, outcome="success", score=1.0, client="agent")

    record_feedback(heuristic, Feedback(verdict="followed"), client="agent", trajectory=run)
    once = Heuristic.objects.get().usefulness_basis
    for _ in range(3):
        record_feedback(heuristic, Feedback(verdict="followed"), client="agent", trajectory=run)

    assert (once["followed"], once["followed_success"]) == (1, 1)
    assert Heuristic.objects.get().usefulness_basis == once


@pytest.mark.django_db
def test_late_outcome_counts() -> None:
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED)
    run = make_trajectory(project=heuristic.project, outcome="unknown", score=None)
    record_feedback(heuristic, Feedback(verdict="followed"), client="agent", trajectory=run)

    report_outcome(run, outcome="failure", outcome_source="environment", by=BY, reflect=False)

    assert Heuristic.objects.get().usefulness_basis["followed_failure"] == 1


@pytest.mark.django_db
def test_feedback_on_an_answer_counts_for_the_run_that_was_given_it() -> None:
    project = make_project()
    heuristic = make_heuristic(project=project, status=Heuristic.Status.APPROVED)
    answer: Retrieval = make_retrieval(project=project, heuristic_ids=[heuristic.pk])
    make_trajectory(project=project, retrieval=answer, outcome="success", score=1.0)

    record_feedback(heuristic, Feedback(verdict="followed"), client="agent", retrieval=answer)

    assert Heuristic.objects.get().usefulness_basis["followed_success"] == 1


@pytest.mark.django_db
def test_what_is_kept_is_what_the_rows_give() -> None:
    project = make_project()
    heuristic = make_heuristic(project=project, status=Heuristic.Status.APPROVED)
    for number in range(6):
        run = make_trajectory(project=project, outcome="success" if number % 2 else "failure", score=None)
        UsageVerdict.objects.create(
            project=project,
            heuristic=heuristic,
            trajectory=run,
            content_sha256="0" * 64,
            verdict="followed",
            judge="rules",
        )
    refresh_uses([heuristic.pk])
    kept = Heuristic.objects.get()

    Heuristic.objects.update(usefulness_basis={}, usefulness_version="")
    refresh_uses([heuristic.pk])

    again = Heuristic.objects.get()
    assert again.usefulness_basis == kept.usefulness_basis
    assert again.usefulness_basis["followed"] == 6
    assert refresh_uses([heuristic.pk]) == 0


@pytest.mark.django_db
def test_counting_takes_the_same_queries_for_many(django_assert_num_queries: Any) -> None:
    project = make_project()
    run: Trajectory = make_trajectory(project=project, outcome="success")
    ids = []
    for _ in range(5):
        heuristic = make_heuristic(project=project, status=Heuristic.Status.APPROVED)
        record_feedback(heuristic, Feedback(verdict="followed"), client="agent", trajectory=run)
        ids.append(heuristic.pk)
    Heuristic.objects.update(usefulness_version="")

    with django_assert_num_queries(9):  # savepoint and its release, lock, three reads, one write, two for tasks helped
        refresh_uses(ids)


def report_help(heuristic: Heuristic, task: str, *, client: str = "agent", given: bool = True) -> Trajectory:
    """Record a run that was given a lesson, followed it and succeeded."""
    asked = make_retrieval(project=heuristic.project, task=task, heuristic_ids=[heuristic.pk] if given else [])
    run = make_trajectory(project=heuristic.project, task=task, outcome="success", client=client, retrieval=asked)
    record_feedback(heuristic, Feedback(verdict="followed"), client=client, trajectory=run)
    return run


def get_helped_tasks() -> set[str]:
    rows = HeuristicEmbedding.objects.filter(kind="helped_task", terms__isnull=False, vector__isnull=False)
    return set(rows.values_list("trajectory__task", flat=True))


@pytest.mark.django_db
def test_lesson_is_found_by_a_task_it_has_helped_with_until_that_is_taken_back() -> None:
    heuristic = make_heuristic(status="approved", trigger="a booking changes", guideline="Read the fare rules.")
    embed_heuristics([heuristic.pk])
    run = report_help(heuristic, "Repaint the garden shed in dark green")
    embed_heuristics(find_heuristics_without_vectors())
    question: dict[str, Any] = {"task": "Repaint our shed dark green", "by": BY, "mode": "hybrid"}

    [item] = retrieve(Question(project=heuristic.project, **question)).items

    assert item["matched_task"] == "Repaint the garden shed in dark green"
    assert item["injected"]
    assert item["reason"] == "It was learnt from, or has helped with, a task like this one."
    report_outcome(run, outcome="failure", outcome_source="test", by=BY)
    assert retrieve(Question(project=heuristic.project, **question)).items == []


@pytest.mark.django_db
def test_few_tasks_are_kept_and_fewer_of_one_client_and_none_that_was_not_given_the_lesson() -> None:
    heuristic = make_heuristic(status="approved")
    embed_heuristics([heuristic.pk])
    report_help(heuristic, "Never given", given=False)
    for number in range(7):
        report_help(heuristic, f"Loud task {number % 6}", client="loud")
    for number in range(7):
        report_help(heuristic, f"Other task {number}", client=f"client-{number}")
    embed_heuristics(find_heuristics_without_vectors())

    kept = get_helped_tasks()

    assert kept == {f"Loud task {number}" for number in range(5)} | {f"Other task {number}" for number in range(5)}
    assert find_heuristics_without_vectors() == []


@pytest.mark.django_db
def test_new_wording_keeps_the_tasks_the_lesson_has_helped_with() -> None:
    heuristic = make_heuristic(status="approved")
    embed_heuristics([heuristic.pk])
    report_help(heuristic, "Repaint the garden shed")
    revised = revise_heuristic(heuristic, text=HeuristicText(trigger="a shed", guideline="Ask for the colour."), by=BY)

    embed_heuristics([heuristic.pk])

    rows = HeuristicEmbedding.objects.filter(revision=revised.current_revision, kind="helped_task")
    assert [row.terms is not None for row in rows] == [True]
