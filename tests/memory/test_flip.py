"""What is deployed changes in one step: while answers are given, and when the process that changes it dies."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections

from memory.projects.models import Project
from memory.releases.deployments import cut_release, get_deployment, get_release, promote, roll_back
from memory.releases.models import DeploymentEvent
from tests.factories import make_project
from tests.releases import BY, ask, make_lesson, serve_releases
from tests.stack import database_url

pytestmark = pytest.mark.django_db(transaction=True)
FLIPS = 20
FIRST, SECOND = "Check the fare rules.", "Offer a travel credit."
PROMOTE = """
import sys

import django

django.setup()
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import get_release, promote

project = Project.objects.get(slug=sys.argv[1])
promote(project, release=get_release(project, "2"), by=Actor(label="test"), reason="")
"""
LESSONS = {1: [FIRST], 2: [FIRST, SECOND]}


@pytest.fixture
def project() -> Project:
    """Return a project with two releases, of which the first is stable."""
    made = make_project()
    make_lesson(made, FIRST)
    serve_releases(made)
    make_lesson(made, SECOND)
    cut_release(made, by=BY)
    return made


def test_answers_given_during_flips_are_of_one_release_each(project: Project) -> None:
    def flip() -> None:
        try:
            for _ in range(FLIPS // 2):
                promote(project, by=BY, release=get_release(project, "2"))
                roll_back(project, by=BY, to=get_release(project, "1"))
        finally:
            connections.close_all()

    flipping = threading.Thread(target=flip)
    flipping.start()
    given = []
    while flipping.is_alive():
        answer = ask(project)
        given.append((answer.release, sorted(item["guideline"] for item in answer.items)))
    flipping.join()

    assert DeploymentEvent.objects.filter(project=project).count() == 1 + FLIPS
    assert [(release, LESSONS[release or 0]) for release, _ in given] == given
    assert ask(project).release == 1


def test_process_that_is_killed_during_a_flip_leaves_the_state_before(project: Project) -> None:
    before = get_deployment(project)
    environment = os.environ | {
        "DATABASE_URL": database_url(connection.settings_dict),
        "TEST_FAILPOINTS": "deployment.before_commit=crash",
    }

    killed = subprocess.run(
        [sys.executable, "-c", PROMOTE, project.slug],
        cwd=Path(settings.BASE_DIR),
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert killed.returncode == -signal.SIGKILL
    after = get_deployment(project)
    assert (after.stable, after.version) == (before.stable, before.version)
    assert DeploymentEvent.objects.filter(project=project).count() == after.version
    assert sorted(item["guideline"] for item in ask(project).items) == LESSONS[1]
    assert promote(project, by=BY, release=get_release(project, "2")).version == before.version + 1
