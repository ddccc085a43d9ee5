"""The examples run as they stand, with the real packages, against the real server and a scripted provider."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from erl_client import ERL

from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.clients.agent_answers import (
    ANSWER,
    LESSON,
    SAY,
    anthropic_calls,
    anthropic_says,
    chat_calls,
    chat_says,
    response_calls,
    response_says,
)
from tests.clients.conftest import actions, acts, make_lesson
from tests.scripted_answers import Behaviour
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "clients" / "python" / "examples"
TABLE = (REPOSITORY / "docs" / "integrations.md").read_text(encoding="utf-8")
TASK = "Cancel reservation EHGLP3 and refund it."
LOOK = {"name": "get_reservation", "arguments": {"id": "EHGLP3"}}
CHAT = (chat_calls(), chat_says())
SCRIPTS: dict[str, tuple[Behaviour, ...]] = {
    "openai_loop.py": CHAT,
    "anthropic_loop.py": (anthropic_calls(), anthropic_says()),
    "langchain_agent.py": CHAT,
    "langgraph_graph.py": CHAT,
    "openai_agents_runner.py": (response_calls(), response_says()),
    "pydantic_ai_agent.py": CHAT,
    "opentelemetry_spans.py": CHAT,
    "learns.py": (chat_says(),),
    "plain_http.py": CHAT,
}


def run_example(name: str, erl: ERL, provider: ScriptedProvider) -> str:
    urls = {"OPENAI_BASE_URL": provider.openai_url, "ANTHROPIC_BASE_URL": provider.anthropic_url}
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "PYTHONPATH": str(REPOSITORY / "clients/python/src")}
    # ERL_URL, ERL_API_KEY and ERL_SPOOL are those of the fixture `erl`
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env={**os.environ, **urls, **keys},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_is_given_lessons_and_records_its_run(
    name: str, erl: ERL, project: Project, provider: ScriptedProvider
) -> None:
    make_lesson(project)
    provider.script(*SCRIPTS[name])

    assert ANSWER in run_example(name, erl, provider)
    assert erl.flush(60)  # what the example left in the spool

    assert all(LESSON in str(request.body) for request in provider.requests)
    run = Trajectory.objects.get()
    assert (run.task, run.task_id, run.outcome, run.outcome_source) == (TASK, "airline", "success", "test")
    assert actions(run) == [LOOK, SAY][-len(SCRIPTS[name]) :]
    assert all("basic" in step["observation"] for step in acts(run)[:-1])
    assert [step["error"] for step in run.steps if step["error"]] == []
    assert Retrieval.objects.get().pk == run.retrieval_id


def test_table_counts_the_lines_of_glue() -> None:
    rows = re.findall(r"\| (\d+) \| \[`(\w+\.py)`\]", TABLE)

    counted = {path.name: path.read_text(encoding="utf-8").count("# glue") for path in EXAMPLES.glob("*.py")}
    assert {name: int(lines) for lines, name in rows} == counted
    assert counted.keys() == SCRIPTS.keys()


def test_every_line_of_glue_is_marked() -> None:
    says_erl = re.compile(r"\b(erl|erl_client|ERL\w*|run|lessons|tracing)\b")
    unmarked = [
        f"{path.name}: {line}"
        for path in EXAMPLES.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if says_erl.search(line) and "# glue" not in line
    ]

    assert unmarked == []
