"""Agents, runs and a provider that answers by a script."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings

from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.jobs.models import Job
from reflection.llm.base import BlockingProvider, OnText, Provider
from reflection.llm.chat import ChatAnswer, ChatRequest, ToolCall
from runtime.loop.execution import RunAttempt, run_agent
from runtime.models.agents import Agent
from runtime.models.runs import Run
from runtime.revisions import AgentSpec, create_agent
from runtime.runs import RunRequest, start_run
from tests.factories import make_project

BY = Actor(label="user:ana")
Turn = str | list[tuple[str, dict[str, Any]]] | Exception | Callable[[ChatRequest], Any]


class Script(BlockingProvider):
    """A provider whose answers are listed: a text, calls of tools, an error to raise, or a function of the request."""

    name = "scripted"
    model = "script"

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.asked: list[ChatRequest] = []

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        self.asked.append(request)
        turn = self.turns.pop(0)
        if callable(turn):
            turn = turn(request)
        if isinstance(turn, Exception):
            raise turn
        text, calls = (turn, []) if isinstance(turn, str) else ("", turn)
        if on_text is not None and text:
            on_text(text)
        return ChatAnswer(
            text=text,
            finish_reason="tool_calls" if calls else "stop",
            input_tokens=10,
            output_tokens=5,
            model=self.model,
            latency_ms=1.0,
            tool_calls=tuple(_call(index, len(self.asked), call) for index, call in enumerate(calls)),
        )

    def close(self) -> None: ...


def make_agent(
    *, project: Project | None = None, name: str = "support", tools: Iterable[str] = (), **spec: Any
) -> Agent:
    named = tuple({"name": tool} for tool in tools)
    return create_agent(project or make_project(), name=name, spec=AgentSpec(tools=named, **spec), by=BY)


def make_run(agent: Agent, input: str = "Where is order 1?", **request: Any) -> Run:
    return start_run(agent, RunRequest(input=input, **request), by=BY)


def go_on(run: Run, script: Provider, *, owner: str = "worker") -> RunAttempt:
    """Let a worker go on with a run until it ends or waits."""
    job = Job.objects.live().get(kind="agent_run", subject=str(run.pk))
    Job.objects.filter(pk=job.pk).update(available_at=Now())  # also where it waits to be tried again
    with override_settings(ERL_REFLECTION_LEASE_SECONDS=3600):  # the heartbeat does not see the test's transaction
        attempt = run_agent(job.pk, owner=owner, find=lambda model: script)
    check_deferred()
    run.refresh_from_db()
    return attempt


def check_deferred() -> None:
    """Check now what the database checks at the end of a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def _call(index: int, answer: int, call: tuple[str, dict[str, Any]]) -> ToolCall:
    import json

    name, arguments = call
    return ToolCall.read(id=f"c{answer}-{index}", name=name, raw_arguments=json.dumps(arguments))
