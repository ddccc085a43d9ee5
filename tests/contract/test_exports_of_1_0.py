"""What ERL 1.0.0 wrote of a project, imported here: lessons, decisions and memory (tests/data/export_1_0)."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command

from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_project

pytestmark = pytest.mark.django_db

EXPORT = Path(__file__).parents[1] / "data" / "export_1_0"
LESSONS, DECISIONS, MEMORY = EXPORT / "lessons.jsonl", EXPORT / "decisions.jsonl", EXPORT / "agent_memory.json"


def take_in(project: Project, file: Path, *arguments: str) -> str:
    out = io.StringIO()
    call_command("import_memory", str(file), "--project", project.slug, *arguments, stdout=out)
    return out.getvalue()


def test_lessons_have_the_state_that_they_had_in_1_0() -> None:
    project = make_project()

    take_in(project, LESSONS, "--decisions", str(DECISIONS))

    written = [json.loads(line) for line in LESSONS.read_text().splitlines()]
    states = project.heuristics.values_list("current_revision__trigger", "status")
    assert sorted(states) == sorted((row["trigger"], row["status"]) for row in written)
    assert Heuristic.objects.filter(project=project, revisions__served=True).count() == 3


def test_memory_of_1_0_comes_in_with_every_episode() -> None:
    project = make_project()

    take_in(project, MEMORY)

    episodes = json.loads(MEMORY.read_text())["episode_log"]
    assert Trajectory.objects.filter(project=project).count() == len(episodes) > 0
