"""What was said in a conversation before a run: other runs that name the same conversation."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from memory.intake.recording import record_trajectory
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.episode import EarlierTurn
from memory.runs.models import CONVERSATION, CONVERSATION_NAMES, Trajectory
from reflection.reflectors.nearest import find_earlier_runs, read_turn
from tests.factories import make_project

pytestmark = pytest.mark.django_db

SAY = {"action": {"name": "respond", "arguments": {"content": "Which flight?"}}}


def record(project: Project, task: str, minute: int, **metadata: Any) -> Trajectory:
    data = {
        "task": task,
        "steps": [{"action": {"name": "get_user", "arguments": {}}, "observation": "Ana"}, SAY],
        "started_at": datetime(2026, 11, 27, 12, minute, tzinfo=UTC),
        "metadata": metadata,
    }
    return record_trajectory(project, data=data, by=Actor(label="key:a"), reflect=False).trajectory


@pytest.mark.parametrize("name", CONVERSATION_NAMES)
def test_earlier_turns_are_the_runs_of_the_conversation_that_began_before(name: str) -> None:
    project = make_project()
    for minute, task in enumerate(["I am Ana.", "Book it.", "Thank you."]):
        record(project, task, minute, **{name: "c-1"})
    record(project, "Something else.", 0, **{name: "c-2"})
    record(make_project(), "Of another project.", 0, **{name: "c-1"})

    turns = [read_turn(run) for run in find_earlier_runs(Trajectory.objects.get(task="Thank you."))]

    assert turns == [
        EarlierTurn(task=task, called=("get_user",), answer="Which flight?") for task in ("I am Ana.", "Book it.")
    ]


def test_run_without_a_conversation_has_no_earlier_turns() -> None:
    project = make_project()
    record(project, "I am Ana.", 0)

    assert find_earlier_runs(record(project, "Book it.", 1)) == []


def test_name_of_a_conversation_may_be_of_any_length() -> None:
    project = make_project()
    record(project, "I am Ana.", 0, conversation="x" * 100_000)

    assert len(find_earlier_runs(record(project, "Book it.", 1, conversation="x" * 100_000))) == 1


def test_earlier_turns_are_found_by_their_index() -> None:
    project = make_project()
    Trajectory.objects.bulk_create(
        Trajectory(project=project, task=f"Task {number}.", metadata={"conversation": f"c-{number // 3}"})
        for number in range(600)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_trajectory")  # in an empty table, every index is as good

    runs = Trajectory.objects.filter(project=project, metadata__has_any_keys=CONVERSATION_NAMES)
    plan = runs.alias(turn=CONVERSATION).filter(turn="c-1").order_by().explain()

    assert "memory_trajectory_turns" in plan
