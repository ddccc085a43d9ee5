"""A consolidation whose process is killed goes on where it was and ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from memory.heuristics.models import Evidence, Heuristic
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.requests import request_consolidation
from tests.factories import make_heuristic, make_project, make_trajectory
from tests.stack import database_url
from tests.waiting import wait_until

BY = Actor(label="user:ana")
TEXT: dict[str, Any] = {"trigger": "When a flight has to be changed", "polarity": "works", "task_id": "airline"}


def fill(project: Project) -> None:
    for number in range(3):
        text = f"In the next trial, I will open drawer {number}, take the mug and put it in the cabinet."
        make_trajectory(project=project, steps=[], outcome="failure", score=0.0, task_id="house", mistakes=[text])
    make_heuristic(project=project, guideline="Read the fare rules, then offer the change.", **TEXT)
    make_heuristic(project=project, guideline="Read the fare rules and then offer the change.", **TEXT)


def state_of(project: Project) -> list[Any]:
    lessons = Heuristic.objects.for_project(project)
    return [
        sorted(lessons.values_list("current_revision__guideline", "status", "support")),
        sorted(Suggestion.objects.filter(project=project).values_list("kind", "reason", "status")),
        Evidence.objects.filter(project=project).count(),
        ConsolidationRun.objects.get(project=project).stages_done,
    ]


def kill_when(run: ConsolidationRun, *, stages_done: int) -> None:
    """Let a process take the consolidation, and kill it once so many stages are done."""
    environment = os.environ | {"DATABASE_URL": database_url(connection.settings_dict), "ERL_REFLECTOR": "rules"}
    command = [sys.executable, "manage.py", "run_jobs", "--kind", "consolidation"]
    process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stderr=subprocess.DEVNULL)
    rows = ConsolidationRun.objects.filter(pk=run.pk)
    try:
        wait_until(lambda: len(rows.get().stages_done) >= stages_done or process.poll() is not None, seconds=150)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    rows.filter(status="running").update(lease_until=Now() - timedelta(seconds=1))  # as if the lease had run out


@pytest.mark.nightly
@pytest.mark.timeout(500)
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_killed_twice_it_ends_in_the_same_state() -> None:
    calm, killed = make_project(), make_project()
    fill(calm)
    fill(killed)
    undisturbed = request_consolidation(calm, cause="command", by=BY)
    run_consolidation(undisturbed.pk, owner="test")

    run = request_consolidation(killed, cause="command", by=BY)
    for stages_done in (1, 3):
        kill_when(run, stages_done=stages_done)
    run_consolidation(run.pk, owner="test")

    run.refresh_from_db()
    assert (run.status, run.attempts > 1) == ("done", True)
    assert state_of(killed) == state_of(calm)
    assert (run.heuristics_proposed, run.suggestions_made) == (1, 1)
