"""Runs of every log format that are exported and imported elsewhere are the same runs."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from erl_client.cli import main

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_api_key, make_project

SAMPLES = Path(__file__).parents[1] / "data" / "transcripts"
LOGS = [file for file in sorted(SAMPLES.iterdir()) if file.is_file() and file.suffix and file.suffix != ".md"]
# What is a run's own; the rest belongs to the place where it is kept
OWN = (
    *("external_id", "task", "task_id", "steps", "outcome", "score", "outcome_source", "agent", "model", "tags"),
    *("summary", "mistakes", "successes", "mistake_cards", "tokens", "cost_usd", "tools", "started_at", "ended_at"),
    *("metadata", "parent__external_id"),
)


def read_runs(project: Project) -> list[dict[str, Any]]:
    return list(Trajectory.objects.filter(project=project).order_by("external_id").values(*OWN))


@pytest.mark.nightly
@pytest.mark.usefixtures("erl")
def test_runs_are_the_same_after_they_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journey = tmp_path / "runs.jsonl"
    moved = 0
    for log in LOGS:
        here, there = make_project(), make_project()
        call_command("import_trajectories", log, project=here.slug, no_reflect=True)
        capsys.readouterr()
        monkeypatch.setenv("ERL_API_KEY", make_api_key(project=here).token)
        assert main(["export", "--runs"]) == 0
        journey.write_text(capsys.readouterr().out)
        monkeypatch.setenv("ERL_API_KEY", make_api_key(project=there).token)

        assert main(["import", str(journey)]) == 0, (log.name, capsys.readouterr())

        assert read_runs(there) == read_runs(here), log.name
        moved += len(read_runs(there))
    assert moved >= len(LOGS) >= 30
