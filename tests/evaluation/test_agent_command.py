"""The suite yours with an agent that is a command: every way to fail is named, and none ends the evaluation."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evaluation.environments import command
from evaluation.environments.base import Task, TryResult
from evaluation.environments.command import CommandAgent, read_command, read_tasks
from evaluation.errors import EvaluationError
from evaluation.reports.report import write_text
from evaluation.runner import create_run, execute_run
from evaluation.suites.base import Options
from evaluation.suites.yours.suite import Yours

pytestmark = pytest.mark.nightly

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TASK = Task(id="t1", text="Book a table.", family="book")


def run_code(code: str, folder: Path, *, timeout_seconds: float = 30, lessons: str = "") -> TryResult:
    """Let an agent of these lines of Python try a task."""
    (folder / "agent.py").write_text(f"import json, os, subprocess, sys, time\n{code}", encoding="utf-8")
    tasks = folder / "tasks.jsonl"
    lines = [{"id": "t1", "task": TASK.text, "family": "book", "data": {"seats": 2}}, {"id": "t2", "task": "Another."}]
    tasks.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    agent = read_command(f"{sys.executable} agent.py", folder=folder, timeout_seconds=timeout_seconds)
    return CommandAgent(agent, tasks=tasks).run(TASK, lessons=lessons, trial=0)


def test_agent_reads_task_and_lessons_and_writes_a_run(tmp_path: Path) -> None:
    code = """
asked = json.load(sys.stdin)
said = json.dumps(asked, sort_keys=True)
print(json.dumps({"outcome": "success", "score": 0.9, "steps": [{"thought": said}], "tools": ["book"]}))
"""
    played = run_code(code, tmp_path, lessons="Ask how many come.")

    assert (played.success, played.score, played.error) == (True, 0.9, "")
    assert played.members["tools"] == ["book"]
    assert json.loads(played.steps[0]["thought"]) == {
        "id": "t1",
        "task": "Book a table.",
        "family": "book",
        "lessons": "Ask how many come.",
        "trial": 1,
        "data": {"seats": 2},
    }


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise KeyError('day')", "it ended with exit code 1: KeyError: 'day'"),
        ("sys.exit(7)", "it ended with exit code 7"),
        ("os.kill(os.getpid(), 9)", "it ended with signal SIGKILL"),
        ("print('All done!')", "standard output is not one JSON object"),
        ("print('[1, 2]')", "standard output is not one JSON object"),
        ("print('thinking', file=sys.stderr)", "it wrote nothing to standard output: thinking"),
        ("print('{}')", "its run does not say the outcome"),
        ('print(\'{"outcome": "maybe"}\')', "its run is not valid: /outcome"),
        ('print(\'{"outcome": "success", "steps": 3}\')', "its run is not valid: steps must be a list"),
        ('print(\'{"outcome": "success", "parent_id": "a"}\')', "leave out parent_id"),
        ('print(\'{"outcome": "success", "answer": 1}\')', "/answer: This member is unknown"),
        ("sys.stdout.write(' ' * 2_000_000)", "it wrote 2,000,000 bytes"),
        ("sys.exit('token=ghp_' + 'a1B2' * 9)", "it ended with exit code 1: token=[REDACTED:github_token"),
    ],
)
def test_failure_of_the_agent_is_named(code: str, says: str, tmp_path: Path) -> None:
    played = run_code(code, tmp_path)

    assert not played.success
    assert says in played.error


def test_agent_that_hangs_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    code = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("child", "w").write(str(child.pid))
time.sleep(600)
"""
    played = run_code(code, tmp_path, timeout_seconds=5)

    assert "took longer than 5 seconds" in played.error
    assert is_gone(int((tmp_path / "child").read_text()))


def test_end_of_the_evaluation_ends_the_agents_that_run(tmp_path: Path) -> None:
    code = "open('started', 'w').close(); time.sleep(600)"
    try:
        with ThreadPoolExecutor(1) as pool:
            playing = pool.submit(run_code, code, tmp_path, timeout_seconds=300)
            while not (tmp_path / "started").exists():
                time.sleep(0.05)
            command.stop_commands()
            stopped = playing.result(60)
        later = run_code(code, tmp_path)
    finally:
        command._stopping.clear()

    assert stopped.error == "it ended with signal SIGKILL"
    assert later.error == "the evaluation was stopped"


def test_process_left_behind_does_not_hold_up_the_evaluation(tmp_path: Path) -> None:
    code = """
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print('{"outcome": "success"}')
"""
    played = run_code(code, tmp_path, timeout_seconds=120)

    assert played.success


