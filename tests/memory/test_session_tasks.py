"""Sessions of coding agents are cut into tasks, whose outcome is read from tests and commits."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from memory.transcripts.checks import judge
from memory.transcripts.formats import parse_lines
from memory.transcripts.tasks import LoggedTask, Session, cut_session

PROMPT = "Fix the rounding of prices in round.py"
PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
SESSIONS = Path(__file__).resolve().parents[1] / "data" / "coding_sessions"


def read(agent: str, name: str) -> Session:
    lines, problems = parse_lines((SESSIONS / name).read_text(encoding="utf-8"))
    assert not problems
    return cut_session(agent, lines, name="file")


def row(task: LoggedTask) -> tuple[str, str, str, str, str]:
    return task.id, task.prompt, task.reason_to_skip, task.run.outcome, task.run.outcome_source


def test_session_of_claude_code_is_cut_at_prompts_of_a_person() -> None:
    session = read("claude-code", "claude_code.jsonl")

    assert (session.id, Path(session.folder).name) == ("5b1c9a3e-2222-4333-8444-555566667777", "shop")
    assert [row(task) for task in session.tasks] == [
        ("p1", "Fix the rounding of prices in round.py", "", "success", "test"),
        ("p2", "yes", "too short", "", ""),
        ("p3", "What does banker's rounding mean?", "no tool calls", "", ""),
        ("p4", "/commit the rounding fix", "", "success", "agent"),
        ("p5", "Add a test for negative prices", "", "", ""),
        ("p6", "Check the currency conversion as well", "", "failure", "test"),
    ]


def test_session_of_codex_is_cut_with_the_tokens_and_times_of_each_task() -> None:
    session = read("codex", "codex.jsonl")

    assert [row(task)[1:] for task in session.tasks] == [
        ("Make the parser accept empty lines", "", "success", "test"),
        ("Now reject lines with tabs", "", "failure", "test"),
    ]
    assert [(task.run.tokens, task.run.model, task.run.started_at, task.run.ended_at) for task in session.tasks] == [
        (1000, "gpt-5.2-codex", "2026-04-05T10:00:07+00:00", "2026-04-05T10:00:13+00:00"),
        (600, "gpt-5.2-codex", "2026-04-05T10:00:17+00:00", "2026-04-05T10:00:22+00:00"),
    ]


def test_session_of_cursor_has_no_results_and_so_no_outcome() -> None:
    session = read("cursor", "cursor.jsonl")

    assert [row(task) for task in session.tasks] == [
        ("1", "Rename the module prices to money", "", "", ""),
        ("2", "thanks", "too short", "", ""),
    ]


def test_task_is_a_run_with_the_steps_of_its_prompt_alone() -> None:
    first = read("claude-code", "claude_code.jsonl").tasks[0]

    assert [step["action"]["name"] for step in first.run.steps if step["action"]] == ["Bash", "Edit", "Bash", "respond"]
    assert first.run.external_id == "5b1c9a3e-2222-4333-8444-555566667777/p1"
    assert "ide_opened_file" not in first.run.task
    assert "system-reminder" not in json.dumps(first.run.steps)


def test_tasks_stay_the_same_when_the_session_goes_on() -> None:
    lines, _ = parse_lines((SESSIONS / "claude_code.jsonl").read_text(encoding="utf-8"))
    whole = cut_session("claude-code", lines, name="file").tasks
    until_commit = cut_session("claude-code", lines[:23], name="file").tasks

    assert len(until_commit) == 3
    assert until_commit == whole[:3]


@pytest.mark.parametrize(("agent", "name"), [("claude-code", "claude_code"), ("codex", "codex"), ("cursor", "cursor")])
def test_last_tasks_are_the_same_without_the_others(agent: str, name: str) -> None:
    lines, _ = parse_lines((SESSIONS / f"{name}.jsonl").read_text(encoding="utf-8"))

    (last,) = cut_session(agent, lines, name="file", last=1).tasks

    assert last == cut_session(agent, lines, name="file").tasks[-1]


def test_item_that_cannot_be_read_leaves_the_others() -> None:
    lines, _ = parse_lines((SESSIONS / "codex.jsonl").read_text(encoding="utf-8"))
    whole = cut_session("codex", lines, name="file").tasks
    lines[9]["payload"]["name"] = None

    first, second = cut_session("codex", lines, name="file").tasks

    assert first.run.left_out[-1].endswith("must be the tool's name, a string that is not empty.")
    assert second == whole[1]


UNKNOWN = ["ghost_snapshot", "compaction", "context_compaction", "compaction_trigger", "agent_message", "other", "new"]


@pytest.mark.parametrize("kind", UNKNOWN)
def test_session_of_codex_with_an_unknown_item_is_kept(kind: str) -> None:
    lines, _ = parse_lines((SESSIONS / "codex.jsonl").read_text(encoding="utf-8"))
    whole = cut_session("codex", lines, name="file").tasks
    item = {"timestamp": lines[9]["timestamp"], "type": "response_item", "payload": {"type": kind, "id": "x"}}
    lines.insert(9, item)

    tasks = cut_session("codex", lines, name="file").tasks

    assert [task.reason_to_skip for task in tasks] == ["", ""]
    assert [task.run.steps for task in tasks] == [task.run.steps for task in whole]
    assert [each for each in tasks[0].run.left_out if f"an item of the unknown type {kind}" in each]


@pytest.mark.parametrize("kind", ["tool_search_output", "mcp_tool_call_output", "new_tool_output"])
def test_result_of_a_tool_that_is_not_known_answers_its_call(kind: str) -> None:
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look for the tool"}]}
    call = {"type": kind.removesuffix("_output").removesuffix("_call") + "_call", "call_id": "c1", "arguments": "{}"}
    items = [prompt, call, {"type": kind, "call_id": "c1", "output": "found"}]
    lines = [{"type": "response_item", "payload": item} for item in items]

    (task,) = cut_session("codex", lines, name="file").tasks

    assert [step["observation"] for step in task.run.steps if step["action"]] == ["found"]


@pytest.mark.parametrize(("agent", "name"), [("claude-code", "claude_code"), ("cursor", "cursor")])
def test_message_in_an_unknown_form_leaves_the_session(agent: str, name: str) -> None:
    lines, _ = parse_lines((SESSIONS / f"{name}.jsonl").read_text(encoding="utf-8"))
    spoken = next(line for line in lines if line.get("type") == "assistant" or line.get("role") == "assistant")
    spoken["message"]["content"] = [5]

    tasks = cut_session(agent, lines, name="file").tasks

    assert [task.problem for task in tasks] == [""] * len(tasks)
    assert sum(len(task.run.left_out) for task in tasks) == 1


def test_line_separators_inside_texts_do_not_end_a_line() -> None:
    assert parse_lines('{"a": "one\u2028two"}\n{"b": 1}') == ([{"a": "one\u2028two"}, {"b": 1}], [])


def shell(command: Any, *, observation: str = "", error: str = "", **more: Any) -> dict[str, Any]:
    arguments = {"command": command, **more}
    return {"action": {"name": "Bash", "arguments": arguments}, "observation": observation, "error": error}


PASSED, FAILED, COMMITTED, NOTHING = ("success", "test"), ("failure", "test"), ("success", "agent"), ("", "")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (shell("pytest -q", observation="."), PASSED),
        (shell("pytest -q", error="Exit code 1\nassert 2 == 3"), FAILED),
        (shell("pytest -q", error="1 failed"), FAILED),
        (shell(["bash", "-lc", "cargo test"], observation="Exit code: 0\nWall time: 1\nok"), PASSED),
        (shell("cd app && CI=1 uv run --group dev pytest -x", observation="ok"), PASSED),
        (shell("timeout 60 ./gradlew --quiet test", observation="done"), PASSED),
        (shell("python manage.py test shop", error="Exit code 1\nFAILED (failures=2)"), FAILED),
        (shell("npm run test:unit", observation="fine"), PASSED),
        (shell("go vet ./... && go test ./... && git commit -m x", observation="ok"), PASSED),
        # The exit code is not that of the tests: what they printed counts
        (shell("pytest 2>&1 | tail -3", observation="3 passed in 0.1s"), PASSED),
        (shell("pytest | tail -3", observation="1 failed, 3 passed in 0.1s"), FAILED),
        (shell("pytest | tail -3", observation="see the log"), NOTHING),
        (shell("set -o pipefail; pytest | tail -3", observation="see the log"), PASSED),
        (shell("pytest || true", observation="2 errors in 0.1s"), FAILED),
        (shell("pytest && git push", error="Exit code 1\nrejected"), NOTHING),
        (shell("cargo test; echo $?", observation="test result: ok. 3 passed; 0 failed"), PASSED),
        (shell("python -m unittest; echo over", observation="Ran 3 tests\n\nOK\nover"), PASSED),
        # They did not run, or are not over
        (shell("pytest", error="The user doesn't want to proceed with this tool use."), NOTHING),
        (shell("pytest", error="Exit code 127\npytest: command not found"), NOTHING),
        (shell("pytest", observation="Command running in background with ID: b1"), NOTHING),
        (shell("pytest", observation="fine", run_in_background=True), NOTHING),
        (shell("pytest"), NOTHING),
        # They are not tests
        (shell("pytest --version", observation="pytest 9.0"), NOTHING),
        (shell("npx jest --help", observation="Usage"), NOTHING),
        (shell("cd app && python -m pytest tests --collect-only -q", observation="3 tests collected"), NOTHING),
        (shell("pip install pytest", observation="done"), NOTHING),
        (shell("grep -rn pytest .", observation="x"), NOTHING),
        (shell("echo 'run pytest; pytest'", observation="x"), NOTHING),
        (shell("cat <<'E'\ndon't\nE", observation="x"), NOTHING),
        (shell("git commit -m 'Fix; see pytest'", observation="[main 1a2b3c4] Fix"), COMMITTED),
        (shell("git add . && git commit -qm x && git push", observation="(no output)"), COMMITTED),
        (shell("git -C app commit -m x | cat", observation="[feature/a-b (root-commit) 1a2b3c4d] x"), COMMITTED),
        (shell("git commit -m x", error="Exit code 1\nnothing to commit"), NOTHING),
        (shell("git commit --dry-run", observation="On branch main"), NOTHING),
        ({"action": {"name": "Read", "arguments": {"command": "pytest"}}, "observation": "x", "error": ""}, NOTHING),
        ({"action": None, "observation": "pytest", "error": ""}, NOTHING),
    ],
)
def test_outcome_of_one_command(step: dict[str, Any], expected: tuple[str, str]) -> None:
    assert judge([step]) == expected


def test_blob_of_data_in_a_command_is_passed_over_at_once() -> None:
    """A pattern that tries each slash with each letter behind it would take minutes, in a hook that an agent awaits."""
    blob = shell(f"cat > picture.b64 <<E\n{'/python' * 10_000}\nE", observation="x")
    began = time.process_time()

    assert judge([blob]) == NOTHING
    assert time.process_time() - began < 2


def test_last_tests_count_and_go_before_a_commit() -> None:
    failed, passed = shell("pytest", error="Exit code 1\n"), shell("pytest", observation="4 passed")
    unseen, commit = (
        shell("pytest | tail -1", observation="?"),
        shell("git commit -m x", observation="[main 1a2b3c4] x"),
    )

    assert judge([failed, passed]) == PASSED
    assert judge([passed, commit, failed]) == FAILED
    assert judge([failed, unseen]) == NOTHING
    assert judge([failed, unseen, commit]) == COMMITTED


@pytest.mark.parametrize(
    ("agent", "name", "session", "tasks"),
    [
        ("gemini-cli", "session.jsonl", "gem-2", ["m3"]),
        ("qwen-code", "session.jsonl", "qw-1", ["q3"]),
        ("opencode", "reverted.json", "oc-2", ["m1"]),
    ],
)
def test_prompts_that_were_taken_back_are_no_tasks(agent: str, name: str, session: str, tasks: list[str]) -> None:
    text = (PROGRAMS / agent / name).read_text(encoding="utf-8")
    lines = [json.loads(text)] if name.endswith(".json") else parse_lines(text)[0]

    read = cut_session(agent, lines, name="file")

    assert (read.id, [task.id for task in read.tasks]) == (session, tasks)
    assert [task.prompt for task in read.tasks] == ["Fix the failing test in test_round.py"]
    assert [(task.run.external_id, task.reason_to_skip) for task in read.tasks] == [(f"{session}/{tasks[0]}", "")]


def test_what_hooks_add_to_a_prompt_is_no_part_of_it() -> None:
    block = "&lt;lessons&gt;\nLessons from earlier runs, each approved.\n1. When a: b\n&lt;/lessons&gt;"
    parts = [{"text": PROMPT}, {"text": f"<hook_context>{block}</hook_context>"}]
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success"}
    lines: list[dict[str, Any]] = [
        {"sessionId": "s", "projectHash": "p"},
        {"id": "m1", "type": "user", "content": parts},
        {"id": "m2", "type": "gemini", "content": "", "toolCalls": [call]},
    ]

    (task,) = cut_session("gemini-cli", lines, name="file").tasks

    assert (task.prompt, task.run.steps[0]["observation"]) == (PROMPT, PROMPT)
