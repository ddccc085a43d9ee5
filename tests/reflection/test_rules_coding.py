"""Coding agents: shell commands, edits that are refused, tests and builds."""

from pathlib import Path
from time import process_time

import pytest

from memory.intake.files import as_episode, read_entries
from memory.runs.episode import Episode
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.rules.detectors import changed_command, refused_edit, repeated_call, unverified_change
from reflection.reflectors.rules.run_view import ReadRun
from reflection.reflectors.rules.shell import is_green, is_red, parse_command, read_command
from tests.reflection.rules_runs import call, make_run, say, view

DATA = Path(__file__).parents[1] / "data"

RED = call("Bash", "FAILED test_a.py::test_half\n1 failed, 3 passed in 0.12s", command="python -m pytest -q")
GREEN = call("Bash", "4 passed in 0.10s", command="python -m pytest -q")
EDIT = call("Edit", "The file has been updated.", file_path="a.py", old_string="int(x)", new_string="round(x)")
READ = call("Read", "1 int(x)", file_path="a.py")


def load(name: str) -> list[Episode]:
    return [as_episode(entry.data) for entry in read_entries(DATA / name) if entry.data is not None]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("cd /srv/shop && python -m pytest -q 2>&1 | tail -5", "python -m pytest"),
        ("uv run pytest tests/a", "uv run pytest"),
        ("npm test; echo done", "npm test"),
        ("DEBUG=1 timeout 60 ./bin/check --all", "check"),
        ("# the whole suite\nmake test", "make test"),
        ("git commit -m 'x'", "git commit"),
        ("python build.py", "python"),
    ],
)
def test_command_is_named_as_a_person_would(line: str, name: str) -> None:
    assert parse_command(line).name == name


def test_commands_are_read_from_the_shapes_of_agents() -> None:
    codex = read_command("shell", {"command": ["bash", "-lc", "pytest -q"]})
    swe_agent = read_command("python", {"input": "reproduce.py"})

    assert codex is not None
    assert codex.is_test
    assert swe_agent is not None
    assert swe_agent.arguments == ("reproduce.py",)
    assert read_command("get_user", {"command": "x"}) is None


@pytest.mark.parametrize("line", ["sudo make install", "rm -rf build", "git push --force", "git commit --no-verify"])
def test_harmful_commands_are_known(line: str) -> None:
    assert parse_command(line).is_harmful


def test_results_of_checks_are_read() -> None:
    assert is_red("1 failed, 3 passed in 0.12s")
    assert not is_red("0 failed, 3 passed")
    assert is_green("0 failed, 3 passed")
    assert not is_green("collected 0 items")


def test_edit_refused_until_the_file_was_read_is_the_lesson() -> None:
    refused = {**EDIT, "observation": "", "error": "File has not been read yet. Read it first before writing to it."}

    (finding,) = refused_edit.find(view(refused, READ, EDIT))

    assert finding.trigger == "When about to call `Edit` on an existing file that has not been read in this session"
    assert finding.guideline == "Read the file first with `Read`; then call `Edit`."


def test_edit_of_a_text_that_was_not_there_is_to_be_copied() -> None:
    refused = {**EDIT, "observation": "", "error": "String to replace not found in file.\nString: int (x)"}

    (finding,) = refused_edit.find(view(refused, READ, EDIT))

    assert "copy the text to replace exactly" in finding.guideline


def test_edit_refused_unread_and_never_done_names_the_reader_on_offer() -> None:
    refused = call("write_file", "File has not been read yet. Read it first before writing to it.", path="a.py")
    run = ReadRun(make_run(refused, refused, tools=("read_file", "write_file")))

    (finding,) = refused_edit.find(run)

    assert finding.guideline == "Read the file first with `read_file`; then call `write_file`."


def test_edit_that_was_refused_and_given_up_teaches_nothing() -> None:
    refused = {**EDIT, "observation": "", "error": "String to replace not found in file."}

    assert refused_edit.find(view(refused, READ)) == []


def test_check_run_again_without_a_change_says_nothing_of_the_code() -> None:
    assert repeated_call.find(view(EDIT, *[RED] * 12)) == []


