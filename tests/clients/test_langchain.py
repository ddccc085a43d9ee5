"""Agents of LangChain and a LangGraph graph, with the real packages, against the real server."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from erl_client import ERL, current_run
from erl_client.langchain import ERLCallbacks, ERLMiddleware
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import ANSWER, LESSON, LOOK, SAY, TASK, chat_calls, chat_says
from tests.clients.conftest import actions, acts, make_lesson, recorded, run_apart
from tests.scripted_answers import fails
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


@tool
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


@tool
def get_broken_reservation(id: str) -> str:
    """Read a reservation."""
    raise LookupError("no such reservation")


@pytest.fixture
def model(provider: ScriptedProvider) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=provider.openai_url, api_key="k", max_retries=0)


def make_agent(erl: ERL, model: ChatOpenAI, *tools: Any, **options: Any) -> Any:
    middleware = [ERLMiddleware(erl, family="airline")]
    return create_agent(model, tools=[*tools], system_prompt="Be kind.", middleware=middleware, **options)


def ask(agent: Any, task: str = TASK, **config: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(task)]}, **config)


def test_agent_is_given_lessons_and_recorded(
    erl: ERL, project: Project, provider: ScriptedProvider, model: ChatOpenAI
) -> None:
    make_lesson(project)
    provider.script(chat_calls(), chat_says())

    result = ask(make_agent(erl, model, get_reservation))

    assert result["messages"][-1].text == ANSWER
    assert "erl_run" not in result
    assert all(request.body["messages"][0]["role"] == "system" for request in provider.requests)
    assert all(request.body["messages"][0]["content"].count(LESSON) == 1 for request in provider.requests)
    run = recorded(erl)
    assert (run.task, run.task_id, run.outcome) == (TASK, "airline", "unknown")
    assert actions(run) == [LOOK, SAY]
    assert acts(run)[0]["observation"] == "basic economy"
    assert run.retrieval_id is not None
    assert (run.model, run.tokens) == ("m-1", 30)
    assert run.tools[0]["function"]["name"] == "get_reservation"


@pytest.mark.parametrize(
    ("own", "stored"),
    [({"google_search": {}}, "google_search"), ({"type": "mcp_toolset", "mcp_server_name": "files"}, None)],
)
def test_tool_that_the_provider_runs_does_not_end_the_agent(
    erl: ERL, provider: ScriptedProvider, own: dict[str, Any], stored: Any
) -> None:
    class OwnTools(ChatOpenAI):  # type: ignore[misc]  # untyped here
        """Takes tools of its own, as the packages of other providers do."""

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return super().bind_tools([tool for tool in tools if tool != own], **options)

    provider.script(chat_calls(), chat_says())
    model = OwnTools(model="m", base_url=provider.openai_url, api_key="k", max_retries=0)

    result = ask(make_agent(erl, model, get_reservation, own))

    assert result["messages"][-1].text == ANSWER
    run = recorded(erl)
    assert actions(run) == [LOOK, SAY]
    assert run.tools[1] == (stored or own)


def test_agent_in_a_block_is_part_of_its_run(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    provider.script(chat_calls(), chat_says())

    with erl.run(TASK, family="airline") as run:
        ask(make_agent(erl, model, get_reservation))
        run.success(score=1.0, source="test")

    stored = recorded(erl)
    assert (stored.outcome, stored.outcome_source, actions(stored)) == ("success", "test", [LOOK, SAY])


def test_async_agent_is_recorded(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    provider.script(chat_calls(), chat_says())

    run_apart(make_agent(erl, model, get_reservation).ainvoke({"messages": [HumanMessage(TASK)]}))

    assert actions(recorded(erl)) == [LOOK, SAY]


def test_streamed_agent_is_recorded(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    provider.script(chat_calls(), chat_says())

    parts = list(make_agent(erl, model, get_reservation).stream({"messages": [HumanMessage(TASK)]}))

    assert len(parts) > 2
    assert actions(recorded(erl)) == [LOOK, SAY]


def test_tool_that_raises_ends_the_run(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    provider.script(chat_calls("get_broken_reservation"))

    with pytest.raises(LookupError):
        ask(make_agent(erl, model, get_broken_reservation))

    run = recorded(erl)
    assert run.outcome == "failure"
    assert acts(run)[0]["action"]["name"] == "get_broken_reservation"
    assert acts(run)[0]["error"] == "LookupError: no such reservation"


def test_model_that_fails_ends_the_run(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    provider.script(chat_calls(), fails(500, message="Overloaded."))

    with pytest.raises(Exception, match="Overloaded"):
        ask(make_agent(erl, model, get_reservation))

    run = recorded(erl)
    assert (run.outcome, actions(run)) == ("failure", [LOOK])
    assert "Overloaded." in run.steps[-1]["error"]


def test_run_of_an_agent_that_is_stopped_is_recorded_when_the_client_closes(
    erl: ERL, provider: ScriptedProvider, model: ChatOpenAI
) -> None:
    provider.script(chat_calls(), chat_calls(call_id="call_2"), chat_calls(call_id="call_3"))

    with pytest.raises(GraphRecursionError):
        ask(make_agent(erl, model, get_reservation), config={"recursion_limit": 5})

    assert erl.flush()
    assert not Trajectory.objects.exists()
    erl.close()
    run = Trajectory.objects.get()
    assert (run.outcome, actions(run)[0]) == ("unknown", LOOK)


def test_second_question_of_a_thread_is_a_run_of_its_own(
    erl: ERL, provider: ScriptedProvider, model: ChatOpenAI
) -> None:
    provider.script(chat_calls(), chat_says("One."), chat_says("Two."))
    agent = make_agent(erl, model, get_reservation, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    ask(agent, "First", config=config)
    ask(agent, "Second", config=config)

    assert erl.flush()
    first, second = Trajectory.objects.order_by("created_at")
    assert (first.task, len(actions(first))) == ("First", 2)
    assert (second.task, actions(second)) == ("Second", [{"name": "respond", "arguments": {"content": "Two."}}])


def test_interrupted_agent_goes_on_in_the_same_run(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    @tool
    def ask_person(id: str) -> str:
        """Ask."""
        return str(interrupt("May I?"))

    provider.script(chat_calls("ask_person"), chat_says())
    agent = make_agent(erl, model, ask_person, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    ask(agent, config=config)
    agent.invoke(Command(resume="Yes"), config=config)

    run = recorded(erl)
    assert (acts(run)[0]["observation"], acts(run)[0]["error"], actions(run)[1]) == ("Yes", "", SAY)


def test_agent_in_a_tool_has_a_run_with_its_caller_as_parent(
    erl: ERL, provider: ScriptedProvider, model: ChatOpenAI
) -> None:
    inner = make_agent(erl, model, get_reservation)

    @tool
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        return str(ask(inner, question)["messages"][-1].text)

    provider.script(chat_calls("ask_expert", question="Which cabin?"), chat_calls(), chat_says("Basic."), chat_says())
    ask(make_agent(erl, model, ask_expert))

    assert erl.flush()
    called, caller = (Trajectory.objects.get(task=task) for task in ("Which cabin?", TASK))
    assert called.parent == caller
    assert [action["name"] for action in actions(called)] == ["get_reservation", "respond"]
    assert [action["name"] for action in actions(caller)] == ["ask_expert", "respond"]
    assert caller.parent is None


def test_agents_in_parallel_threads_have_runs_of_their_own(
    erl: ERL, provider: ScriptedProvider, model: ChatOpenAI
) -> None:
    provider.script(*[chat_says()] * 4)
    agent = make_agent(erl, model, get_reservation)

    with ThreadPoolExecutor(max_workers=4) as threads:
        list(threads.map(lambda n: ask(agent, f"Task {n}"), range(4)))

    assert erl.flush()
    runs = Trajectory.objects.order_by("task")
    assert [(run.task, actions(run)) for run in runs] == [(f"Task {n}", [SAY]) for n in range(4)]
    assert current_run() is None


def test_graph_of_ones_own_is_captured_by_callbacks(erl: ERL, provider: ScriptedProvider, model: ChatOpenAI) -> None:
    def work(state: MessagesState) -> dict[str, Any]:
        first = model.bind_tools([get_reservation]).invoke(state["messages"])
        result = get_reservation.invoke(first.tool_calls[0])
        return {"messages": [first, result, model.invoke([*state["messages"], first, result])]}

    provider.script(chat_calls(), chat_says())
    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").add_edge("work", END).compile()

    with erl.run(TASK, family="airline") as run:
        messages = [SystemMessage("Be kind.\n\n" + run.context), HumanMessage(TASK)]
        graph.invoke({"messages": messages}, {"callbacks": [ERLCallbacks(run)]})
        run.success()

    stored = recorded(erl)
    assert (actions(stored), stored.outcome, stored.tokens) == ([LOOK, SAY], "success", 30)
    assert stored.tools[0]["function"]["name"] == "get_reservation"
    assert acts(stored)[0]["observation"] == "basic economy"
