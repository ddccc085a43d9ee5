"""The commands on consoles that lack most characters: these are spelled out, and nothing ends in a traceback."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from erl_client import ERL

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from tests.clients.coding_agents.conftest import SOURCE, Command
from tests.factories import make_heuristic, make_trajectory

pytestmark = pytest.mark.nightly

FOREIGN = "✅ 你好 Ελλάδα 😀 naïve"


@pytest.fixture
def foreign(erl: ERL, project: Project, command: Command, home: Path) -> Command:
    """Return the command where lessons, runs, files and sessions hold characters that consoles lack."""
    for status in ("approved", "proposed"):
        lesson = make_heuristic(
            project=project,
            status=status,
            task_id="shop",
            trigger=f"When rounding prices {FOREIGN} {status}",
            guideline=f"Round half up {FOREIGN}.",
        )
        embed_heuristics([lesson.pk])
    make_trajectory(project=project, task=f"Round prices {FOREIGN}", task_id="shop")
    (command.folder / f"{FOREIGN}.jsonl").write_text(f'{{"task": "{FOREIGN}", "steps": []}}\nno JSON {FOREIGN}\n')
    (command.folder / f"{FOREIGN}.md").write_text(f"- When rounding {FOREIGN}: round half up {FOREIGN}.\n")
    folder = home / ".claude" / "projects" / FOREIGN
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text(f"no JSON {FOREIGN}\n")
    return command


def run(command: Command, encoding: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    return subprocess.run(
        [command.program, *arguments],
        cwd=command.folder,
        env=environment,
        input=b"q\n",
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["context", f"Round prices {FOREIGN}", "--family", "shop"],
        ["export"],
        ["export", "--to", f"{FOREIGN}2.md"],
        ["import", ".", f"{FOREIGN}.md", "--dry-run"],
        ["record", f"{FOREIGN}.jsonl"],
        ["record", f"missing {FOREIGN}"],
        ["review"],
        ["review", "--list"],
        ["status"],
        ["backfill", "claude-code", "--dry-run"],
        ["install", "claude-code", "--family", FOREIGN],
        ["install", "codex", "--family", FOREIGN, "--yes"],
    ],
    ids=" ".join,
)
def test_no_command_ends_in_a_traceback(arguments: list[str], encoding: str, foreign: Command) -> None:
    done = run(foreign, encoding, *arguments)

    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr
    assert done.stdout or done.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize(
    "arguments", [["context", "Round prices", "--family", "shop", "--json"], ["export", "--json"], ["export", "--runs"]]
)
def test_json_can_be_read_back_whatever_the_console_lacks(
    arguments: list[str], encoding: str, foreign: Command
) -> None:
    done = run(foreign, encoding, *arguments)

    assert FOREIGN in json.dumps(json.loads(done.stdout.decode(encoding)), ensure_ascii=False)
