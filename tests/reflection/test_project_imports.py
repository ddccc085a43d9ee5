"""POST /imports, its parts and what becomes of them; `erl import FOLDER`, which sends them."""

import hashlib
import io
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from erl_client import commands
from erl_client.cli import main
from rest_framework.test import APIClient

from memory.heuristics.models import Heuristic
from memory.limits import MAX_IMPORT_BYTES
from memory.projects.models import ApiKey, Project
from memory.review.models import Review
from memory.runs.models import Trajectory
from reflection.imports.execution import MOST_ATTEMPTS, run_import
from reflection.imports.models import ProjectImport
from reflection.jobs.models import Job
from tests.api.conftest import make_client
from tests.api.problems import error_of
from tests.factories import make_api_key, make_heuristic, make_project, make_trajectory, require_two
from tests.whole_project import empty_database, find_wordings, make_whole_project

IMPORTS = "/api/v1/imports"
SMALL = Path(__file__).resolve().parents[1] / "data" / "exports" / "small"
REVISIONS = "memory_heuristicrevision.jsonl"
EVIDENCE = "memory_evidence.jsonl"
RUNS = "memory_trajectory.jsonl"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An export of a small project."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


@pytest.fixture
def project(db: None) -> Project:
    return make_project(slug="taker")


@pytest.fixture
def client(project: Project) -> APIClient:
    return make_client(make_api_key(project=project, scopes=[ApiKey.Scope.IMPORT]).token)


def read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def read_files(folder: Path) -> str:
    return "".join((folder / f"{file['table']}.jsonl").read_text() for file in read_manifest(folder)["files"])


def begin(client: APIClient, folder: Path, **members: Any) -> Any:
    return client.post(IMPORTS, {"manifest": read_manifest(folder)} | members)


def send(client: APIClient, address: str, text: str, *, offset: int = 0) -> Any:
    parts = [text[start : start + 100_000] for start in range(0, len(text), 100_000)]
    return client.put(address, {"offset": offset, "parts": parts})


def take_in(client: APIClient, folder: Path, **members: Any) -> dict[str, Any]:
    """Send an export, let a worker take it in, and return what is said of it."""
    begun = begin(client, folder, **members)
    assert begun.status_code == 202, begun.json()
    sent = send(client, begun["Location"], read_files(folder))
    assert sent.status_code == 200, sent.json()
    run_import(owner="test")
    answer: dict[str, Any] = client.get(begun["Location"]).json()
    return answer


