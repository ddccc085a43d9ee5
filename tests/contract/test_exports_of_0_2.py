"""What ERL 0.2.0 wrote of a project, imported here: runs, lessons and decisions (tests/data/export_0_2)."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.review.models import Review
from memory.runs.models import Trajectory
from tests.factories import make_project

pytestmark = pytest.mark.django_db

EXPORT = Path(__file__).parents[1] / "data" / "export_0_2"
LESSONS, DECISIONS, RUNS = EXPORT / "lessons.jsonl", EXPORT / "decisions.jsonl", EXPORT / "runs.jsonl"


def read_lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def import_lessons(project: Project, *arguments: str) -> str:
    out = io.StringIO()
    call_command("import_memory", str(LESSONS), "--project", project.slug, *arguments, stdout=out)
    return out.getvalue()


def test_lessons_have_the_state_that_they_had_in_0_2() -> None:
    project = make_project()

    summary = import_lessons(project, "--decisions", str(DECISIONS))

    states = dict(project.heuristics.values_list("current_revision__trigger", "status"))
    assert states == {row["trigger"]: row["status"] for row in read_lines(LESSONS)}
    assert summary.startswith("2 lessons wait for review in the admin, 8 took over their decision, ")


def test_decisions_say_where_they_were_taken_when_and_why() -> None:
    project = make_project()

    import_lessons(project, "--decisions", str(DECISIONS))

    retired = Review.objects.get(project=project, decision="retire")
    written = next(row for row in read_lines(DECISIONS) if row["decision"] == "retire")
    assert (retired.reviewer, retired.reason) == (f"import:{written['reviewer']}", written["reason"])
    assert retired.created_at.isoformat()[:23] == written["created_at"][:23]


def test_approved_lessons_are_served_and_others_are_not() -> None:
    project = make_project()

    import_lessons(project, "--decisions", str(DECISIONS))

    served = Heuristic.objects.filter(project=project, revisions__served=True)
    assert set(served.values_list("status", flat=True)) == {"approved"}
    assert served.count() == 6


def test_lessons_without_their_decisions_wait_for_review() -> None:
    project = make_project()

    import_lessons(project)

    assert set(project.heuristics.values_list("status", flat=True)) == {"proposed"}


def test_project_that_asks_for_two_reviewers_takes_no_approval_from_a_file() -> None:
    project = make_project(four_eyes=True)
    out = io.StringIO()

    with pytest.raises(SystemExit):
        call_command(
            "import_memory", str(LESSONS), "--project", project.slug, "--decisions", str(DECISIONS), stdout=out
        )

    assert not Heuristic.objects.filter(project=project, revisions__served=True).exists()
    assert "It was imported as a proposal, without its decisions. This project requires two reviewers" in out.getvalue()


def test_decision_on_other_words_approves_nothing(tmp_path: Path) -> None:
    project, lessons = make_project(), tmp_path / "lessons.jsonl"
    rows = [row | {"content_sha256": "0" * 64} for row in read_lines(LESSONS)]
    lessons.write_text("\n".join(map(json.dumps, rows)))

    call_command("import_memory", str(lessons), "--project", project.slug, "--decisions", str(DECISIONS))

    assert set(project.heuristics.values_list("status", flat=True)) == {"proposed"}


def test_importing_again_changes_nothing() -> None:
    project = make_project()
    import_lessons(project, "--decisions", str(DECISIONS))
    reviews = Review.objects.filter(project=project).count()

    import_lessons(project, "--decisions", str(DECISIONS))

    assert project.heuristics.count() == len(read_lines(LESSONS))
    assert Review.objects.filter(project=project).count() == reviews


def test_file_of_decisions_that_is_none_is_refused(tmp_path: Path) -> None:
    project = make_project()

    with pytest.raises(CommandError, match="line is not an entry"):
        import_lessons(project, "--decisions", str(LESSONS))

    assert not project.heuristics.exists()


@pytest.mark.parametrize(
    "change",
    [{"reason": "x" * 100_000}, {"reason": "\0"}, {"created_at": "2026-01-01T00:00:00"}, {"reviewer": 7}],
    ids=["long reason", "null character", "time without a zone", "number as a name"],
)
def test_decision_that_cannot_be_kept_is_refused_with_its_line(tmp_path: Path, change: dict[str, object]) -> None:
    project, decisions = make_project(), tmp_path / "decisions.jsonl"
    decisions.write_text(json.dumps({**read_lines(DECISIONS)[0], **change}))

    with pytest.raises(CommandError, match="/1: This line is not an entry"):
        import_lessons(project, "--decisions", str(decisions))

    assert not project.heuristics.exists()


def test_runs_come_in_with_their_outcomes() -> None:
    project = make_project()

    call_command("import_trajectories", str(RUNS), "--project", project.slug, stdout=io.StringIO())

    outcomes = dict(Trajectory.objects.filter(project=project).values_list("external_id", "outcome"))
    assert outcomes == {row["external_id"]: row["outcome"] for row in read_lines(RUNS)}
