"""A merge keeps what it merges findable: by the tasks of all runs that counted before."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from memory.curation.decisions import confirm_evidence
from memory.curation.evidence import add_evidence
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import restore_revision
from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.text import Citation
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.retrieval.snapshot import snapshots
from tests.factories import approve_as_read, make_heuristic, make_trajectory, read

pytestmark = pytest.mark.django_db
ANA = Actor(label="user:ana")
TASK = "Transfer the savings of Ms Okafor to her new account"
Commit = Callable[..., Any]


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Commit:
    """Run what waits for the commit of a decision, and return what the decision returned."""

    def run(decide: Callable[..., Any], *args: Any, **options: Any) -> Any:
        connection.run_on_commit.clear()  # of calls that are equal only the first is kept until a commit
        with django_capture_on_commit_callbacks(execute=True):
            return decide(*args, **options)

    return run


def lesson(project: Project, guideline: str, task: str = "") -> Heuristic:
    """An approved lesson, with a run it was learnt from."""
    heuristic = make_heuristic(project=project, trigger="A plant is dry", guideline=guideline)
    if task:
        add_evidence(heuristic, make_trajectory(project=project, task=task), citations=[Citation()])
    heuristic = approve_as_read(heuristic, by=ANA)
    embed_heuristics([heuristic.pk])
    return heuristic


def find(project: Project, task: str = TASK) -> list[tuple[str, str]]:
    """Who is found for a task, and by which earlier task."""
    snapshots.clear()
    answer = retrieve(Question(project=project, task=task, by=ANA, record=False))
    return [(item["id"], item["matched_task"]) for item in answer.items]


def test_task_that_waited_at_one_counts_if_it_counted_at_the_other(project: Project, commit: Commit) -> None:
    merged, kept = lesson(project, "Water it slowly.", TASK), lesson(project, "Water it at dusk.")
    run = Evidence.objects.get(heuristic=merged).trajectory
    add_evidence(kept, run, citations=[Citation()])
    embed_heuristics([kept.pk])

    commit(merge_heuristics, merged, into=kept, by=ANA)

    assert find(project) == [(str(kept.pk), TASK)]


def test_task_that_waited_in_another_run_is_searched_after_a_merge(project: Project, commit: Commit) -> None:
    merged, kept = lesson(project, "Water it slowly.", TASK), lesson(project, "Water it at dusk.")
    add_evidence(kept, make_trajectory(project=project, task=TASK), citations=[Citation()])
    embed_heuristics([kept.pk])

    commit(merge_heuristics, merged, into=kept, by=ANA)

    assert find(project) == [(str(kept.pk), TASK)]


def test_task_that_no_reviewer_saw_leads_nowhere_after_a_merge(project: Project, commit: Commit) -> None:
    merged, kept = lesson(project, "Water it slowly."), lesson(project, "Water it at dusk.")
    add_evidence(merged, make_trajectory(project=project, task=TASK), citations=[Citation()])

    commit(merge_heuristics, merged, into=kept, by=ANA)

    assert find(project) == []


def test_full_lesson_is_found_by_the_tasks_of_what_is_merged_into_it(
    project: Project, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.index.heuristic_vectors.MAX_SOURCE_TASKS", 1)
    merged = lesson(project, "Water it slowly.", TASK)
    kept = lesson(project, "Water it at dusk.", "Paint the fence of the garden green")

    commit(merge_heuristics, merged, into=kept, by=ANA)

    assert find(project) == [(str(kept.pk), TASK)]


def test_lesson_approved_again_takes_its_tasks_back(project: Project, commit: Commit) -> None:
    merged, kept = lesson(project, "Water it slowly.", TASK), lesson(project, "Water it at dusk.")
    commit(merge_heuristics, merged, into=kept, by=ANA)
    merged = commit(restore_revision, merged, revision=merged.revisions.get(), by=ANA)
    waiting = find(project)

    commit(approve_as_read, merged, by=ANA)

    assert waiting == [(str(kept.pk), TASK)]  # nothing is taken from agents before the decision
    assert find(project) == [(str(merged.pk), TASK)]
    kept.refresh_from_db()
    assert (kept.support, kept.approved_support) == (0, 0)


def test_lesson_in_the_middle_of_two_merges_takes_back_all_it_had(project: Project, commit: Commit) -> None:
    first, middle = lesson(project, "Water it slowly.", TASK), lesson(project, "Water it at dusk.")
    last = lesson(project, "Water it at dawn.")
    commit(merge_heuristics, first, into=middle, by=ANA)
    commit(merge_heuristics, middle, into=last, by=ANA)
    middle = commit(restore_revision, middle, revision=middle.revisions.get(), by=ANA)

    commit(approve_as_read, middle, by=ANA)

    assert find(project)[0] == (str(middle.pk), TASK)


def test_confirmed_task_is_searched(project: Project, commit: Commit) -> None:
    kept = lesson(project, "Water it at dusk.")
    add_evidence(kept, make_trajectory(project=project, task=TASK), citations=[Citation()])

    commit(confirm_evidence, kept, by=ANA, content_sha256=read(kept))

    assert find(project) == [(str(kept.pk), TASK)]
