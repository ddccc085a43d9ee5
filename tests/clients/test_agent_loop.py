"""`erl loop`: real commands as processes, in iterations, against the real server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL
from erl_client.agent_loop.processes import KeptOutput
from erl_client.agent_loop.record import Attempt, Plan, describe_attempt

from memory.api.models import IdempotencyRecord
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_heuristic
from tests.stack import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("erl")]

GOAL = "Cancel reservation EHGLP3."
MAX_SECONDS = 60
COUNT = """
count=$(($(cat count 2>/dev/null || echo 0) + 1)); echo $count > count
echo "iteration $ERL_ITERATION is number $count"; echo "oh" >&2
"""
STAY = "echo begun >> begun; sleep 300 & echo $! > pid; wait"
STUBBORN = f"trap '' TERM; {STAY}"


class Loop:
    """A loop that a test starts, kills and starts again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".erl-loop"
        self.options = ["--exec", "--goal", GOAL, "--family", "airline", "--max-iterations", "3"]

    def start(self, script: str, *options: str) -> "subprocess.Popen[str]":
        code = "import sys; from erl_client.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "loop", *self.options, *options, "--", "sh", "-c", script]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *options: str) -> tuple[int, str, str]:
        process = self.start(script, *options)
        out, err = process.communicate(timeout=MAX_SECONDS)
        return process.returncode, out, err

    def attempts(self) -> dict[str, Any]:
        return {file.parent.name: json.loads(file.read_text()) for file in sorted(self.state.glob("*/attempt.json"))}


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    (tmp_path / "work").mkdir()
    return Loop(tmp_path / "work")


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "It did not come true."
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not only waits to be reaped."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(") ")[2][0] not in "ZX"


def recorded(erl: ERL) -> list[Trajectory]:
    assert erl.flush(MAX_SECONDS)
    return list(Trajectory.objects.order_by("external_id"))


def test_loop_goes_on_until_the_check_passes(erl: ERL, project: Project, loop: Loop) -> None:
    code, out, err = loop.run(COUNT, "--check", 'test "$(cat count)" = 2')

    assert code == 0, err
    assert out.splitlines() == ["iteration 1 is number 1", "iteration 2 is number 2"]
    assert "The goal was reached in iteration 2." in err
    first, second = recorded(erl)
    assert (first.task, first.task_id, first.outcome, first.outcome_source) == (GOAL, "airline", "failure", "test")
    assert (second.outcome, second.metadata["iteration"]) == ("success", 2)
    assert [step["action"]["name"] for step in first.steps] == ["sh", "check"]
    assert first.steps[0]["observation"] == "iteration 1 is number 1"
    assert "exit code 1" in first.steps[1]["error"]
    assert (loop.state / "0001.1" / "agent.stderr").read_text() == "oh\n"

    again = loop.run(COUNT, "--check", 'test "$(cat count)" = 2')
    assert again[0] == 0
    assert "already ended with iteration 2" in again[2]
    assert len(recorded(erl)) == 2


def test_goal_that_is_not_reached_exits_with_1_and_more_iterations_may_follow(erl: ERL, loop: Loop) -> None:
    assert loop.run(COUNT, "--check", "false")[0] == 1
    assert loop.run(COUNT, "--check", "false", "--max-iterations", "4")[0] == 1

    assert list(loop.attempts()) == ["0001.1", "0002.1", "0003.1", "0004.1"]
    assert [run.outcome for run in recorded(erl)] == ["failure"] * 4


def test_agent_is_given_its_lessons_in_a_file_and_in_the_environment(erl: ERL, project: Project, loop: Loop) -> None:
    lesson = make_heuristic(
        project=project,
        status="approved",
        task_id="airline",
        trigger="When asked to cancel a reservation",
        guideline="Read the fare class first.",
    )
    embed_heuristics([lesson.pk])
    script = 'grep -q "fare class" "$ERL_LESSONS_FILE" && echo "$ERL_LESSONS" && echo "$ERL_GOAL"'

    code, out, _ = loop.run(script, "--max-iterations", "1")

    assert code == 0
    assert "Read the fare class first." in out
    assert GOAL in out
    (run,) = recorded(erl)
    assert run.retrieval_id


def test_steps_come_from_the_transcript_that_an_agent_prints(erl: ERL, loop: Loop) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "cancel", "arguments": '{"id": "EHGLP3"}'}}
    messages = [
        {"role": "user", "content": "another wording"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "cancelled"},
    ]
    (loop.folder / "log.json").write_text(json.dumps({"messages": messages, "model": "m"}))

    loop.run("cat log.json; exit 3", "--max-iterations", "1", "--check", "true")

    (run,) = recorded(erl)
    assert run.task == GOAL
    told, called, ended, checked = run.steps
    assert told["observation"] == "another wording"
    assert called["action"] == {"name": "cancel", "arguments": {"id": "EHGLP3"}}
    assert called["observation"] == "cancelled"
    assert "exit code 3" in ended["error"]
    assert checked["action"]["name"] == "check"


