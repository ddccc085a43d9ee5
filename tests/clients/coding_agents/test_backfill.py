"""`erl backfill` against the real server: what it finds, skips and sends."""

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from erl_client import ERL
from erl_client.cli import main
from erl_client.coding_agents.repositories import find_family

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.broken_erl import BrokenErl, server_error
from tests.clients.coding_agents.conftest import SESSION_FOLDER, SESSIONS, Command
from tests.factories import make_api_key
from tests.real_runs import EXCERPTS

PROGRAMS = EXCERPTS / "programs"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def sessions(home: Path) -> Path:
    """Return the folder of Claude Code's sessions: one of a project, one of its sub-agent, and a broken line."""
    folder = home / ".claude" / "projects" / "-home-ana-shop"
    folder.mkdir(parents=True)
    session = (SESSIONS / "claude_code.jsonl").read_text()
    (folder / "5b1c9a3e.jsonl").write_text(session + '{"type": "user", "mess')
    (folder / "agent-a1b2.jsonl").write_text(session)
    return folder


def recorded() -> list[str]:
    return sorted(Trajectory.objects.values_list("task", flat=True))


def test_dry_run_counts_what_is_found_and_says_why_it_is_skipped(sessions: Path, capsys: Said) -> None:
    assert main(["backfill", "claude-code", "--dry-run"]) == 0

    said = capsys.readouterr().out
    assert said.splitlines()[0] == "Found 1 session with 6 tasks."
    assert set(said.splitlines()[1:4]) == {
        "Skipped 1: session of a sub-agent",
        "Skipped 1: too short",
        "Skipped 1: no tool calls",
    }
    assert f"{sessions / '5b1c9a3e.jsonl'}, line 43: This is not JSON: " in said
    assert said.splitlines()[-1] == "To send: 4"


@pytest.mark.usefixtures("erl", "sessions")
def test_tasks_are_sent_once_however_often_it_runs(capsys: Said) -> None:
    assert main(["backfill", "claude-code"]) == 0
    assert "Sent 4 of 4." in capsys.readouterr().out
    assert main(["backfill", "claude-code"]) == 0

    said = capsys.readouterr().out
    assert "Skipped 4: already sent" in said
    assert "To send: 0" in said
    runs = Trajectory.objects.order_by("started_at")
    assert {run.task_id for run in runs} == {find_family(SESSION_FOLDER)}
    assert [(run.agent, run.outcome) for run in runs] == [
        ("claude-code", "success"),
        ("claude-code", "success"),
        ("claude-code", "unknown"),
        ("claude-code", "failure"),
    ]


@pytest.mark.usefixtures("sessions")
def test_runs_of_another_computer_are_not_recorded_again(erl: ERL, capsys: Said) -> None:
    assert main(["backfill", "claude-code"]) == 0
    shutil.rmtree(erl.spool.folder)  # the notes
    run = Trajectory.objects.get(task__startswith="Fix")
    Trajectory.objects.filter(pk=run.pk).update(summary="as it was when the session was shorter")

    assert main(["backfill", "claude-code"]) == 0

    assert Trajectory.objects.count() == 4
    assert "refused" not in capsys.readouterr().out


@pytest.mark.usefixtures("erl")
def test_codex_file_is_sent_from_a_date_on_for_another_family(capsys: Said) -> None:
    file = str(SESSIONS / "codex.jsonl")

    assert main(["backfill", "codex", file, "--since", "2026-05-01", "--family", "till"]) == 0
    assert "Skipped 2: before 2026-05-01" in capsys.readouterr().out
    assert main(["backfill", "codex", file, "--since", "2026-04-05", "--family", "till"]) == 0

    assert recorded() == ["Make the parser accept empty lines", "Now reject lines with tabs"]
    assert set(Trajectory.objects.values_list("task_id", flat=True)) == {"till"}


@pytest.mark.usefixtures("sessions")
def test_erl_that_fails_leaves_the_rest_for_the_next_time(
    project: Project, live_server: object, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project).token)
    with BrokenErl(server_error) as broken:
        monkeypatch.setenv("ERL_URL", broken.url)
        assert main(["backfill", "claude-code"]) == 1
    said = capsys.readouterr()
    assert "Sent 0 of 4. Run the command again to send the others." in said.out
    assert "ERL answered 500" in said.err

    monkeypatch.setenv("ERL_URL", live_server.url)  # type: ignore[attr-defined]
    assert main(["backfill", "claude-code"]) == 0
    assert Trajectory.objects.count() == 4


