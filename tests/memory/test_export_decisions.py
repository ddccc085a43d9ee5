"""manage.py export_decisions"""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.curation.decisions import reject_heuristic, retire_heuristic
from memory.projects.actors import Actor
from memory.projects.models import Project
from tests.factories import make_heuristic, make_project

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    project = make_project(name="Airline")
    retire_heuristic(make_heuristic(project=project, status="approved"), by=Actor.policy("age"), reason="Zu\nalt – é.")
    reject_heuristic(make_heuristic(project=project), by=Actor.policy("taste"))
    make_heuristic(status="approved")
    return project


def export(project: Project, *arguments: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    call_command("export_decisions", "--project", project.slug, *arguments, stdout=out, stderr=io.StringIO())
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_every_decision_is_a_line_oldest_first(project: Project) -> None:
    lines = export(project)

    assert [line["decision"] for line in lines][-2:] == ["retire", "reject"]
    assert lines[-2]["reason"] == "Zu\nalt – é."
    assert {"heuristic_id", "revision", "content_sha256", "reviewer", "seconds_on_screen", "created_at"} <= set(
        lines[0]
    )


def test_filters_leave_out_the_rest(project: Project) -> None:
    assert [line["reviewer"] for line in export(project, "--decision", "reject")] == ["policy:taste"]
    assert export(project, "--since", "2999-01-01") == []


def test_file_is_written_and_a_bad_path_is_said(project: Project, tmp_path: Path) -> None:
    call_command(
        "export_decisions", "--project", project.slug, "--output", str(tmp_path / "d.jsonl"), stderr=io.StringIO()
    )
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) >= 2

    with pytest.raises(CommandError, match="cannot be written"):
        export(project, "--output", str(tmp_path / "no" / "d.jsonl"))


def test_time_that_is_none_is_refused(project: Project) -> None:
    with pytest.raises(CommandError, match="--since"):
        export(project, "--since", "soon")
