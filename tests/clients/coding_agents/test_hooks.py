"""The hooks as a coding agent runs them: processes that read JSON, against the real server and against broken ones."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL
from erl_client.cli import main
from erl_client.coding_agents.notes import find_losses
from erl_client.coding_agents.repositories import find_family
from erl_client.spool import Spool

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.clients.broken_erl import SLOW_SECONDS, BrokenErl, garbage, server_error, slow, throttled
from tests.clients.coding_agents.conftest import SESSION_FOLDER, Command
from tests.factories import make_evidence, make_heuristic, make_trajectory
from tests.stack import free_port
from tests.waiting import wait_until

PROMPT = "Fix the rounding of prices in round.py"
GUIDELINE = "Run the tests of prices before and after."
Copy = Callable[[str], Path]
Hook = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lesson(project: Project) -> None:
    lesson = make_heuristic(
        project=project,
        status="approved",
        task_id="ana/shop",
        trigger="When the rounding of prices is to be fixed",
        guideline=GUIDELINE,
    )
    embed_heuristics([lesson.pk])


def prompt_hook(**more: Any) -> dict[str, Any]:
    return {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": PROMPT, **more}


def stop_hook(transcript: Path) -> dict[str, Any]:
    return {"session_id": "s1", "hook_event_name": "Stop", "transcript_path": str(transcript)}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)  # noqa: S607


def recorded() -> list[str]:
    return sorted(Trajectory.objects.values_list("task", flat=True))


def wait_for_sender(erl: ERL) -> None:
    """Wait for the process that a hook left behind."""
    wait_until(erl.spool.is_empty, seconds=60)


CLAUDE_CODE_TASKS = [
    "/commit the rounding fix",
    "Add a test for negative prices",
    "Check the currency conversion as well",
    "Fix the rounding of prices in round.py",
]


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
@pytest.mark.usefixtures("erl", "lesson")
def test_recall_gives_the_lessons_for_a_prompt_and_its_repository(agent: str, hook: Hook) -> None:
    code, out, _ = hook("recall", "--agent", agent, stdin=prompt_hook())

    said = json.loads(out)["hookSpecificOutput"]
    assert (code, said["hookEventName"]) == (0, "UserPromptSubmit")
    assert GUIDELINE in said["additionalContext"]
    asked = Retrieval.objects.get()
    assert (asked.task, asked.task_id, asked.agent) == (PROMPT, "ana/shop", agent)


@pytest.mark.usefixtures("erl", "lesson")
def test_recall_gives_cursor_the_lessons_of_the_repository_when_a_session_starts(command: Command, hook: Hook) -> None:
    git(command.folder, "init", "-q")
    git(command.folder, "commit", "-q", "--allow-empty", "-m", "Round prices half up")
    git(command.folder, "commit", "-q", "--allow-empty", "-m", "Fix the rounding of prices")
    payload = {"conversation_id": "c1", "hook_event_name": "sessionStart", "workspace_roots": [str(command.folder)]}

    _, out, _ = hook("recall", "--agent", "cursor", stdin=payload)

    assert GUIDELINE in json.loads(out)["additional_context"]


@pytest.mark.usefixtures("erl", "lesson")
@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ([], prompt_hook(prompt="go on")),
        (["--family", "other"], prompt_hook(prompt="Water the plants in the garden")),
        ([], "not JSON"),
        ([], "[]"),
        (["--colour", "red"], prompt_hook()),
        (["--agent", "emacs"], prompt_hook()),
    ],
    ids=["too short", "no lessons", "no JSON", "no object", "unknown option", "unknown agent"],
)
def test_recall_without_lessons_prints_nothing(arguments: list[str], stdin: Any, hook: Hook) -> None:
    code, out, _ = hook("recall", *arguments, stdin=stdin)

    assert (code, out) == (0, "")


@pytest.mark.parametrize("fault", [server_error, garbage, throttled, slow], ids=lambda fault: fault.__name__)
def test_recall_of_a_broken_erl_prints_nothing_within_its_budget(fault: Any, command: Command) -> None:
    with BrokenErl(fault) as broken:
        began = time.monotonic()
        done = command("hook", "recall", stdin=prompt_hook(), ERL_URL=broken.url, ERL_API_KEY="erl_live_x")
        seconds = time.monotonic() - began

    assert broken.paths == ["/api/v1/retrieve"]
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert seconds < SLOW_SECONDS - 2  # two seconds, and the start of Python on a loaded machine


def test_recall_goes_on_where_the_agent_never_closes_its_input(command: Command) -> None:
    with command.start("hook", "recall", ERL_API_KEY="erl_live_x") as process:
        assert process.stdin is not None
        process.stdin.write("{")
        process.stdin.flush()

        assert process.wait(30) == 0


@pytest.mark.parametrize("name", ["recall", "record"])
def test_hook_without_a_key_does_nothing(
    name: str, hook: Hook, session: Copy, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ERL_API_KEY", raising=False)
    payload = {**prompt_hook(), **stop_hook(session("claude_code.jsonl"))}

    assert hook(name, stdin=payload) == (0, "", "")
    assert not list(home.rglob("*"))


def test_record_records_each_task_of_a_session_once(erl: ERL, hook: Hook, session: Copy) -> None:
    transcript = session("claude_code.jsonl")
    lines = transcript.read_text().splitlines(keepends=True)
    transcript.write_text("".join(lines[:23]))
    for _ in range(2):
        assert hook("record", stdin=stop_hook(transcript)) == (0, "", "")
    wait_for_sender(erl)
    assert recorded() == ["Fix the rounding of prices in round.py"]

    transcript.write_text("".join(lines))
    for _ in range(2):
        assert hook("record", stdin=stop_hook(transcript)) == (0, "", "")
    wait_for_sender(erl)

    assert recorded() == CLAUDE_CODE_TASKS
    run = Trajectory.objects.get(task=PROMPT)
    assert (run.task_id, run.agent, run.outcome, run.outcome_source) == (
        find_family(SESSION_FOLDER),
        "claude-code",
        "success",
        "test",
    )
    assert run.external_id.endswith("/p1")
    assert erl.spool.refused() == []


def test_record_leaves_the_beginning_of_a_long_session_to_backfill(erl: ERL, hook: Hook, tmp_path: Path) -> None:
    transcript = tmp_path / "long.jsonl"
    call = {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "Grep", "input": {}}]}}
    prompts = [{"role": "user", "message": {"content": f"Rename module {number:02}"}} for number in range(25)]
    transcript.write_text("".join(f"{json.dumps(prompt)}\n{json.dumps(call)}\n" for prompt in prompts))

    hook("record", "--agent", "cursor", stdin=stop_hook(transcript))
    wait_for_sender(erl)

    assert recorded() == [f"Rename module {number:02}" for number in range(5, 25)]


def test_record_of_hooks_at_once_records_each_task_once(erl: ERL, command: Command, session: Copy) -> None:
    payload = json.dumps(stop_hook(session("claude_code.jsonl")))
    hooks = [command.start("hook", "record") for _ in range(3)]
    for hook in hooks:
        assert hook.stdin is not None
        hook.stdin.write(payload)
        hook.stdin.flush()

    assert [hook.communicate(timeout=60) for hook in hooks] == [("", "")] * 3
    wait_for_sender(erl)

    assert recorded() == CLAUDE_CODE_TASKS
    assert erl.spool.refused() == []


@pytest.mark.usefixtures("lesson")
def test_run_is_linked_with_the_lessons_that_its_prompt_was_given(erl: ERL, hook: Hook, session: Copy) -> None:
    assert hook("recall", stdin=prompt_hook())[1]
    hook("record", stdin=stop_hook(session("claude_code.jsonl")))
    wait_for_sender(erl)

    given = Retrieval.objects.get()
    assert list(Trajectory.objects.filter(retrieval=given).values_list("task", flat=True)) == [PROMPT]


@pytest.mark.parametrize(("agent", "name"), [("codex", "codex.jsonl"), ("cursor", "cursor.jsonl")])
def test_record_reads_the_sessions_of_other_agents(agent: str, name: str, erl: ERL, hook: Hook, session: Copy) -> None:
    payload = {"conversation_id": "c1", "transcript_path": str(session(name)), "workspace_roots": ["/opt/shop"]}

    hook("record", "--agent", agent, "--family", "till", stdin=payload)
    wait_for_sender(erl)

    runs = Trajectory.objects.all()
    assert {(run.agent, run.task_id) for run in runs} == {(agent, "till")}
    assert len({run.external_id for run in runs}) == len(runs) == (2 if agent == "codex" else 1)


def test_record_of_an_erl_that_is_away_keeps_the_runs(
    erl: ERL, hook: Hook, session: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = ERL(f"http://127.0.0.1:{free_port()}", erl.destination.api_key)
    payload = stop_hook(session("claude_code.jsonl"))
    with monkeypatch.context() as there:
        there.setenv("ERL_URL", away.destination.url)
        for _ in range(2):
            assert hook("record", stdin=payload) == (0, "", "")
    waiting = away.spool.waiting()
    assert sorted(run.read()["task"] for run in waiting) == CLAUDE_CODE_TASKS

    erl.spool.folder.mkdir(parents=True, exist_ok=True)
    for run in waiting:
        (erl.spool.folder / run.path.name).write_bytes(run.path.read_bytes())
    assert hook("send", stdin="") == (0, "", "")

    assert recorded() == CLAUDE_CODE_TASKS
    assert Spool(erl.spool.folder).is_empty()


@pytest.mark.parametrize("payload", [{}, {"transcript_path": None}, {"transcript_path": "/missing.jsonl"}])
def test_record_without_a_transcript_does_nothing(payload: dict[str, Any], erl: ERL, hook: Hook) -> None:
    assert hook("record", stdin=payload) == (0, "", "")
    assert erl.spool.is_empty()


@pytest.mark.parametrize(
    ("remote", "family"),
    [
        ("git@github.com:Client-A/api.git", "client-a/api"),
        ("https://ana:secret@github.com/client-b/API", "client-b/api"),
        ("https://gitlab.com/group/team/api.git/", "group/team/api"),
        ("ssh://git@example.org:2222/ana/shop.git", "ana/shop"),
        ("https://dev.azure.com/org/project/_git/shop", "org/project/shop"),
        ("git@ssh.dev.azure.com:v3/org/project/shop", "org/project/shop"),
        ("https://example.org/scm/till/shop.git", "till/shop"),
        ("git@example.org:shop.git", "example.org/shop"),
        ("work:client-a/api.git", "client-a/api"),
        ("ssh://git@[::1]:2222/client-a/api.git", "client-a/api"),
        ("https://gitlab-ci-token:to%2Fken@gitlab.com/Group/team/sub/api", "group/team/sub/api"),
    ],
)
def test_family_is_owner_and_name_of_the_remote(remote: str, family: str, tmp_path: Path) -> None:
    inner = tmp_path / "my-copy" / "src" / "deep"
    inner.mkdir(parents=True)
    git(tmp_path / "my-copy", "init", "-q")
    git(tmp_path / "my-copy", "config", "remote.origin.url", remote)

    assert find_family(str(inner)) == family


def test_family_of_a_work_tree_is_that_of_its_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "one")
    git(tmp_path / "one", "commit", "-q", "--allow-empty", "-m", "Begin")
    git(tmp_path / "one", "worktree", "add", "-q", "../two")
    without = [find_family(str(tmp_path / name)) for name in ("one", "two")]
    git(tmp_path / "one", "config", "remote.origin.url", "git@example.org:ana/shop.git")

    assert without[0] == without[1]
    assert [find_family(str(tmp_path / name)) for name in ("one", "two")] == ["ana/shop", "ana/shop"]


def test_family_of_a_fork_is_that_of_who_forked_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "remote.upstream.url", "git@example.org:client-a/api.git")
    git(tmp_path, "config", "remote.origin.url", "git@example.org:ana/api.git")

    assert find_family(str(tmp_path)) == "ana/api"


def test_family_of_a_submodule_is_its_own(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "part")
    git(tmp_path / "part", "commit", "-q", "--allow-empty", "-m", "Begin")
    git(tmp_path, "init", "-q", "whole")
    git(tmp_path / "whole", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../part", "part")
    git(tmp_path / "whole", "config", "remote.origin.url", "git@example.org:ana/whole.git")
    git(tmp_path / "whole" / "part", "config", "remote.origin.url", "git@example.org:bo/part.git")

    assert find_family(str(tmp_path / "whole" / "part")) == "bo/part"


@pytest.mark.parametrize("remote", ["", "/srv/git/api.git", "file:///srv/git/api.git", "../api"])
def test_family_without_an_owner_is_that_of_one_place(remote: str, tmp_path: Path) -> None:
    folders = [tmp_path / owner / "api" for owner in ("client-a", "client-b")]
    git(tmp_path, "init", "-q", str(folders[0]))
    git(tmp_path, "init", "-q", str(folders[1]))
    git(folders[0], "config", "remote.origin.url", remote)

    families = [find_family(str(folder)) for folder in folders]

    assert families[0] != families[1]
    assert all(family.startswith("api-") and "/" not in family for family in families)


def test_folder_without_a_repository_has_a_family_of_its_own(tmp_path: Path) -> None:
    families = {find_family(str(tmp_path / owner / "till")) for owner in ("ana", "bo")}

    assert len(families) == 2
    assert find_family("") == ""


def test_settings_that_are_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    os.mkfifo(tmp_path / "shop" / ".git" / "config")

    assert find_family(str(tmp_path / "shop")).startswith("shop-")


@pytest.mark.usefixtures("erl")
def test_lessons_of_another_owner_are_not_given(project: Project, command: Command, hook: Hook) -> None:
    lessons = [
        make_heuristic(
            project=project,
            status="approved",
            task_id=family,
            trigger="When the rounding of prices is to be fixed",
            guideline=f"Read the notes of {of} about round.py first.",
        )
        for family, of in (("client-a/shop", "client A"), ("ana/shop", "Ana"), ("", "everybody"), ("", "client B"))
    ]
    run = make_trajectory(project=project, task_id="client-b/shop")
    make_evidence(heuristic=lessons[-1], trajectory=run)  # for the whole project, but learnt there
    embed_heuristics([lesson.pk for lesson in lessons])

    _, out, _ = hook("recall", stdin=prompt_hook())

    given = json.loads(out)["hookSpecificOutput"]["additionalContext"]
    assert ("notes of Ana" in given, "everybody" in given) == (True, True)
    assert ("client A" in given, "client B" in given) == (False, False)


@pytest.mark.usefixtures("erl", "lesson")
def test_no_program_of_the_folder_is_run(tmp_path: Path, command: Command, hook: Hook) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\necho run >> {sprung}\n")
    trap.chmod(0o755)
    git(command.folder, "init", "-q")
    git(command.folder, "commit", "-q", "--allow-empty", "-m", "Fix the rounding of prices")
    settings: tuple[str, ...] = (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "gpg.program",
    )
    settings += ("alias.log", "alias.config", "alias.rev-parse", "credential.helper", "core.askPass")
    (command.folder / ".git" / "config").write_text(
        "".join(f"[{name.partition('.')[0]}]\n\t{name.partition('.')[2]} = !{trap}\n" for name in settings)
        + "[log]\n\tshowSignature = true\n"
        + '[remote "origin"]\n\turl = git@example.org:ana/shop.git\n'
    )
    fake = tmp_path / "bin" / "git"  # nor is a git that stands on the path
    fake.write_text(trap.read_text())
    fake.chmod(0o755)
    payload = {"conversation_id": "c1", "hook_event_name": "sessionStart", "workspace_roots": [str(command.folder)]}

    _, out, _ = hook("recall", "--agent", "cursor", stdin=payload)

    assert GUIDELINE in json.loads(out)["additional_context"]
    assert not sprung.exists()


def test_session_that_takes_too_long_is_left_out_for_good(
    erl: ERL, hook: Hook, session: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = session("claude_code.jsonl")
    lines = file.read_text()
    file.write_text(lines + ("\n" * 200 + '{"type": "note"}') * 20_000)

    monkeypatch.setattr("erl_client.coding_agents.hooks.RECORD_CPU_SECONDS", 0.001)
    assert hook("record", stdin=stop_hook(file)) == (0, "", "")
    monkeypatch.setattr("erl_client.coding_agents.hooks.RECORD_CPU_SECONDS", 60.0)
    file.write_text(lines)
    assert hook("record", stdin=stop_hook(file)) == (0, "", "")

    assert erl.spool.is_empty()
    assert [loss.rpartition(": ")[2] for loss in find_losses(erl.spool)] == [
        "reading it took more than 0.001 s of processor time"
    ]


@pytest.mark.usefixtures("lesson")
def test_status_says_what_each_hook_did_when_it_last_ran(
    erl: ERL, hook: Hook, session: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["status"])
    assert "Hooks           none has run yet with this address and key\n" in capsys.readouterr().out

    _, out, _ = hook("recall", stdin=prompt_hook())
    hook("record", stdin=stop_hook(session("claude_code.jsonl")))
    hook("recall", "--agent", "codex", stdin="no JSON")
    main(["status"])

    said = capsys.readouterr().out
    assert json.loads(out)["systemMessage"] == "ERL gave 1 lesson for ana/shop."
    assert re.search(r"claude-code recall, \S+ \S+ for ana/shop: gave 1 lesson \([\d.]+ s\)", said)
    skipped = r"1 skipped: too short, 1 skipped: no tool calls"
    assert re.search(rf"claude-code record, \S+ \S+ for \S+: recorded 4 of 6 tasks \({skipped}\) \([\d.]+ s\)", said)
    assert re.search(r"codex recall, \S+ \S+: failed: JSONDecodeError: ", said)


def test_what_a_hook_could_not_record_stands_in_the_status(
    erl: ERL, hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "no-file.jsonl"
    folder.mkdir()

    hook("record", stdin=stop_hook(folder))
    main(["status"])

    said = capsys.readouterr().out
    assert "Not recorded    1\n" in said
    assert f"{folder}: it cannot be read: " in said
