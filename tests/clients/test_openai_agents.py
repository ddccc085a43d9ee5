"""Agents of the OpenAI Agents SDK, with the real package, against the real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents.exceptions import MaxTurnsExceeded
from erl_client import ERL, current_run
from erl_client.openai_agents import ERLTracing

from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool, set_trace_processors
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import (
    ANSWER,
    CLOSE,
    LESSON,
    LOOK,
    SAY,
    TASK,
    chat_calls,
    chat_says,
    chat_streams,
    response_calls,
    response_says,
)
from tests.clients.conftest import actions, acts, make_lesson, recorded, run_apart
from tests.scripted_answers import fails
from tests.scripted_provider import ScriptedProvider


@function_tool
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


@function_tool
def get_broken_reservation(id: str) -> str:
    """Read a reservation."""
    raise LookupError("no such reservation")


@pytest.fixture
def tracing(erl: ERL) -> Iterator[ERLTracing]:
    tracing = ERLTracing(erl, family="airline")
    set_trace_processors([tracing])
    yield tracing
    set_trace_processors([])


def config(tracing: ERLTracing, provider: ScriptedProvider, *, chat: bool = False) -> RunConfig:
    models = OpenAIProvider(base_url=provider.openai_url, api_key="k", use_responses=not chat)
    return RunConfig(model_provider=models, call_model_input_filter=tracing.add_lessons)


def make_agent(*tools: Any) -> Agent[None]:
    return Agent(name="travel", instructions="Be kind.", tools=[*tools])


def test_agent_is_given_lessons_and_recorded(
    erl: ERL, project: Project, tracing: ERLTracing, provider: ScriptedProvider
) -> None:
    make_lesson(project)
    provider.script(response_calls(), response_says())

    result = run_apart(Runner.run(make_agent(get_reservation), TASK, run_config=config(tracing, provider)))

    assert result.final_output == ANSWER
    assert all(request.body["instructions"].startswith("Be kind.\n\n") for request in provider.requests)
    assert all(request.body["instructions"].count(LESSON) == 1 for request in provider.requests)
    run = recorded(erl)
    assert (run.task, run.task_id, run.agent, run.outcome) == (TASK, "airline", "travel", "unknown")
    assert (actions(run), acts(run)[0]["observation"]) == ([LOOK, SAY], "basic economy")
    assert run.retrieval_id is not None
    assert (run.model, run.tokens) == ("m-1", 30)


def test_agent_with_chat_completions_is_recorded(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(), chat_says())

    run_apart(Runner.run(make_agent(get_reservation), TASK, run_config=config(tracing, provider, chat=True)))

    assert actions(recorded(erl)) == [LOOK, SAY]


def test_agent_in_a_block_is_part_of_its_run(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), response_says())

    async def work() -> None:
        with erl.run(TASK, family="airline") as run:
            await Runner.run(make_agent(get_reservation), TASK, run_config=config(tracing, provider))
            run.success(score=1.0, source="test")

    run_apart(work())

    stored = recorded(erl)
    assert (stored.outcome, stored.outcome_source, actions(stored)) == ("success", "test", [LOOK, SAY])


def test_tool_that_raises_is_an_error_of_its_step(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(response_calls("get_broken_reservation"), response_says())

    run_apart(Runner.run(make_agent(get_broken_reservation), TASK, run_config=config(tracing, provider)))

    first, second = acts(recorded(erl))
    assert first["action"]["name"] == "get_broken_reservation"
    assert "Error running tool" in first["error"]
    assert second["action"] == SAY


def test_model_that_fails_ends_the_run(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), fails(400, message="Overloaded.", headers=CLOSE))

    with pytest.raises(Exception, match="Overloaded"):
        run_apart(Runner.run(make_agent(get_reservation), TASK, run_config=config(tracing, provider)))

    run = recorded(erl)
    assert (run.outcome, actions(run)) == ("failure", [LOOK])
    assert "Overloaded." in run.steps[-1]["error"]


def test_agent_that_takes_too_many_turns_fails(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), response_calls(call_id="call_2"))

    with pytest.raises(MaxTurnsExceeded):
        run_apart(Runner.run(make_agent(get_reservation), TASK, max_turns=2, run_config=config(tracing, provider)))

    run = recorded(erl)
    assert (run.outcome, actions(run)) == ("failure", [LOOK, LOOK])


def test_agent_that_is_asked_after_an_error_has_not_failed(
    erl: ERL, tracing: ERLTracing, provider: ScriptedProvider
) -> None:
    async def work() -> None:
        try:
            raise LookupError("no such reservation")
        except LookupError:
            await Runner.run(make_agent(), TASK, run_config=config(tracing, provider))

    provider.script(response_says())
    run_apart(work())

    run = recorded(erl)
    assert (run.outcome, actions(run), run.steps[-1]["error"]) == ("unknown", [SAY], "")


def test_agent_as_a_tool_has_a_run_with_its_caller_as_parent(
    erl: ERL, tracing: ERLTracing, provider: ScriptedProvider
) -> None:
    expert = Agent(name="expert", tools=[get_reservation])
    tool = expert.as_tool("ask_expert", "Asks an expert.", run_config=config(tracing, provider))
    provider.script(response_calls("ask_expert", input="Which cabin?"), response_calls(), response_says("Basic."))
    provider.script(response_says())

    run_apart(Runner.run(make_agent(tool), TASK, run_config=config(tracing, provider)))

    assert erl.flush()
    called, caller = (Trajectory.objects.get(task=task) for task in ("Which cabin?", TASK))
    assert called.parent == caller
    assert [action["name"] for action in actions(called)] == ["get_reservation", "respond"]
    assert [action["name"] for action in actions(caller)] == ["ask_expert", "respond"]


def test_agents_side_by_side_have_runs_of_their_own(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    provider.script(*[response_says()] * 3)

    async def work() -> None:
        options = config(tracing, provider)
        await asyncio.gather(*(Runner.run(make_agent(), f"Task {n}", run_config=options) for n in range(3)))
        assert current_run() is None

    run_apart(work())

    assert erl.flush()
    runs = Trajectory.objects.order_by("task")
    assert [(run.task, actions(run)) for run in runs] == [(f"Task {n}", [SAY]) for n in range(3)]


def test_streamed_agent_is_recorded(erl: ERL, tracing: ERLTracing, provider: ScriptedProvider) -> None:
    async def work() -> None:
        result = Runner.run_streamed(make_agent(), TASK, run_config=config(tracing, provider, chat=True))
        async for _ in result.stream_events():
            pass

    provider.script(chat_streams("It cannot ", "be cancelled."))
    run_apart(work())

    assert actions(recorded(erl)) == [SAY]
