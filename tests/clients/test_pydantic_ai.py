"""Agents of pydantic-ai, with the real package, against the real server."""

import asyncio
from typing import Any

import pytest
from erl_client import ERL, current_run
from erl_client.pydantic_ai import ERLCapability
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import ANSWER, CLOSE, LESSON, LOOK, SAY, TASK, chat_calls, chat_says, chat_streams
from tests.clients.conftest import actions, acts, make_lesson, recorded, run_apart
from tests.scripted_answers import fails
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


def make_agent(erl: ERL, provider: ScriptedProvider, **options: Any) -> Agent[None, Any]:
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=provider.openai_url, api_key="k"))
    agent = Agent(model, instructions="Be kind.", capabilities=[ERLCapability(erl, family="airline")], **options)

    @agent.tool_plain
    def get_reservation(id: str) -> str:
        if id == "MISSING":
            raise LookupError("no such reservation")
        if id == "TYPO":
            raise ModelRetry("Spell it again.")
        return "basic economy"

    return agent


def ask(agent: Agent[None, Any], task: str = TASK, **options: Any) -> Any:
    return run_apart(agent.run(task, **options))


def test_agent_is_given_lessons_and_recorded(erl: ERL, project: Project, provider: ScriptedProvider) -> None:
    make_lesson(project)
    provider.script(chat_calls(), chat_says())

    assert ask(make_agent(erl, provider)).output == ANSWER

    assert all(str(request.body["messages"]).count(LESSON) == 1 for request in provider.requests)
    run = recorded(erl)
    assert (run.task, run.task_id, run.outcome) == (TASK, "airline", "unknown")
    assert (actions(run), acts(run)[0]["observation"]) == ([LOOK, SAY], "basic economy")
    assert run.retrieval_id is not None
    assert (run.model, run.tokens) == ("m-1", 30)
    assert run.tools[0]["name"] == "get_reservation"


def test_agent_in_a_block_is_part_of_its_run(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(), chat_says())

    async def work() -> None:
        with erl.run(TASK, family="airline") as run:
            await make_agent(erl, provider).run(TASK)
            run.success(score=1.0, source="test")

    run_apart(work())

    stored = recorded(erl)
    assert (stored.outcome, stored.outcome_source, actions(stored)) == ("success", "test", [LOOK, SAY])


def test_streamed_agent_is_recorded(erl: ERL, provider: ScriptedProvider) -> None:
    async def work() -> list[str]:
        async with make_agent(erl, provider).run_stream(TASK) as result:
            return [text async for text in result.stream_text(delta=True)]

    provider.script(chat_streams("It cannot ", "be cancelled."))

    assert "".join(run_apart(work())) == ANSWER
    assert actions(recorded(erl)) == [SAY]


def test_tool_that_raises_ends_the_run(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(id="MISSING"))

    with pytest.raises(LookupError):
        ask(make_agent(erl, provider))

    run = recorded(erl)
    assert run.outcome == "failure"
    assert (acts(run)[0]["action"]["arguments"], acts(run)[0]["error"]) == (
        {"id": "MISSING"},
        "LookupError: no such reservation",
    )


def test_call_that_the_model_has_to_repeat_is_an_error(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(id="TYPO"), chat_calls(call_id="call_2"), chat_says())

    ask(make_agent(erl, provider))

    run = recorded(erl)
    assert [bool(step["error"]) for step in acts(run)] == [True, False, False]
    assert actions(run)[1:] == [LOOK, SAY]


def test_model_that_fails_ends_the_run(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(), fails(400, message="Overloaded.", headers=CLOSE))

    with pytest.raises(ModelHTTPError):
        ask(make_agent(erl, provider))

    run = recorded(erl)
    assert (run.outcome, actions(run)) == ("failure", [LOOK])
    assert "Overloaded." in run.steps[-1]["error"]


def test_history_of_earlier_runs_is_not_recorded_again(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(), chat_says("One."), chat_says("Two."))
    agent = make_agent(erl, provider)

    first = ask(agent, "First")
    ask(agent, "Second", message_history=first.all_messages())

    assert erl.flush()
    assert actions(Trajectory.objects.get(task="Second")) == [{"name": "respond", "arguments": {"content": "Two."}}]


def test_structured_output_is_recorded(erl: ERL, provider: ScriptedProvider) -> None:
    class Decision(BaseModel):
        cancel: bool

    provider.script(chat_calls("final_result", cancel="false"))

    assert ask(make_agent(erl, provider, output_type=Decision)).output == Decision(cancel=False)
    assert actions(recorded(erl))[0] == {"name": "final_result", "arguments": {"cancel": "false"}}


def test_agent_in_a_tool_has_a_run_with_its_caller_as_parent(erl: ERL, provider: ScriptedProvider) -> None:
    expert, agent = make_agent(erl, provider), make_agent(erl, provider)

    @agent.tool_plain
    async def ask_expert(question: str) -> str:
        return str((await expert.run(question)).output)

    provider.script(chat_calls("ask_expert", question="Which cabin?"), chat_calls(), chat_says("Basic."), chat_says())
    ask(agent)

    assert erl.flush()
    called, caller = (Trajectory.objects.get(task=task) for task in ("Which cabin?", TASK))
    assert called.parent == caller
    assert [[action["name"] for action in actions(run)] for run in (called, caller)] == [
        ["get_reservation", "respond"],
        ["ask_expert", "respond"],
    ]


def test_agents_side_by_side_have_runs_of_their_own(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(*[chat_says()] * 3)
    agent = make_agent(erl, provider)

    async def work() -> None:
        await asyncio.gather(*(agent.run(f"Task {n}") for n in range(3)))
        assert current_run() is None

    run_apart(work())

    assert erl.flush()
    runs = Trajectory.objects.order_by("task")
    assert [(run.task, actions(run)) for run in runs] == [(f"Task {n}", [SAY]) for n in range(3)]


def test_agents_side_by_side_in_a_block_do_not_share_its_run(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(*[chat_says()] * 2)
    agent = make_agent(erl, provider)

    async def work() -> None:
        with erl.run("Both"):
            await asyncio.gather(agent.run("One"), agent.run("Two"))

    run_apart(work())

    assert erl.flush()
    block, other = Trajectory.objects.get(task="Both"), Trajectory.objects.exclude(task="Both").get()
    assert (other.parent, actions(block), actions(other)) == (block, [SAY], [SAY])


def test_agent_that_is_cancelled_has_no_known_outcome(erl: ERL, provider: ScriptedProvider) -> None:
    agent = make_agent(erl, provider)
    waiting = asyncio.Event()

    @agent.tool_plain
    async def wait_for_ever(id: str) -> str:
        waiting.set()
        await asyncio.sleep(600)
        return ""

    async def work() -> None:
        task = asyncio.create_task(agent.run(TASK))
        await asyncio.wait_for(waiting.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    provider.script(chat_calls("wait_for_ever"))
    run_apart(work())

    assert recorded(erl).outcome == "unknown"