def rewrite(folder: Path, file: str, text: str) -> None:
    """Change a file, and say so in the manifest as someone would who knows the format."""
    (folder / file).write_text(text)
    manifest = read_manifest(folder)
    entry = next(entry for entry in manifest["files"] if f"{entry['table']}.jsonl" == file)
    data = text.encode()
    entry |= {"rows": text.count("\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change(folder: Path, file: str, **members: Any) -> None:
    """Change members of the only row of a file."""
    rewrite(folder, file, json.dumps(json.loads((folder / file).read_text()) | members) + "\n")


def count_large_objects() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_largeobject_metadata")
        return int(cursor.fetchone()[0])


def test_an_export_is_taken_in_with_its_decisions(client: APIClient, small: Path, project: Project) -> None:
    answer = take_in(client, small)

    assert (answer["status"], answer["refusal"], answer["rows"][RUNS.removesuffix(".jsonl")]) == ("imported", "", 1)
    assert Heuristic.objects.get(project=project).status == "approved"
    assert Review.objects.get(project=project).reviewer == "import:user:ana"


def test_settings_come_along_but_not_the_name_in_addresses(client: APIClient, small: Path, project: Project) -> None:
    take_in(client, small)

    project.refresh_from_db()
    assert (project.name, project.slug) == ("Small", "taker")


def test_chosen_families_come_alone(client: APIClient, small: Path, project: Project) -> None:
    answer = take_in(client, small, families=["runs"])

    assert (answer["status"], Heuristic.objects.count(), Trajectory.objects.count()) == ("imported", 0, 1)


def test_a_dry_run_changes_nothing(client: APIClient, small: Path, project: Project) -> None:
    answer = take_in(client, small, dry_run=True)

    assert (answer["status"], sum(answer["rows"].values())) == ("checked", 7)
    assert not Trajectory.objects.exists()


def test_rows_that_are_there_are_refused_by_file_and_line(client: APIClient, small: Path) -> None:
    take_in(client, small)

    answer = take_in(client, small)

    faults = {(fault["file"], fault["line"]) for fault in answer["faults"]}
    assert answer["status"] == "refused"
    assert {(REVISIONS, 1), (EVIDENCE, 1), (RUNS, 1)} <= faults
    assert answer["faults_total"] == len(answer["faults"])


def test_the_bytes_are_gone_once_an_import_has_ended(client: APIClient, small: Path) -> None:
    begun = begin(client, small)
    send(client, begun["Location"], read_files(small))
    assert count_large_objects() == 1

    run_import(owner="test")

    assert count_large_objects() == 0


def test_parts_may_come_again(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]
    text = read_files(small)

    first = send(client, address, text[:1000])
    again = send(client, address, text[:1000])
    last = send(client, address, text[1000:], offset=1000)
    once_more = send(client, address, text[1000:], offset=1000)

    assert [answer.json()["received_bytes"] for answer in (first, again)] == [1000, 1000]
    assert [answer.json()["status"] for answer in (first, last, once_more)] == ["uploading", "queued", "queued"]


def test_a_part_after_a_gap_is_refused(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]

    answer = send(client, address, "x", offset=10)

    assert error_of(answer) == (400, "invalid_request")
    assert "Go on at byte 0" in answer.json()["error"]["fields"]["/offset"][0]


def test_more_than_the_manifest_says_is_refused(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]

    answer = send(client, address, read_files(small) + "x")

    assert error_of(answer) == (400, "invalid_request")


def test_the_same_request_again_goes_on_with_the_upload(client: APIClient, small: Path) -> None:
    first = begin(client, small).json()

    assert begin(client, small).json() == first


def test_another_export_takes_the_place_of_one_that_is_not_complete(client: APIClient, small: Path) -> None:
    first = begin(client, small)
    second = begin(client, small, dry_run=True)

    assert client.get(first["Location"]).json()["status"] == "dropped"
    assert client.get(second["Location"]).json()["status"] == "uploading"
    assert count_large_objects() == 1


def test_another_export_waits_for_one_that_is_queued(client: APIClient, small: Path) -> None:
    first = begin(client, small)
    send(client, first["Location"], read_files(small))

    assert error_of(begin(client, small, dry_run=True)) == (409, "conflict")


def test_an_upload_that_does_not_end_is_dropped(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]
    assert run_import(owner="test") == "nothing"
    Job.objects.update(available_at="2020-01-01T00:00:00Z")

    run_import(owner="test")

    assert client.get(address).json()["status"] == "dropped"
    assert count_large_objects() == 0


def test_an_import_whose_workers_die_says_so_and_leaves_nothing(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]
    send(client, address, read_files(small))
    Job.objects.update(attempts=MOST_ATTEMPTS)

    run_import(owner="test")

    assert client.get(address).json()["status"] == "failed"
    assert count_large_objects() == 0


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"version": 2}, "version 2 of the format"),
        ({"families": ["secrets"]}, "families that are not known here"),
        ({"format": "tar"}, "no manifest of an export"),
        ({"project": {"id": "../../etc/passwd"}}, "no manifest of an export"),
        (
            {"files": [{"table": "memory_apikey", "columns": [], "rows": 0, "bytes": 0, "sha256": "0" * 64}]},
            "memory_apikey",
        ),
        ({"files": [{"table": "../x", "columns": [], "rows": 0, "bytes": 0, "sha256": "0" * 64}]}, "'../x'"),
    ],
)
def test_a_manifest_that_is_none_is_refused_at_once(
    client: APIClient, small: Path, members: dict[str, Any], said: str
) -> None:
    answer = client.post(IMPORTS, {"manifest": read_manifest(small) | members})

    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert not Job.objects.exists()


def test_an_export_beyond_the_limit_is_refused_at_once(client: APIClient, small: Path) -> None:
    manifest = read_manifest(small)
    manifest["files"][0]["bytes"] = MAX_IMPORT_BYTES

    answer = client.post(IMPORTS, {"manifest": manifest})

    assert error_of(answer) == (413, "request_too_large")
    assert "on the server" in answer.json()["error"]["message"]


def test_a_family_that_is_none_is_refused(client: APIClient, small: Path) -> None:
    assert "/families" in begin(client, small, families=["keys"]).json()["error"]["fields"]


def test_files_that_are_not_those_of_the_manifest_are_refused(client: APIClient, small: Path) -> None:
    address = begin(client, small)["Location"]
    send(client, address, read_files(small).replace("fare", "fame"))

    run_import(owner="test")

    answer = client.get(address).json()
    assert answer["status"] == "refused"
    assert "is not the file that was exported" in answer["refusal"]
    assert "/tmp" not in answer["refusal"]


def test_a_row_with_a_secret_is_refused(client: APIClient, small: Path, project: Project) -> None:
    change(small, RUNS, task="Log in with the password hunter2: sk-ant-api03-" + "a1B2" * 22)

    answer = take_in(client, small)

    assert "looks like a secret" in answer["faults"][0]["message"]
    assert not Trajectory.objects.exists()


def test_a_row_of_another_project_is_not_referred_to(client: APIClient, small: Path) -> None:
    other = make_trajectory(project=make_project(slug="other"))
    change(small, EVIDENCE, trajectory_id=str(other.pk))

    answer = take_in(client, small)

    assert [(fault["file"], fault["line"]) for fault in answer["faults"]] == [(EVIDENCE, 1)]


def test_a_row_of_another_project_is_not_written_over(client: APIClient, small: Path) -> None:
    other = make_heuristic(project=make_project(slug="other"))
    change(small, REVISIONS, id=str(other.current_revision_id))

    answer = take_in(client, small)

    assert answer["status"] == "refused"
    other.refresh_from_db()
    assert other.project.slug == "other"


