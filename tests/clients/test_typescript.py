"""The client in TypeScript: its own tests, with the real SDKs, against the real server and a scripted provider."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from erl_client import ERL

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import ANSWER, LESSON, SAY
from tests.clients.conftest import actions, make_lesson
from tests.clients.typescript import SOURCE, build_package, call
from tests.scripted_answers import Exchange, answer, begins, fails, raw, resets
from tests.scripted_provider import ScriptedProvider
from tests.scripted_streams import write_named_event

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]  # the first installs the SDKs and compiles

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "typescript.md").read_text(encoding="utf-8")
TESTS = [f"{path.name.removesuffix('.test.ts')}" for path in sorted((SOURCE / "test").glob("*.test.ts"))]
EXAMPLES = dict(re.findall(r"`(\w+\.ts)`:\n\n```ts\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("typescript") / "client")


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(otherwise=agent_answer) as provider:
        yield provider


@pytest.fixture
def environment(erl: ERL, project: Project, provider: ScriptedProvider, tmp_path: Path) -> dict[str, str]:
    """ERL_URL, ERL_API_KEY and ERL_SPOOL are those of the fixture `erl`."""
    make_lesson(project)
    given = {name: value for name, value in os.environ.items() if name != "ERL_BUDGET_SECONDS"}
    urls = {"OPENAI_BASE_URL": provider.openai_url, "ANTHROPIC_BASE_URL": provider.anthropic_url}
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "TMPDIR": str(tmp_path)}
    return {**given, **urls, **keys, "PROVIDER_URL": provider.anthropic_url}


def agent_answer(exchange: Exchange) -> None:
    """Answer by what is asked: call a tool if there is one, tell the answer after its result. A model may fail."""
    body = exchange.request.body
    failure = re.fullmatch(r"fails-(\d+)", body["model"])
    if failure:
        fails(int(failure[1]))(exchange)
    elif body["model"] == "breaks-off":
        begins(_resets_after_a_while)(exchange)
    elif exchange.request.path.endswith("/responses"):
        _respond(exchange)
    elif body.get("tools") and not re.search(r'"tool_call_id"|"tool_result"', json.dumps(body["messages"])):
        answer("I look it up.", ("get_reservation", {"id": "EHGLP3"}), input_tokens=10, output_tokens=5)(exchange)
    else:
        answer(ANSWER, input_tokens=10, output_tokens=5)(exchange)


def _resets_after_a_while(exchange: Exchange) -> None:
    time.sleep(0.3)  # a reset throws away what the other end has not read yet
    resets()(exchange)


def _respond(exchange: Exchange) -> None:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    response = {"id": "r", "object": "response", "created_at": 1, "model": "scripted-1", "status": "completed"}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = {**response, "output": [message], "tools": [], "usage": usage}
    if exchange.request.body.get("stream"):
        begun = write_named_event({"type": "response.created", "response": {**response, "output": []}})
        ended = write_named_event({"type": "response.completed", "response": whole})
        raw((begun + ended).encode(), headers={"Content-Type": "text/event-stream"})(exchange)
    else:
        raw(json.dumps(whole).encode())(exchange)


@pytest.mark.parametrize("name", TESTS)
def test_client_passes_its_own_tests(name: str, package: Path, environment: dict[str, str]) -> None:
    command = ("node", "--no-warnings", "--experimental-vm-modules", "--test", f"build/{name}.test.js")

    output = call(*command, cwd=package, env=environment, seconds=600)

    assert re.search(r"# pass [1-9]", output), output
    assert re.search(r"# skipped 0\n# todo 0", output), output


@pytest.fixture(scope="module")
def app(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of a user's, which has installed the package as docs/typescript.md says."""
    folder = tmp_path_factory.mktemp("app")
    archive = call("npm", "pack", "--silent", "--pack-destination", str(folder), cwd=package).splitlines()[-1]
    sdks = json.loads((package / "package.json").read_text())["devDependencies"]
    manifest = {"type": "module", "dependencies": {**sdks, "erl-client": f"file:{archive}"}}
    (folder / "package.json").write_text(json.dumps(manifest))
    call("npm", "install", "--prefer-offline", "--no-audit", "--no-fund", cwd=folder)
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_on_the_page_is_given_lessons_and_records_its_runs(
    name: str, app: Path, erl: ERL, environment: dict[str, str], provider: ScriptedProvider
) -> None:
    (app / name).write_text(EXAMPLES[name], encoding="utf-8")
    options = ("--strict", "--module", "nodenext", "--target", "es2024", "--skipLibCheck", "--types", "node")
    call("node_modules/.bin/tsc", *options, name, cwd=app)

    output = call("node", f"{name[:-3]}.js", cwd=app, env=environment)
    assert erl.flush(60)  # what the example left in the spool

    runs = Trajectory.objects.all()
    assert output.splitlines() == [ANSWER] * len(runs)
    assert len(runs) == len(provider.requests) == 1 + (name == "ai_sdk.ts")
    assert all(LESSON in str(request.body) for request in provider.requests)
    assert [actions(run) for run in runs] == [[SAY]] * len(runs)
    assert all((run.task_id, run.retrieval_id is None) == ("airline", False) for run in runs)
    assert "success" in {run.outcome for run in runs}


LEAVES_A_RUN = """
import { ERL } from "erl-client";

await new ERL().run("of Node", { family: "airline" }, (run) => {
  run.messages([{ role: "user", content: "Hello?" }, { role: "assistant", content: "It cannot be cancelled." }]);
  run.success({ score: 1, source: "test" });
});
process.exit();
"""
SENDS_WHAT_WAITS = """
import { ERL } from "erl-client";

process.exit((await new ERL().flush(60)) ? 0 : 1);
"""


def test_python_sends_what_node_left(app: Path, erl: ERL, environment: dict[str, str]) -> None:
    erl.spool.folder.mkdir(parents=True)
    (erl.spool.folder / "sending.node").write_text(str(os.getpid()))  # so that it does not send the run itself
    (app / "leaves.js").write_text(LEAVES_A_RUN)
    call("node", "leaves.js", cwd=app, env=environment)
    assert not erl.spool.is_empty()

    assert erl.flush(60)

    run = Trajectory.objects.get()
    assert (run.task, run.task_id, run.outcome, run.score, run.outcome_source) == (
        "of Node",
        "airline",
        "success",
        1.0,
        "test",
    )
    assert (actions(run), run.retrieval_id is None) == ([SAY], False)


def test_node_sends_what_python_left(app: Path, erl: ERL, environment: dict[str, str]) -> None:
    erl.spool.add({"task": "of Python", "steps": [{"action": SAY}]})
    (app / "sends.js").write_text(SENDS_WHAT_WAITS)

    call("node", "sends.js", cwd=app, env=environment)

    assert actions(Trajectory.objects.get()) == [SAY]
    assert erl.spool.is_empty()
