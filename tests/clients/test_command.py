"""The command `erl` against the real server."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL
from erl_client.cli import main
from erl_client.coding_agents.notes import find_losses, note_loss
from erl_client.credentials import credentials_file

from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.broken_erl import BrokenErl, limited
from tests.factories import make_heuristic

TASK = "Cancel reservation EHGLP3."
MESSAGES = [{"role": "user", "content": TASK}, {"role": "assistant", "content": "It cannot be cancelled."}]
pytestmark = pytest.mark.usefixtures("erl")


def test_limit_of_a_proxy_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.json"
    log.write_text(json.dumps({"task": TASK, "steps": []}))

    with BrokenErl(limited) as proxy:
        monkeypatch.setenv("ERL_URL", proxy.url)
        assert main(["import", str(log)]) == 1

    said = capsys.readouterr()
    assert "A proxy before ERL refuses a request of " in said.err
    assert "client_max_body_size" in said.err
    assert said.out.endswith("0 runs recorded, 1 refused.\n")


def make_lesson(project: Project, status: str = "approved") -> Heuristic:
    lesson = make_heuristic(
        project=project,
        status=status,
        task_id="airline",
        trigger="When asked to cancel a reservation",
        guideline="Read the fare class first.",
    )
    embed_heuristics([lesson.pk])
    return lesson


def test_login_stores_a_key_that_works(
    erl: ERL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["login"]) == 0
    monkeypatch.delenv("ERL_URL")
    monkeypatch.delenv("ERL_API_KEY")

    assert credentials_file().stat().st_mode & 0o777 == 0o600
    assert main(["status"]) == 0
    said = capsys.readouterr().out
    assert "0 approved, 0 waiting" in said
    assert erl.destination.api_key not in said


def test_login_stores_no_key_that_is_refused(erl: ERL, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["login", "--api-key", "erl_live_x"]) == 1
    assert "401" in capsys.readouterr().err
    assert not credentials_file().exists()


def test_context_prints_the_lessons(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    make_lesson(project)

    assert main(["context", TASK, "--family", "airline"]) == 0
    assert "Read the fare class first." in capsys.readouterr().out


def test_record_reads_a_run_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(MESSAGES).encode())))

    assert main(["record", "--family", "airline", "--outcome", "success"]) == 0

    run = Trajectory.objects.get()
    assert capsys.readouterr().out.strip() == str(run.pk)
    assert (run.task, run.task_id, run.outcome, len(run.steps)) == (TASK, "airline", "success", 2)


def test_import_records_each_run_once_and_names_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"task": "Own", "outcome": "failure", "steps": [{"action": "look", "error": "no"}], "colour": "red"}
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps({'messages': MESSAGES})}\n{json.dumps(own)}\n")
    (tmp_path / "broken.json").write_text('{"weather": "fine"}')

    assert main(["import", str(tmp_path), "--dry-run"]) == 1
    assert Trajectory.objects.count() == 0
    assert main(["import", str(tmp_path)]) == 1
    assert main(["import", str(tmp_path)]) == 1

    said = capsys.readouterr()
    assert "2 runs recorded, 1 refused." in said.out
    assert "broken.json: This is not in a known format" in said.err
    assert sorted(Trajectory.objects.values_list("task", "metadata__colour")) == [(TASK, None), ("Own", "red")]


def test_export_prints_approved_lessons_only(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    lesson = make_lesson(project)
    make_lesson(project, status="proposed")

    assert main(["export", "--family", "airline", "--json"]) == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["id"] == str(lesson.pk)
    assert json.loads(line)["guideline"] == "Read the fare class first."


def test_review_shows_what_a_terminal_would_hide(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    make_heuristic(
        project=project,
        trigger="A refund is asked for",
        guideline="Refund at once.\x1b[1A\x1b[2KGuideline: Ask first.\nNot when: never \u202eecno",
    )

    assert main(["review", "--list"]) == 0

    said = capsys.readouterr().out
    assert "Refund at once.[U+001B][1A[U+001B][2KGuideline: Ask first.\n    Not when: never [U+202E]ecno" in said


def test_review_decides_on_what_was_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = make_lesson(project, status="proposed")
    monkeypatch.setattr("sys.stdin", io.StringIO("r\nNot always.\n"))

    assert main(["review"]) == 0

    assert "When asked to cancel a reservation" in capsys.readouterr().out
    lesson.refresh_from_db()
    assert lesson.status == "rejected"


def test_status_names_runs_that_wait(
    erl: ERL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ERL_URL", "http://127.0.0.1:9")
    with ERL() as away, away.run(TASK):
        pass

    assert main(["status"]) == 1
    said: Any = capsys.readouterr()
    assert "Runs waiting    1" in said.out
    assert "cannot be reached" in said.err


def test_forget_removes_what_waits_about_a_person(erl: ERL, capsys: pytest.CaptureFixture[str]) -> None:
    erl.spool.add({"task": "Write to Ana Ćosić"})
    erl.spool.add({"task": "Write to Bob"})
    note_loss(erl.spool, Path("session.jsonl"), "'Ana Ćosić asks' is too large")

    assert main(["forget", "ana ćosić"]) == 0

    assert "1 run removed" in capsys.readouterr().out
    assert [run.read()["task"] for run in erl.spool.waiting()] == ["Write to Bob"]
    assert find_losses(erl.spool) == []