def test_a_row_cannot_say_which_project_it_is_of(client: APIClient, small: Path) -> None:
    change(small, RUNS, project_id=str(make_project(slug="other").pk))

    assert "columns of the manifest: project_id" in take_in(client, small)["faults"][0]["message"]


def test_a_line_that_is_nested_without_end_is_refused(client: APIClient, small: Path) -> None:
    rewrite(small, RUNS, "[" * 90_000 + "\n")

    assert "this is no JSON" in take_in(client, small)["faults"][0]["message"]


def test_a_project_that_asks_for_two_reviewers_takes_no_decisions(
    client: APIClient, small: Path, project: Project
) -> None:
    require_two(project)

    answer = begin(client, small)

    assert answer.status_code == 400
    assert "asks for two reviewers" in answer.json()["error"]["message"]


def test_a_key_of_a_person_who_may_not_change_settings_may_not_import(
    project: Project, small: Path, django_user_model: Any
) -> None:
    key = make_api_key(project=project)
    key.api_key.created_by = django_user_model.objects.create_user("ana")
    key.api_key.save()

    answer = begin(make_client(key.token), small)

    assert answer.status_code == 403
    assert "acts for ana" in answer.json()["error"]["message"]


def test_an_import_is_held_to_its_project_by_the_database(
    client: APIClient, small: Path, settings: Any, project: Project
) -> None:
    settings.ERL_TENANT_ROLE = "erl_tenant"

    assert take_in(client, small)["status"] == "imported"
    assert Trajectory.objects.get().project_id == project.pk


@contextmanager
def importing() -> Iterator[None]:
    """Let a worker carry out imports meanwhile."""
    ends = threading.Event()

    def work() -> None:
        while not ends.wait(0.1):
            run_import(owner="test")
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.mark.django_db(transaction=True)
def test_the_client_brings_a_project_into_another_installation(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    exported = make_whole_project()
    wordings = find_wordings(exported)
    call_command("export_memory", str(first), "--format=project", stderr=io.StringIO())
    empty_database()
    project = make_project(slug="whole")
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project, scopes=[ApiKey.Scope.IMPORT]).token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(commands, "SECONDS_BETWEEN_LINES", 0.0)

    with importing():
        assert main(["import", str(first), "--dry-run"]) == 0
        assert main(["import", str(first)]) == 0
        assert main(["import", str(first)]) == 1

    said = capsys.readouterr()
    assert "would be imported" in said.out
    assert "MB sent\nall sent; waits for a worker\n" in said.err
    assert f"{RUNS}, line 1: duplicate key" in said.err
    assert [words[:3] for words in find_wordings(project)] == [words[:3] for words in wordings]
    call_command("export_memory", str(second), "--format=project", stderr=io.StringIO())
    assert read_files(second).replace("import:user:", "user:") == read_files(first)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text('{"format": "erl-project", "vers')])
@pytest.mark.parametrize("named", [".", "..", RUNS])
@pytest.mark.django_db(transaction=True)
def test_the_client_takes_no_part_of_an_export_for_a_log(
    live_server: Any,
    small: Path,
    damage: Callable[[Path], object],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key().token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(small / "config"))
    damage(small / "manifest.json")

    assert main(["import", str((small / named).resolve())]) == 1

    assert f"{small / RUNS} is part of a whole project" in capsys.readouterr().err
    assert not Trajectory.objects.exists()


def cut_short(file: Path) -> None:
    os.truncate(file, 100)


def change_a_letter(file: Path) -> None:
    file.write_text(file.read_text().replace("Cancel", "cancel"))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (cut_short, "memory_trajectory.jsonl has 100 bytes, and manifest.json says "),
        (change_a_letter, "memory_trajectory.jsonl is not the file that manifest.json names."),
        (Path.unlink, "memory_trajectory.jsonl cannot be read: No such file or directory."),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_the_client_sends_nothing_of_a_damaged_export(
    live_server: Any,
    small: Path,
    damage: Callable[[Path], object],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key(scopes=[ApiKey.Scope.IMPORT]).token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(small / "config"))
    damage(small / RUNS)

    assert main(["import", str(small)]) == 1

    assert sentence in capsys.readouterr().err
    assert not ProjectImport.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_client_brings_in_only_the_rows_it_is_asked_for(
    live_server: Any, small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    project = make_project(slug="taker")
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project, scopes=[ApiKey.Scope.IMPORT]).token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    log = tmp_path / "run.json"
    log.write_text(json.dumps({"task": "Find order 1.", "steps": []}))

    assert main(["import", str(small), "--only", "keys"]) == 1
    assert "There is no family 'keys'. There are settings, runs, lessons" in capsys.readouterr().err
    assert main(["import", str(small), "--family", "airline"]) == 1
    assert "leave out --task, --family and the like" in capsys.readouterr().err
    assert main(["import", str(log), "--only", "runs"]) == 1
    assert "which `erl export --all` writes" in capsys.readouterr().err
    with importing():
        assert main(["import", str(small), "--only", "runs"]) == 0
    assert (Heuristic.objects.count(), Trajectory.objects.count()) == (0, 1)
