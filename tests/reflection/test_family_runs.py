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


def mail(project: Any, outcome: str, *, look_up: bool, **fields: Any) -> Trajectory:
    """Record a run that writes to somebody, after it has looked the address up or without."""
    contact = ({"name": "find_contact", "arguments": {"name": "Ana"}}, '{"mail": "a@b.org"}')
    send = {"name": "send_mail", "arguments": {"to": "a@b.org" if look_up else "ana@c.org"}}
    sent = (send, "sent" if look_up else "Error: recipient not found")
    steps = [
        {"index": number, "thought": "", "action": action, "observation": answer, "error": ""}
        for number, (action, answer) in enumerate([contact, sent] if look_up else [sent], start=1)
    ]
    fields = {"score": None, "task_id": "mails", "task": "Write to Ana.", "outcome": outcome} | fields
    return make_trajectory(project=project, steps=steps, **fields)


def test_lookup_that_other_runs_made_is_proposed_and_they_are_noted() -> None:
    project = make_project()
    others = [mail(project, "success", look_up=True) for _ in range(2)]
    reflection = make_reflection(trajectory=mail(project, "failure", look_up=False))

    run_reflection(reflection.pk, owner="test")

    revision = Reflection.objects.get(pk=reflection.pk).proposals.get().heuristic.current_revision
    assert revision is not None
    assert "`find_contact`" in revision.guideline
    assert all(str(run.pk) in revision.rationale for run in others)
    origins = set(WordOrigin.objects.values_list("trajectory_id", flat=True))
    assert origins == {reflection.trajectory_id, *(run.pk for run in others)}


def test_lesson_whose_names_are_all_of_its_own_run_has_no_other_origin() -> None:
    project = make_project()
    for _ in range(2):
        mail(project, "success", look_up=True)
    run = mail(project, "failure", look_up=False, tools=["find_contact", "send_mail", "mail"])
    reflection = make_reflection(trajectory=run)

    run_reflection(reflection.pk, owner="test")

    assert Reflection.objects.get(pk=reflection.pk).proposals.count() == 1
    assert set(WordOrigin.objects.values_list("trajectory_id", flat=True)) == {run.pk}
