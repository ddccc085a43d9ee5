"""Other runs of the family: which ones a reflector is given."""

from typing import Any

import pytest

from memory.heuristics.provenance import WordOrigin
from memory.ids import uuid7
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from reflection.reflectors.nearest import MAX_FAMILY_RUNS, find_family_runs
from reflection.reflectors.reflections import run_reflection
from tests.factories import make_project, make_reflection, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db


def make_run(project: Any, outcome: str, *tools: str, **fields: Any) -> Trajectory:
    steps = [
        {"index": number, "thought": "", "action": {"name": tool, "arguments": {}}, "observation": "ok", "error": ""}
        for number, tool in enumerate(tools or ("look",), start=1)
    ]
    return make_trajectory(
        project=project, outcome=outcome, steps=steps, **{"score": None, "task_id": "stock-taking", **fields}
    )


def test_family_runs_are_decided_runs_of_the_same_family() -> None:
    project = make_project()
    run = make_run(project, "failure")
    make_run(project, "success", task="Mine")
    make_run(project, "unknown")
    make_run(project, "success", task_id="other")
    make_run(make_project(), "success")

    assert [other.task for other in find_family_runs(run)] == ["Mine"]


def test_family_runs_without_lessons_come_first_and_are_few() -> None:
    project = make_project()
    run = make_run(project, "failure")
    make_run(project, "success", task="Unguided")
    for _ in range(MAX_FAMILY_RUNS + 1):
        given = make_retrieval(project=project, injected_ids=[uuid7()])
        make_run(project, "success", task="Guided", retrieval=given)

    tasks = [other.task for other in find_family_runs(run)]

    assert tasks[0] == "Unguided"
    assert len(tasks) == MAX_FAMILY_RUNS


def test_run_of_the_hold_out_counts_as_one_without_lessons() -> None:
    project = make_project()
    run = make_run(project, "failure")
    held_out = make_retrieval(project=project, injected_ids=[], arm="holdout")
    make_run(project, "success", task="Held out", retrieval=held_out)
    make_run(project, "success", task="Guided", retrieval=make_retrieval(project=project, injected_ids=[uuid7()]))

    assert [other.task for other in find_family_runs(run)] == ["Held out", "Guided"]


def test_run_without_a_family_has_no_others() -> None:
    assert find_family_runs(make_run(make_project(), "failure", task_id="")) == []


def test_step_that_only_successes_took_is_proposed_for_the_family() -> None:
    project = make_project()
    for _ in range(3):
        make_run(project, "success", "look", "check_stock", "finish")
    make_run(project, "failure", "look", "finish")
    reflection = make_reflection(trajectory=make_run(project, "failure", "look", "finish"))

    run_reflection(reflection.pk, owner="test")

    (proposal,) = Reflection.objects.get(pk=reflection.pk).proposals.all()
    revision = proposal.heuristic.current_revision
    assert revision is not None
    assert revision.guideline.startswith("Call `check_stock` before you finish")
    assert (revision.scope, revision.task_id) == ("task_family", "stock-taking")


def test_runs_from_which_a_lesson_has_names_are_noted_and_named() -> None:
    project = make_project()
    others = [make_run(project, "success", "look", "check_stock", "finish") for _ in range(3)]
    make_run(project, "failure", "look", "finish")
    reflection = make_reflection(trajectory=make_run(project, "failure", "look", "finish"))

    run_reflection(reflection.pk, owner="test")

    origins = set(WordOrigin.objects.values_list("trajectory_id", flat=True))
    assert origins == {reflection.trajectory_id, *(run.pk for run in others)}
    revision = Reflection.objects.get(pk=reflection.pk).proposals.get().heuristic.current_revision
    assert revision is not None
    assert all(str(run.pk) in revision.rationale for run in others)


def test_lesson_whose_names_are_all_of_its_own_run_has_no_other_origin() -> None:
    project = make_project()
    for _ in range(3):
        make_run(project, "success", "look", "check_stock", "finish")
    make_run(project, "failure", "look", "finish")
    run = make_run(project, "failure", "look", "finish", tools=["check_stock", "look", "finish"])
    reflection = make_reflection(trajectory=run)

    run_reflection(reflection.pk, owner="test")

    assert set(WordOrigin.objects.values_list("trajectory_id", flat=True)) == {run.pk}
