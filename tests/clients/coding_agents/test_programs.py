"""The coding agents themselves, the newest from npm: lessons in their requests, and their work recorded.

Needs Node 20 and npm. The programs are kept in pytest's cache, and their versions are printed.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from erl_client import ERL

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.coding_agents.coding_model import ANSWER, COMMAND, play, said
from tests.clients.coding_agents.conftest import PROGRAM, SOURCE, Command
from tests.factories import make_heuristic
from tests.scripted_provider import ScriptedProvider
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]  # npm may have much to fetch

PROMPT = "Fix the rounding of prices in round.py"
GUIDELINE = "Run the tests of prices before and after."
SECONDS = 300.0  # for a program to start on a busy machine


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A coding agent. `set_up` writes its own settings for a provider, and returns its environment."""

    agent: str
    package: str
    words: tuple[str, ...]
    set_up: Callable[[Path, ScriptedProvider], dict[str, str]]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def set_up_claude_code(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": provider.anthropic_url,
        "ANTHROPIC_API_KEY": "sk-ant-scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def set_up_codex(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    settings = (
        f'model = "gpt-5"\nmodel_provider = "scripted"\n[projects."{home.parent / "shop"}"]\ntrust_level = "trusted"\n'
        f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{provider.openai_url}"\n'
        'env_key = "SCRIPTED_KEY"\nwire_api = "responses"\n'
    )
    write(home / ".codex" / "config.toml", settings)
    return {"SCRIPTED_KEY": "x"}


def set_up_gemini_cli(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": provider.anthropic_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def set_up_opencode(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    options = {"baseURL": provider.openai_url, "apiKey": "x"}
    models = {"m": {"name": "m", "tool_call": True}}
    scripted = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": models}
    settings = {"provider": {"scripted": scripted}, "autoupdate": False, "permission": "allow"}
    write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    return {"XDG_CONFIG_HOME": str(home / ".config")}


def set_up_qwen_code(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    return {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": provider.openai_url, "OPENAI_MODEL": "m"}


PROGRAMS = [
    Program(
        agent="claude-code",
        package="@anthropic-ai/claude-code",
        words=("claude", "-p", PROMPT, "--allowedTools", "Bash"),
        set_up=set_up_claude_code,
    ),
    Program(
        agent="codex",
        package="@openai/codex",
        words=(
            *("codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"),
            *("--skip-git-repo-check", PROMPT),
        ),
        set_up=set_up_codex,
    ),
    Program(
        agent="gemini-cli",
        package="@google/gemini-cli",
        words=("gemini", "-p", PROMPT, "--yolo", "-m", "gemini-2.5-flash"),
        set_up=set_up_gemini_cli,
    ),
    Program(
        agent="opencode",
        package="opencode-ai",
        words=("opencode", "run", "-m", "scripted/m", PROMPT),
        set_up=set_up_opencode,
    ),
    Program(
        agent="qwen-code",
        package="@qwen-code/qwen-code",
        words=("qwen", "-p", PROMPT, "--yolo", "--auth-type", "openai"),
        set_up=set_up_qwen_code,
    ),
]


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the newest programs, installed from npm."""
    cache = request.config.cache
    assert cache is not None
    folder = cache.mkdir("coding_programs")
    packages = [f"{program.package}@latest" for program in PROGRAMS]
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
    subprocess.run(npm, check=True, capture_output=True, timeout=600)
    # npm may run no scripts of packages; OpenCode's puts its program in place.
    opencode = folder / "node_modules" / "opencode-ai"
    subprocess.run(["node", "postinstall.mjs"], cwd=opencode, check=True, capture_output=True, timeout=300)  # noqa: S607
    return folder


@pytest.fixture
def lesson(project: Project) -> None:
    trigger = "When the rounding of prices is to be fixed"
    lesson = make_heuristic(
        project=project, status="approved", task_id="ana/shop", trigger=trigger, guideline=GUIDELINE
    )
    embed_heuristics([lesson.pk])


@pytest.mark.usefixtures("lesson")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.agent)
def test_program_is_given_lessons_and_its_work_is_recorded(
    program: Program, programs: Path, erl: ERL, command: Command, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = json.loads((programs / "node_modules" / program.package / "package.json").read_text())["version"]
    with capsys.disabled():
        print(f"\n{program.package} {version}")
    subprocess.run(["git", "init", "-q"], cwd=command.folder, check=True)  # noqa: S607
    with ScriptedProvider(otherwise=play) as provider:
        kept = ("PATH", "ERL_URL", "ERL_API_KEY", "ERL_SPOOL", "XDG_CONFIG_HOME")
        environment = {name: os.environ[name] for name in kept} | {"HOME": str(home), "TERM": "dumb", "CI": "1"}
        environment["PYTHONPATH"] = str(SOURCE)  # of the process that sends
        environment |= program.set_up(home, provider)
        environment["PATH"] = f"{programs / 'node_modules' / '.bin'}{os.pathsep}{environment['PATH']}"
        command.program.write_text(PROGRAM.replace("sys.exit", "hooks.RECALL_SECONDS = 9.0\nsys.exit"))
        assert command("install", program.agent, "--yes").returncode == 0
        erl.api.post("/retrieve", {"task": "Load the model"})

        done = subprocess.run(
            program.words,
            cwd=command.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        wait_until(lambda: Trajectory.objects.exists(), seconds=60)

    assert ANSWER in done.stdout
    asked = [said(request) for request in provider.requests]
    assert any(GUIDELINE in request for request in asked)
    assert any("get_lessons" in request for request in asked)
    run = Trajectory.objects.select_related("retrieval").get()
    assert (run.task.strip('"'), run.task_id, run.agent) == (PROMPT, "ana/shop", program.agent)
    assert run.retrieval is not None
    assert run.retrieval.task == run.task
    assert COMMAND in json.dumps(run.steps)
    assert GUIDELINE not in json.dumps(run.steps)
