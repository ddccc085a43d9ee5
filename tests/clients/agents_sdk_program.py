"""Agents of the OpenAI Agents SDK, in a process of their own: the SDK's package has the name of one of ERL's apps.

Reads one JSON object a line: a scenario, where ERL and the model are, and the spool. Writes one line for each: what the
agent answered, or the error that ended it.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool, set_trace_processors
from erl_client import ERL, current_run
from erl_client.openai_agents import ERLTracing


@function_tool
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


@function_tool
def get_broken_reservation(id: str) -> str:
    """Read a reservation."""
    raise LookupError("no such reservation")


class Work:
    """What the scenarios share: the client, the tracing and the model of one of them."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.task: str = asked["task"]
        self.erl = ERL(asked["url"], asked["key"], spool=asked["spool"])
        self.tracing = ERLTracing(self.erl, family="airline")
        self.model_url: str = asked["model_url"]
        set_trace_processors([self.tracing])

    def config(self, *, chat: bool = False) -> RunConfig:
        models = OpenAIProvider(base_url=self.model_url, api_key="k", use_responses=not chat)
        return RunConfig(model_provider=models, call_model_input_filter=self.tracing.add_lessons)

    async def ask(self, *tools: Any, task: str = "", chat: bool = False, **options: Any) -> Any:
        agent = Agent(name="travel", instructions="Be kind.", tools=[*tools])
        return (await Runner.run(agent, task or self.task, run_config=self.config(chat=chat), **options)).final_output


async def one_tool(work: Work) -> Any:
    return await work.ask(get_reservation)


async def chat_completions(work: Work) -> Any:
    return await work.ask(get_reservation, chat=True)


async def chat_without_tools(work: Work) -> Any:
    return await work.ask(chat=True)


async def open_run(work: Work) -> Any:
    with work.erl.run(work.task, family="airline") as run:
        answer = await work.ask(get_reservation)
        run.success(score=1.0, source="test")
    return answer


async def broken_tool(work: Work) -> Any:
    return await work.ask(get_broken_reservation)


async def two_turns_at_most(work: Work) -> Any:
    return await work.ask(get_reservation, max_turns=2)


async def after_an_error(work: Work) -> Any:
    try:
        raise LookupError("no such reservation")
    except LookupError:
        return await work.ask()


async def agent_as_tool(work: Work) -> Any:
    expert = Agent(name="expert", tools=[get_reservation])
    return await work.ask(expert.as_tool("ask_expert", "Asks an expert.", run_config=work.config()))


async def side_by_side(work: Work) -> Any:
    await asyncio.gather(*(work.ask(task=f"Task {number}") for number in range(3)))
    return current_run()


async def streamed(work: Work) -> Any:
    result = Runner.run_streamed(Agent(name="travel"), work.task, run_config=work.config(chat=True))
    async for _ in result.stream_events():
        pass
    return result.final_output


SCENARIOS: dict[str, Callable[[Work], Awaitable[Any]]] = {
    scenario.__name__: scenario
    for scenario in (
        one_tool,
        chat_completions,
        chat_without_tools,
        open_run,
        broken_tool,
        two_turns_at_most,
        after_an_error,
        agent_as_tool,
        side_by_side,
        streamed,
    )
}


async def play(asked: dict[str, Any], work: Work) -> dict[str, Any]:
    try:
        return {"answer": await SCENARIOS[asked["scenario"]](work), "error": ""}
    except Exception as error:
        return {"answer": None, "error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    asked = json.loads(line)
    work = Work(asked)
    played = asyncio.run(play(asked, work))
    if asked["flush"]:
        played["flushed"] = work.erl.flush(30)
    work.erl.close()
    print(json.dumps(played), flush=True)