def test_edit_whose_indentation_was_corrected_is_the_lesson() -> None:
    answer = (
        "Your proposed edit has introduced new syntax error(s).\n\nERRORS:\n- E999 IndentationError: unexpected indent"
    )
    run = view(call("edit", answer, input="2:2\nreturn x\n"), call("edit", "[File: a.py]", input="2:2\n    return x\n"))

    (finding,) = refused_edit.find(run)

    assert finding.trigger == "When about to replace indented lines with `edit`"
    assert finding.citations[0].quote == "- E999 IndentationError: unexpected indent"


def test_tests_that_needed_another_command_first_are_the_lesson() -> None:
    missing = call("Bash", "Error: Cannot find module 'vitest'\n1 failed", command="npm test")
    run = view(
        missing, call("Bash", "added 90 packages", command="npm ci"), call("Bash", "9 passed", command="npm test")
    )

    (finding,) = changed_command.find(run)

    assert finding.guideline == "First run `npm ci`: without it `npm test` fails here."


def test_tests_that_needed_another_form_are_the_lesson() -> None:
    missing = call("Bash", "ModuleNotFoundError: No module named 'shop'\n1 error", command="pytest -q")

    (finding,) = changed_command.find(view(missing, GREEN))

    assert finding.trigger == "When about to run `pytest` in this environment"
    assert finding.guideline.startswith("Run `python -m pytest` instead")


def test_tests_that_an_edit_made_pass_are_a_fact_of_that_change() -> None:
    assert changed_command.find(view(RED, EDIT, GREEN)) == []
    assert unverified_change.find(view(RED, EDIT, GREEN, say("All tests pass now."))) == []


NOTHING_STAGED = 'On branch main\nno changes added to commit (use "git add" and/or "git commit -a")'


def test_command_repeated_in_vain_though_its_answer_names_another() -> None:
    commit = call("Bash", NOTHING_STAGED, command="git commit -m 'Fix'")

    (finding,) = changed_command.find(view(EDIT, commit, commit, commit))

    assert finding.trigger == 'When `git commit` answers "no changes added to commit"'
    assert finding.guideline == "First run `git add`, which the answer names, then `git commit`."
    assert changed_command.find(view(EDIT, commit, commit)) == []
    assert changed_command.find(view(*[call("Bash", NOTHING_STAGED, command="git status")] * 3)) == []


@pytest.mark.parametrize("words", ["a", "validation error for "])
def test_long_line_is_read_in_a_moment(words: str) -> None:
    run = make_run(call("Bash", "Error: " + words * (400_000 // len(words)), command="git commit"), outcome="failure")
    started = process_time()

    RulesReflector().reflect(run)

    assert process_time() - started < 1


def test_commit_is_no_check_of_a_change() -> None:
    commit = call("Bash", "", command="git commit -am 'Fix'")

    assert unverified_change.find(view(RED, EDIT, commit, say("The bug is fixed.")))
    assert unverified_change.find(view(RED, EDIT, call("Bash", "5", command="python3 try_it.py"), say("Fixed."))) == []


def test_change_after_the_last_check_is_to_be_checked() -> None:
    (finding,) = unverified_change.find(view(RED, EDIT, say("It is fixed, the tests pass now.")))

    assert finding.trigger == "When code has been changed since `python -m pytest` last ran"
    assert finding.citations[0].quote == "1 failed, 3 passed in 0.12s"


def test_work_handed_in_while_its_check_failed_is_the_lesson() -> None:
    (finding,) = unverified_change.find(view(EDIT, RED, say("Done, everything works.")))

    assert finding.guideline.startswith("Go on until `python -m pytest` passes")


def test_failure_that_was_admitted_is_no_false_claim() -> None:
    assert unverified_change.find(view(EDIT, RED, say("One test still fails."))) == []


@pytest.mark.parametrize("name", ["transcripts/claude_code_session.jsonl", "transcripts/codex_rollout.jsonl"])
def test_real_session_that_claimed_a_pass_unseen_gives_the_lesson(name: str) -> None:
    (lesson,) = RulesReflector().reflect(load(name)[0]).lessons

    assert lesson.text.trigger == "When code has been changed since `pytest` last ran"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("coding_sessions/claude_code.jsonl", "Tests or a build failed and passed after the code was changed."),
        ("coding_sessions/codex.jsonl", "no step shows in a way the rules know how it ended"),
        ("transcripts/swe_agent_test_repo.traj", "no step shows in a way the rules know how it ended"),
    ],
)
def test_real_session_without_a_lesson_says_why(name: str, reason: str) -> None:
    result = RulesReflector().reflect(load(name)[0])

    assert result.lessons == ()
    assert reason in result.skip_reason
