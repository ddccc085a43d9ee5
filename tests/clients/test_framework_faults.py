"""ERL is away or slow while an agent of a framework works: the agent goes on, and its run is recorded later."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL
from erl_client.langchain import ERLMiddleware
from erl_client.otel import ERLSpanProcessor
from erl_client.pydantic_ai import ERLCapability
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import ANSWER, SAY, TASK, chat_says
from tests.clients.broken_erl import BrokenErl, garbage, slow
from tests.clients.conftest import actions, run_apart
from tests.factories import make_api_key
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


BUDGET_SECONDS = 2.0
SLACK_SECONDS = 20.0  # of a loaded machine; the server that is slow takes 10 s for each request


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(otherwise=chat_says()) as provider:
        yield provider


def ask_langchain(erl: ERL, provider: ScriptedProvider) -> Any:
    model = ChatOpenAI(model="m", base_url=provider.openai_url, api_key="k")
    agent = create_agent(model, middleware=[ERLMiddleware(erl)])
    return agent.invoke({"messages": [{"role": "user", "content": TASK}]})["messages"][-1].text


def ask_pydantic_ai(erl: ERL, provider: ScriptedProvider) -> Any:
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=provider.openai_url, api_key="k"))
    return run_apart(Agent(model, capabilities=[ERLCapability(erl)]).run(TASK)).output


def ask_with_spans(erl: ERL, provider: ScriptedProvider) -> Any:
    traces = TracerProvider(shutdown_on_exit=False)
    traces.add_span_processor(ERLSpanProcessor(erl))
    about = {"openinference.span.kind": "LLM", "input.value": TASK, "output.value": ANSWER}
    with traces.get_tracer("test").start_as_current_span("completion", attributes=about):
        return ANSWER


@pytest.mark.parametrize("ask", [ask_langchain, ask_pydantic_ai, ask_with_spans])
@pytest.mark.parametrize("fault", [garbage, None], ids=["garbage", "away"])
def test_agent_goes_on_without_erl_and_is_recorded_later(
    ask: Callable[[ERL, ScriptedProvider], Any],
    fault: Any,
    project: Project,
    live_server: Any,
    provider: ScriptedProvider,
    tmp_path: Path,
) -> None:
    token = make_api_key(project=project).token
    with BrokenErl(fault or garbage) as broken:
        erl = ERL(broken.url if fault else "http://127.0.0.1:9", token, spool=tmp_path / "runs")
        assert ask(erl, provider) == ANSWER
        erl.close()
    assert not Trajectory.objects.exists()

    with ERL(live_server.url, token, spool=tmp_path / "runs") as back:
        assert back.flush(60)
    assert actions(Trajectory.objects.get()) == [SAY]


def test_agent_waits_no_longer_than_its_budget(provider: ScriptedProvider, tmp_path: Path) -> None:
    with BrokenErl(slow) as broken:
        erl = ERL(broken.url, "erl_live_x", spool=tmp_path)
        began = time.monotonic()
        for _ in range(3):
            assert ask_langchain(erl, provider) == ANSWER
        seconds = time.monotonic() - began
        erl.close()

    assert seconds < 3 * BUDGET_SECONDS + SLACK_SECONDS
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_run_that_cannot_be_recorded_does_not_stop_the_agent(erl: ERL, provider: ScriptedProvider) -> None:
    class Strange:
        def __iter__(self) -> Any:
            raise RuntimeError("Do not look at me.")

    provider.script(chat_says())
    with erl.run(TASK) as run:
        run.metadata["strange"] = Strange()
        assert ask_langchain(erl, provider) == ANSWER
