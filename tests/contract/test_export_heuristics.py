"""manage.py export_memory --format"""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memory.projects.models import Project
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    """A project with one lesson in each of three states, and another project's lesson beside it."""
    project = make_project(name="Airline")
    make_heuristic(
        project=project,
        status="approved",
        trajectory=make_trajectory(project=project),
        trigger="When a flight\n# is cancelled",
        guideline="Read the fare first.",
        avoid="Guessing.",
    )
    make_heuristic(project=project, status="proposed", trigger="When asked twice")
    make_heuristic(project=project, status="rejected", trigger="When refused")
    make_heuristic(status="approved", trigger="When elsewhere")
    return project


def export(project: Project, *arguments: str) -> str:
    out = io.StringIO()
    arguments = arguments if "--format" in arguments else ("--format", "lessons", *arguments)
    call_command("export_memory", "--project", project.slug, *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_export_writes_approved_lessons_as_json_lines(project: Project) -> None:
    (line,) = export(project).splitlines()
    lesson = json.loads(line)

    assert (lesson["trigger"], lesson["guideline"]) == ("When a flight\n# is cancelled", "Read the fare first.")
    assert (lesson["status"], lesson["support"], lesson["reflector"]) == ("approved", 1, "rules")
    assert lesson["approved_by"] == "user:reviewer"
    assert len(lesson["content_sha256"]) == 64


@pytest.mark.parametrize(("status", "triggers"), [("proposed", ["When asked twice"]), ("retired", [])])
def test_export_of_a_status_writes_only_it(project: Project, status: str, triggers: list[str]) -> None:
    lines = export(project, "--status", status).splitlines()

    assert [json.loads(line)["trigger"] for line in lines] == triggers


def test_export_of_all_writes_every_state_of_this_project_only(project: Project) -> None:
    lines = export(project, "--status", "all").splitlines()

    assert [json.loads(line)["status"] for line in lines] == ["approved", "proposed", "rejected"]


def test_export_as_markdown_keeps_lessons_from_making_headings(project: Project) -> None:
    text = export(project, "--format", "markdown")

    assert text.startswith("# Lessons of Airline\n\n## When a flight # is cancelled\n\n- Do: Read the fare first.\n")
    assert "- Avoid: Guessing.\n" in text
    assert "approved, seen in 1 run, id " in text


def test_export_to_a_file_leaves_standard_output_empty(project: Project, tmp_path: Path) -> None:
    out = export(project, str(tmp_path / "lessons.jsonl"))

    assert out == ""
    assert json.loads((tmp_path / "lessons.jsonl").read_text())["guideline"] == "Read the fare first."


def test_export_to_a_file_that_cannot_be_written_is_refused(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written"):
        export(project, str(tmp_path / "none" / "lessons.jsonl"))


def test_export_serves_the_approved_wording_while_a_new_one_is_being_decided(project: Project) -> None:
    make_heuristic(project=project, status="proposed", served=True, trigger="When served still")

    triggers = [json.loads(line)["trigger"] for line in export(project).splitlines()]

    assert triggers == ["When a flight\n# is cancelled", "When served still"]


def test_exported_lessons_come_back_as_proposals_and_once(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    file.write_text(export(project, "--status", "all"))
    other = make_project(name="Other")
    out = io.StringIO()

    call_command("import_memory", str(file), "--project", other.slug, stdout=out)
    call_command("import_memory", str(file), "--project", other.slug, stdout=out)

    words = ("trigger", "guideline", "avoid", "not_when", "rationale", "polarity", "scope", "task_id", "tags")
    lessons = project.heuristics.order_by("current_revision__trigger")
    copies = other.heuristics.order_by("current_revision__trigger")
    first, second = out.getvalue().splitlines()
    assert first.startswith("3 lessons wait for review")
    assert second.startswith("0 lessons wait for review in the admin, 3 were already there")
    assert {copy.status for copy in copies} == {"proposed"}
    assert [[getattr(each.current_revision, word) for word in words] for each in copies] == [
        [getattr(each.current_revision, word) for word in words] for each in lessons
    ]


def test_line_that_is_no_lesson_is_named_and_the_rest_comes_in(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    file.write_text(export(project) + '{"trigger": "When"}\n{"x\n')
    other, out = make_project(name="Other"), io.StringIO()

    with pytest.raises(SystemExit):
        call_command("import_memory", str(file), "--project", other.slug, stdout=out)

    assert "line 2: " in out.getvalue()
    assert "1 lessons wait for review in the admin, 0 were already there, 2 failed." in out.getvalue()