@pytest.mark.usefixtures("erl")
def test_run_that_erl_refuses_is_named_and_the_others_are_sent(sessions: Path, capsys: Said) -> None:
    file = sessions / "5b1c9a3e.jsonl"
    file.write_text(file.read_text().replace('"name": "Write"', f'"name": "{"w" * 300}"'))

    assert main(["backfill", "claude-code"]) == 1

    said = capsys.readouterr().out
    assert f"{file}, 'Add a test for negative prices': ERL answered 400" in said
    assert "Sent 3 of 4, 1 refused." in said


def test_hooks_and_backfill_know_of_each_other(erl: ERL, sessions: Path, command: Command, capsys: Said) -> None:
    transcript = {
        "session_id": "5b1c9a3e-2222-4333-8444-555566667777",
        "transcript_path": str(sessions / "5b1c9a3e.jsonl"),
    }
    assert command("hook", "record", stdin=transcript).returncode == 0

    assert main(["backfill", "claude-code"]) == 0

    assert "Skipped 4: already sent" in capsys.readouterr().out
    assert erl.flush(60)
    assert len(recorded()) == 4


@pytest.mark.usefixtures("erl")
def test_task_that_a_session_holds_twice_is_counted_and_sent_once(sessions: Path, capsys: Said) -> None:
    file = sessions / "5b1c9a3e.jsonl"
    file.write_text(file.read_text() * 2)

    assert main(["backfill", "claude-code"]) == 0

    said = capsys.readouterr().out
    assert "To send: 4\n" in said
    assert "Sent 4 of 4." in said


@pytest.mark.usefixtures("erl")
def test_import_of_a_session_whose_tasks_are_recorded_adds_its_sub_agents_alone(sessions: Path, capsys: Said) -> None:
    assert main(["backfill", "claude-code"]) == 0
    tasks = recorded()

    call_command("import_trajectories", sessions / "5b1c9a3e.jsonl")

    assert "1 imported, 1 unchanged, 0 failed" in capsys.readouterr().out
    assert recorded() == sorted([*tasks, "Check the style of round.py in depth"])
    caller = Trajectory.objects.get(task="Check the style of round.py in depth").parent
    assert caller is not None
    assert caller.task == "/commit the rounding fix"


@pytest.mark.usefixtures("erl")
def test_fork_and_sub_agent_name_the_task_they_come_from(tmp_path: Path, capsys: Said) -> None:
    parent, fork, sub_agent = (tmp_path / f"rollout-{n}.jsonl" for n in (1, 2, 3))
    lines = (PROGRAMS / "codex" / "fork.jsonl").read_text().splitlines()
    parent.write_text("\n".join(lines[1:7]).replace("T10:00:10", "T09:00:00"))
    fork.write_text("\n".join(lines))
    sub_agent.write_text((PROGRAMS / "codex" / "sub_agent.jsonl").read_text())

    assert main(["backfill", "codex", str(tmp_path)]) == 0

    asked = Trajectory.objects.get(task="Fix the failing test in test_round.py")
    assert Trajectory.objects.get(task="Now fix it").parent == asked
    assert Trajectory.objects.get(task="Look for other places that round").parent == asked
    assert "Found 3 sessions with 3 tasks." in capsys.readouterr().out


@pytest.mark.usefixtures("erl")
def test_task_whose_parent_is_not_recorded_keeps_its_name() -> None:
    assert main(["backfill", "codex", str(PROGRAMS / "codex" / "fork.jsonl")]) == 0

    run = Trajectory.objects.get(task="Now fix it")
    assert (run.parent, run.metadata["parent_id"]) == (None, "0a")


def test_folder_without_sessions_is_said(home: Path, capsys: Said) -> None:
    assert main(["backfill", "codex"]) == 1
    assert f"There are no sessions in {home / '.codex/sessions'}" in capsys.readouterr().err


def test_file_that_takes_too_long_is_left_out(
    home: Path, capsys: Said, erl: ERL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erl_client.coding_agents.backfill.FILE_CPU_SECONDS", 0.001)
    file = home / "long.jsonl"
    file.write_text('{"type": "note"}\n' * 200_000)

    assert main(["backfill", "claude-code", str(file)]) == 0

    assert f"{file} is left out: it took more than 0.001 s of processor time." in capsys.readouterr().out
