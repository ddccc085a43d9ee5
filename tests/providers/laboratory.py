"""An agent with a tool, a provider that is imitated, and runs that go through the real loop."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from reflection.llm.base import OnText, Provider, ProviderConfig
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.wire import ModelProvider
from runtime.models.agents import Agent
from runtime.models.runs import Run
from runtime.models.tools import ToolKind
from runtime.runs import resume_run
from runtime.tools.catalogue import LoopTool
from tests.providers.imitation import Hold, Imitation, Refusal, Turn
from tests.runtime.running import BY, go_on, make_agent, make_run
from tests.scripted_answers import Exchange
from tests.scripted_provider import ScriptedProvider

FORBIDDEN = Refusal(
    status=403, message="Your account may not use this model.", kind="permission_error", is_expected=True
)
MOST_ATTEMPTS = 6


class Imitations:
    """One server on loopback for all imitations; the first part of the path says which."""

    def __init__(self) -> None:
        self._imitations: dict[str, Imitation] = {}
        self.server = ScriptedProvider(otherwise=self._play)

    def add(self, imitation: Imitation) -> str:
        """Let an imitation answer; return its address."""
        place = f"imitation-{len(self._imitations)}"
        self._imitations[place] = imitation
        return f"http://127.0.0.1:{self.server.port}/{place}{imitation.path}"

    def _play(self, exchange: Exchange) -> None:
        self._imitations[exchange.request.path.split("/")[1]](exchange)


class WholeAnswers(ModelProvider):
    """A provider that is never asked for a stream."""

    def start(self, request: ChatRequest, *, on_text: OnText | None = None) -> "Future[ChatAnswer]":
        return super().start(request)


def look(page: int) -> tuple[str, dict[str, Any]]:
    return "look", {"page": page}


def make_tool(words: int = 5) -> LoopTool:
    """Return a tool whose results have so many words."""
    return LoopTool(
        name="look",
        description="Look at a page.",
        parameters={"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]},
        kind=ToolKind.PURE,
        execute=lambda effect: f"Page {effect.arguments['page']}: " + "word " * words,
    )


LOOK, DONE = Turn(calls=(look(1),)), Turn(text="It is in Graz.")
REFUSED = Turn(text="I will not.", ending="refused")


def end_of(run: Run) -> tuple[str, str]:
    return run.stop_reason, run.messages.filter(is_reply=True).order_by("-seq").values_list("content", flat=True)[0]


class Laboratory:
    """One imitation, and conversations with its model."""

    def __init__(self, imitation: Imitation, provider: Provider) -> None:
        self.imitation = imitation
        self.provider = provider

    def make_agent(self, **spec: Any) -> Agent:
        return make_agent(tools=["look", "read_result"], system="You answer briefly.", **spec)

    def run(self, agent: Agent, *turns: Turn | Refusal | Hold, after: Run | None = None, task: str = "Look.") -> Run:
        """Let an agent answer a message, in the conversation of another run if there is one."""
        self.imitation.say(*turns)
        return self.finish(make_run(agent, task, conversation=after.conversation if after else None))

    def resume(self, run: Run, *turns: Turn | Refusal | Hold) -> Run:
        self.imitation.say(*turns)
        return self.finish(resume_run(run, by=BY))

    def finish(self, run: Run) -> Run:
        for _ in range(MOST_ATTEMPTS):
            if run.is_live:
                go_on(run, self.provider)
        return run


@contextmanager
def open_laboratory(imitations: Imitations, imitation: Imitation, *, streamed: bool) -> Iterator[Laboratory]:
    config = ProviderConfig(
        name=imitation.kind,
        kind=imitation.kind,
        model=imitation.model,
        base_url=imitations.add(imitation),
        timeout_seconds=30.0,
        api_key="a-key-of-nobody",
    )
    provider = (ModelProvider if streamed else WholeAnswers)(config)
    try:
        yield Laboratory(imitation, provider)
    finally:
        provider.close()