def test_steps_come_from_what_claude_code_prints(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "2 failed", "is_error": True}
    usage = {"input_tokens": 10, "output_tokens": 5}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "model": "m"},
        {"type": "assistant", "message": {"role": "assistant", "model": "m", "content": [call], "usage": usage}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "No."}]}},
        {"type": "result", "subtype": "success", "result": "No.", "total_cost_usd": 0.01},
    ]
    (tmp_path / "agent.stdout").write_text("".join(json.dumps(line | {"session_id": "s"}) + "\n" for line in lines))
    attempt = Attempt(loop="l", iteration=1, number=1, started_at="2026-01-01T00:00:00+00:00")

    run = describe_attempt(Plan(goal=GOAL, command=["claude"]), attempt, place=tmp_path, error="")

    assert (run["model"], run["tokens"], run["external_id"]) == ("m", 15, "loop:l:0001.1")
    called, said = run["steps"]
    assert (called["action"], called["error"]) == ({"name": "Bash", "arguments": {"command": "make test"}}, "2 failed")
    assert said["action"]["arguments"] == {"content": "No."}


def test_killed_loop_leaves_no_agent_and_goes_on_where_it_was(erl: ERL, loop: Loop) -> None:
    script = f"if [ -e slow ]; then {STAY}; else {COUNT} fi; touch slow"
    process = loop.start(script)
    wait_for((loop.folder / "pid").exists)
    wait_for(lambda: (loop.folder / "pid").read_text().strip())
    agent = int((loop.folder / "pid").read_text())
    assert is_running(agent)

    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=MAX_SECONDS)

    wait_for(lambda: not is_running(agent))
    assert loop.attempts()["0002.1"]["status"] == "running"
    (loop.folder / "slow").unlink()
    code, _, err = loop.run(script.replace("touch slow", "true"))
    assert code == 1, "another command is another loop"
    assert "holds a loop with a different command" in err
    (loop.folder / "slow").write_text("")
    (loop.folder / "pid").unlink()
    process = loop.start(script)  # the right iteration, which is slow again
    wait_for((loop.folder / "pid").exists)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=MAX_SECONDS)

    assert process.returncode == 128 + signal.SIGTERM
    assert "Iteration 2 was cut off and is repeated." in err
    assert "to repeat iteration 2" in err
    runs = recorded(erl)
    assert [run.external_id.rpartition(":")[2] for run in runs] == ["0001.1", "0002.1", "0002.2"]
    assert [run.metadata.get("interrupted") for run in runs] == [None, True, True]
    assert [run.outcome for run in runs] == ["unknown"] * 3
    assert "The loop was killed." in runs[1].steps[-1]["error"]


@pytest.mark.parametrize(("number", "script"), [(signal.SIGINT, STAY), (signal.SIGTERM, STUBBORN)])
def test_signal_ends_the_whole_process_group_of_the_agent(number: signal.Signals, script: str, loop: Loop) -> None:
    process = loop.start(script)
    wait_for((loop.folder / "pid").exists)
    wait_for(lambda: (loop.folder / "pid").read_text().strip())
    agent = int((loop.folder / "pid").read_text())

    process.send_signal(number)
    process.communicate(timeout=MAX_SECONDS)

    assert process.returncode == 128 + number
    wait_for(lambda: not is_running(agent))


def test_iteration_that_takes_too_long_is_ended_and_checked(erl: ERL, loop: Loop) -> None:
    code, _, err = loop.run("sleep 300", "--timeout", "1", "--max-iterations", "1", "--check", "true")

    assert code == 0
    assert "a time-out" in err
    (run,) = recorded(erl)
    assert "a time-out" in run.steps[1]["error"]
    assert run.outcome == "success"


def test_run_is_recorded_once_if_the_loop_dies_before_it_knows(erl: ERL, loop: Loop) -> None:
    assert loop.run(COUNT, "--max-iterations", "1")[0] == 0
    assert len(recorded(erl)) == 1
    file = loop.state / "0001.1" / "attempt.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"recorded": False}))

    assert loop.run(COUNT, "--max-iterations", "1")[0] == 0

    assert len(recorded(erl)) == 1
    assert not erl.spool.refused()
    assert IdempotencyRecord.objects.count() == 1


def test_erl_that_is_down_does_not_stop_the_loop(erl: ERL, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    up = os.environ["ERL_URL"]
    monkeypatch.setenv("ERL_URL", f"http://127.0.0.1:{free_port()}")

    code, out, err = loop.run(COUNT, "--check", 'test "$(cat count)" = 2')

    assert code == 0
    assert out.count("iteration") == 2
    assert "2 runs will be recorded when ERL answers again" in err
    monkeypatch.setenv("ERL_URL", up)
    assert not Trajectory.objects.exists()


def test_second_loop_on_the_same_state_is_refused(loop: Loop) -> None:
    process = loop.start(STAY)
    wait_for((loop.folder / "pid").exists)

    code, _, err = loop.run(STAY)

    assert code == 1
    assert "Another loop is running" in err
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=MAX_SECONDS)
    assert (loop.folder / "begun").read_text() == "begun\n"


def test_check_that_cannot_be_run_ends_the_loop(loop: Loop) -> None:
    code, _, err = loop.run(COUNT, "--check", "no-such-command-anywhere")

    assert code == 1
    assert "The check cannot be run" in err
    assert list(loop.attempts()) == ["0001.1"]


def test_output_is_kept_up_to_a_bound(tmp_path: Path) -> None:
    kept = KeptOutput(tmp_path / "out", max_bytes=1_000)
    for _ in range(1_000):
        kept.write(b"0123456789")
    kept.close()

    content = (tmp_path / "out").read_bytes()
    assert content.startswith(b"0123456789" * 50 + b"\n[... cut: 9000 bytes left out here ...]\n")
    assert len(content) < 1_100