def test_agent_does_not_see_the_settings_of_erl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERL_API_KEY", "of the live server")
    monkeypatch.setenv("DATABASE_URL", "postgresql://sandbox")
    monkeypatch.setenv("MODEL_KEY", "of the agent")
    code = "print(json.dumps({'outcome': 'success', 'steps': [{'thought': ' '.join(os.environ)}]}))"

    names = run_code(code, tmp_path).steps[0]["thought"].split()

    assert "MODEL_KEY" in names
    assert not {"ERL_API_KEY", "DATABASE_URL", "DJANGO_SETTINGS_MODULE"} & set(names)


def is_gone(pid: int) -> bool:
    """Wait until a process is gone or a zombie."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('{"id": "a"}', "line 1: /task: This member is required"),
        ('{"id": "a", "task": "x"}\nnot JSON', "line 2: "),
        ('{"id": "a", "task": "x"}\n{"id": "a", "task": "y"}', "two lines have the same id"),
        ('{"id": "a", "task": "x", "split": "test"}\n{"id": "b", "task": "y"}', "give every line a split"),
        ('{"id": "a", "task": "x"}', "has 1 tasks"),
    ],
)
def test_file_of_tasks_with_a_mistake_is_refused(lines: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(lines, encoding="utf-8")

    with pytest.raises(EvaluationError, match=says):
        read_tasks(path)


def test_tasks_without_splits_are_halved_by_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"t{n}", "task": f"Task {n}"}) for n in range(10)), encoding="utf-8")
    agent = CommandAgent(read_command("true", folder=tmp_path, timeout_seconds=1), tasks=path)

    halves = [{task.id for task in agent.tasks(split, seed=0)} for split in ("source", "test")]
    others = {task.id for task in agent.tasks("source", seed=1)}

    assert [len(half) for half in halves] == [5, 5]
    assert not halves[0] & halves[1]
    assert others != halves[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"agent": "true"}, "Name both"),
        ({"tasks": "tasks.jsonl"}, "Name both"),
        ({"agent": "true", "tasks": "tasks.jsonl", "environment": "a:B"}, "Name either"),
        ({"agent": "no-such-program", "tasks": "tasks.jsonl"}, "there is no program 'no-such-program'"),
        ({"agent": "true", "tasks": "nowhere.jsonl"}, "cannot be read"),
    ],
)
def test_agent_that_cannot_be_asked_is_refused_before_the_run(options: dict[str, str], says: str) -> None:
    with pytest.raises(EvaluationError, match=says):
        Yours().units(Options(suites=("yours",), **options))  # type: ignore[arg-type]


def make_options(folder: Path, agent: str, **more: Any) -> Options:
    return Options(
        suites=("yours",),
        agent=agent,
        tasks=str(EXAMPLES / "booking_tasks.jsonl"),
        folder=str(folder),
        trials=1,
        **more,
    )


@pytest.mark.django_db(transaction=True)
def test_example_agent_is_evaluated_and_its_failures_and_controls_are_named(tmp_path: Path) -> None:
    """One task in the test split makes the agent crash; with a single lesson the controls give that lesson too."""
    code = (EXAMPLES / "booking_agent.py").read_text(encoding="utf-8")
    crash = 'if asked["id"] == "march-12" and asked["lessons"]:\n    sys.exit("no table")\n'
    (tmp_path / "agent.py").write_text(code.replace('day = asked["data"]', crash + 'day = asked["data"]'), "utf-8")
    options = make_options(tmp_path, f"{sys.executable} agent.py", arms=("hybrid:5", "random:5", "shuffled"))

    run = execute_run(create_run(options, by="test"))

    [suite] = run.results["suites"]
    shares = {row["arm"]: row["success"]["mean"] for row in suite["arms"]}
    text = " ".join(write_text(run.results).split())
    assert shares == {"none": 0, "hybrid:5": 0.9, "random:5": 0.9, "shuffled": 0.9}
    assert "The controls fail, so this does not show that memory helps" in text
    assert "lessons not chosen for the task: random:5 90.0%, shuffled 90.0%)" in text
    assert "Memory helps" not in text
    assert "march-12, hybrid:5, try 1: it ended with exit code 1: no table" in text
    assert "By time" not in text
    assert "no uplift is claimed" not in text
    assert str(tmp_path) not in json.dumps(run.results)


@pytest.mark.django_db(transaction=True)
def test_agent_that_never_gives_a_run_ends_the_evaluation_with_its_words(tmp_path: Path) -> None:
    options = make_options(tmp_path, f"{sys.executable} -c 'raise SystemExit(3)'", arms=("hybrid:5",))

    with pytest.raises(EvaluationError, match=r"in any of its 10 first tries.*march-01: it ended with exit code 3"):
        execute_run(create_run(options, by="test"))
