"""The command `erl` as coding agents call it: a program on the PATH, in a home of its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import erl_client
import pytest
from erl_client.cli import main
from erl_client.coding_agents import hooks

SOURCE = Path(erl_client.__file__).parents[1]
SESSIONS = Path(__file__).resolve().parents[2] / "data" / "coding_sessions"
PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(SOURCE)!r})
from erl_client.cli import main
from erl_client.coding_agents import hooks
sys.exit(main())
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """The program, and the folder it is called in."""

    program: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, stdin: Any = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        text = stdin if isinstance(stdin, str) else json.dumps(stdin)
        with self.start(*arguments, **environment) as process:
            out, err = process.communicate(text, timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home without anything in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def command(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command, called in the folder of the repository ana/shop."""
    program = tmp_path / "bin" / "erl"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = git@example.org:ana/shop.git\n')
    return Command(program=program, folder=folder)


@pytest.fixture
def hook(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return what runs a hook in this process, where neither the process nor its budget is tested: faster."""
    monkeypatch.setattr(hooks, "RECALL_SECONDS", 60.0)
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.chdir(command.folder)

    def run(*arguments: str, stdin: Any) -> tuple[int, str, str]:
        text = stdin if isinstance(stdin, str) else json.dumps(stdin)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["hook", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def session(tmp_path: Path) -> Callable[[str], Path]:
    """Return what copies a sample to where an agent would have it, so that it can be changed."""

    def copy(name: str) -> Path:
        file = tmp_path / name
        file.write_bytes((SESSIONS / name).read_bytes())
        return file

    return copy
