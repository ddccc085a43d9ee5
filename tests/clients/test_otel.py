"""Spans of the real OpenTelemetry SDK, in the GenAI conventions and in OpenInference's, against the real server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from erl_client import ERL
from erl_client.otel import ERLSpanProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from memory.runs.models import Trajectory
from tests.clients.agent_answers import ANSWER, LOOK, SAY, TASK
from tests.clients.conftest import actions, acts, recorded

pytestmark = pytest.mark.nightly


ASKED = [{"role": "user", "parts": [{"type": "text", "content": TASK}]}]
CALLED = [
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": LOOK["name"], "arguments": LOOK["arguments"]}],
    }
]
RETURNED = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "basic economy"}]}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]


@pytest.fixture
def tracer(erl: ERL) -> Iterator[Tracer]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ERLSpanProcessor(erl, family="airline"))
    yield provider.get_tracer("test")
    provider.shutdown()


def chat(tracer: Tracer, asked: list[Any], answered: list[Any]) -> None:
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps(answered),
    }
    with tracer.start_as_current_span("chat m-1", attributes=about):
        pass


def work(tracer: Tracer) -> None:
    """Do what an instrumented agent does."""
    chat(tracer, ASKED, CALLED)
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_reservation"}
    with tracer.start_as_current_span("execute_tool", attributes=tool):
        pass
    chat(tracer, [*ASKED, *CALLED, *RETURNED], SAID)


def agent_span(tracer: Tracer, name: str = "travel") -> Any:
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return tracer.start_as_current_span(f"invoke_agent {name}", attributes=about)


def test_trace_of_an_agent_becomes_a_run(erl: ERL, tracer: Tracer) -> None:
    with agent_span(tracer):
        work(tracer)

    run = recorded(erl)
    assert (run.task, run.task_id, run.agent, run.outcome) == (TASK, "airline", "travel", "unknown")
    assert (actions(run), acts(run)[0]["observation"]) == ([LOOK, SAY], "basic economy")
    assert (run.model, run.tokens) == ("m-1", 30)


def test_spans_in_a_block_are_part_of_its_run(erl: ERL, tracer: Tracer) -> None:
    with tracer.start_as_current_span("GET /"), erl.run(TASK, family="airline") as run:
        with agent_span(tracer):
            work(tracer)
        run.success(score=1.0, source="test")

    stored = recorded(erl)
    assert (stored.outcome, actions(stored), stored.retrieval_id is not None) == ("success", [LOOK, SAY], True)


def test_exception_in_an_agent_is_recorded(erl: ERL, tracer: Tracer) -> None:
    def agent() -> None:
        with agent_span(tracer):
            chat(tracer, ASKED, CALLED)
            raise LookupError("no such reservation")

    with pytest.raises(LookupError):
        agent()

    run = recorded(erl)
    assert (run.outcome, run.steps[-1]["error"]) == ("failure", "no such reservation")


def test_agent_in_an_agent_has_a_run_with_its_caller_as_parent(erl: ERL, tracer: Tracer) -> None:
    with agent_span(tracer):
        chat(tracer, ASKED, CALLED)
        with agent_span(tracer, "expert"):
            chat(tracer, [{"role": "user", "parts": [{"type": "text", "content": "Which cabin?"}]}], SAID)

    assert erl.flush()
    called, caller = (Trajectory.objects.get(agent=agent) for agent in ("expert", "travel"))
    assert (called.parent, called.task, caller.task) == (caller, "Which cabin?", TASK)


def test_openinference_spans_are_read(erl: ERL, tracer: Tracer) -> None:
    about = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": TASK,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    with tracer.start_as_current_span("completion", attributes=about):
        pass

    assert actions(recorded(erl)) == [SAY]


def test_traces_without_an_agent_are_passed_over(erl: ERL, tracer: Tracer) -> None:
    with tracer.start_as_current_span("GET /"), tracer.start_as_current_span("SELECT"):
        pass

    erl.close()
    assert not Trajectory.objects.exists()
