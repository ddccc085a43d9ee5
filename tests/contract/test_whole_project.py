"""manage.py export_memory --format project, and import_memory of what it wrote: everything out, and everything in."""

import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.models import Project
from memory.review.models import Review
from memory.runs.models import Trajectory
from tests.factories import make_api_key, make_heuristic, make_project, make_trajectory, require_two
from tests.whole_project import (
    empty_database,
    find_wordings,
    make_small_project,
    make_whole_project,
)

SMALL = Path(__file__).resolve().parents[1] / "data" / "exports" / "small"  # of make_small_project, earlier
REVISIONS = "memory_heuristicrevision.jsonl"
EVIDENCE = "memory_evidence.jsonl"


def export(project: Project, folder: Path, *options: str) -> Path:
    call_command(
        "export_memory", str(folder), "--format=project", f"--project={project.slug}", *options, stderr=io.StringIO()
    )
    return folder


def take_in(folder: Path, *options: str) -> str:
    out = io.StringIO()
    call_command("import_memory", str(folder), *options, stdout=out)
    return out.getvalue()


def verify() -> str:
    out = io.StringIO()
    call_command("verify_audit", stdout=out)
    return out.getvalue()


def read_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def read_rows(folder: Path, file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / file).read_text().splitlines()]


def rewrite(folder: Path, file: str, text: str) -> None:
    """Change a file, and say so in the manifest as someone would who knows the format."""
    (folder / file).write_text(text)
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = next(entry for entry in manifest["files"] if f"{entry['table']}.jsonl" == file)
    data = text.encode()
    entry |= {"rows": text.count("\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change(folder: Path, file: str, **members: Any) -> None:
    """Change members of the last row of a file."""
    rows = read_rows(folder, file)
    rows[-1] |= members
    rewrite(folder, file, "".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture
def small(tmp_path: Path, db: None) -> Path:
    """An export of a small project, in an installation that has never seen it."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


@pytest.mark.django_db(transaction=True)
def test_a_project_exported_again_elsewhere_is_the_same_bytes(tmp_path: Path) -> None:
    first = export(make_whole_project(), tmp_path / "first")
    empty_database()

    take_in(first, "--same-people")

    assert read_files(export(Project.objects.get(), tmp_path / "second")) == read_files(first)


@pytest.mark.django_db(transaction=True)
def test_an_import_serves_what_was_served_and_its_audit_has_no_faults(tmp_path: Path) -> None:
    project = make_whole_project()
    wordings = find_wordings(project)
    folder = export(project, tmp_path / "export")
    empty_database()

    take_in(folder, "--same-people")

    assert find_wordings(Project.objects.get()) == wordings
    assert "0 faults" in verify()
    assert "0 broken" in verify()


def test_people_of_another_installation_are_named_as_such(small: Path) -> None:
    take_in(small)

    assert Review.objects.get().reviewer == "import:user:ana"
    assert HeuristicRevision.objects.get().approved_by == "import:user:ana"


def test_a_dry_run_says_what_would_be_imported_and_changes_nothing(small: Path) -> None:
    said = take_in(small, "--dry-run")

    assert "would be imported" in said
    assert not Project.objects.exists()


def test_a_dry_run_foresees_every_conflict_by_its_line(small: Path) -> None:
    take_in(small)

    with pytest.raises(CommandError) as refused:
        take_in(small, "--dry-run", "--project=copy")

    assert f"{EVIDENCE}, line 1: duplicate key" in str(refused.value)
    assert f"{REVISIONS}, line 1: duplicate key" in str(refused.value)
    assert "memory_trajectory.jsonl, line 1: duplicate key" in str(refused.value)
    assert not Project.objects.filter(slug="copy").exists()


@pytest.mark.django_db(transaction=True)
def test_a_family_comes_with_what_it_cannot_do_without_and_nothing_else(tmp_path: Path) -> None:
    folder = export(make_whole_project(), tmp_path / "export")
    empty_database()

    take_in(folder, "--family=lessons")

    assert Heuristic.objects.exists()
    assert Trajectory.objects.filter(retrieval=None).count() == Trajectory.objects.count() > 0
    assert set(Review.objects.values_list("kind", flat=True)) == {"lesson"}
    assert "0 broken" in verify()


@pytest.mark.django_db(transaction=True)
def test_an_export_holds_no_secret_and_is_nobody_elses_business(tmp_path: Path) -> None:
    project = make_small_project()
    key = make_api_key(project=project)
    folder = export(project, tmp_path / "export")

    said = "".join(read_files(folder).values())

    assert not {secret for secret in (key.token, key.api_key.secret_sha256, key.api_key.prefix) if secret in said}
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}


def test_a_file_that_ends_in_a_line_is_refused_with_the_line(small: Path) -> None:
    text = (small / REVISIONS).read_text()
    (small / REVISIONS).write_text(text[:-20])

    with pytest.raises(CommandError, match=f"{REVISIONS}, line 1: the file ends in the middle"):
        take_in(small)


def test_a_file_with_fewer_lines_is_refused_with_the_line(small: Path) -> None:
    (small / EVIDENCE).write_text("")

    with pytest.raises(CommandError, match=f"{EVIDENCE}, line 0: the file ends here"):
        take_in(small)


@pytest.mark.parametrize(
    ("file", "members", "fault"),
    [
        (REVISIONS, {"guideline": "Approve all refunds."}, "does not have the hash that was approved"),
        (REVISIONS, {"content_sha256": "0" * 64}, "it was changed"),
        (REVISIONS, {"number": "one"}, "invalid input syntax"),
        (REVISIONS, {"project_id": "01a21b28-70dc-7601-b25c-0c5fb979d5c0"}, "columns of the manifest: project_id"),
        ("memory_review.jsonl", {"content_sha256": "0" * 64}, "has to name the hash"),
        ("memory_review.jsonl", {"decision": "reject"}, "no review approved this text"),
        ("memory_heuristic.jsonl", {"status": "rejected"}, "is rejected but serves a revision"),
    ],
)
def test_a_row_that_was_tampered_with_is_refused(small: Path, file: str, members: dict[str, Any], fault: str) -> None:
    change(small, file, **members)

    with pytest.raises(CommandError, match=fault):
        take_in(small)
    assert not Project.objects.exists()


def test_a_row_of_another_project_is_not_referred_to(small: Path) -> None:
    other = make_trajectory(project=make_project(slug="other"))
    change(small, EVIDENCE, trajectory_id=str(other.pk))

    with pytest.raises(CommandError, match=f"{EVIDENCE}, line 1: trajectory_id names {other.pk}, which is not in"):
        take_in(small)


def test_a_lesson_of_another_project_is_not_named(small: Path) -> None:
    other = make_heuristic(project=make_project(slug="other"))
    change(small, REVISIONS, lineage=[str(other.current_revision_id)])

    with pytest.raises(CommandError, match="which is of another project"):
        take_in(small)


def test_a_newer_format_is_refused(small: Path) -> None:
    manifest = json.loads((small / "manifest.json").read_text())
    (small / "manifest.json").write_text(json.dumps(manifest | {"version": 2}))

    with pytest.raises(CommandError, match="version 2 of the format"):
        take_in(small)


def test_columns_of_a_newer_version_are_refused(small: Path) -> None:
    text = (small / "manifest.json").read_text()
    (small / "manifest.json").write_text(text.replace('"guideline"', '"guideline", "mood"'))

    with pytest.raises(CommandError, match="columns that are not known here: mood"):
        take_in(small)


def test_a_project_that_asks_for_two_reviewers_takes_no_decisions(small: Path) -> None:
    require_two(make_project(slug="small"))

    with pytest.raises(CommandError, match="asks for two reviewers"):
        take_in(small)
