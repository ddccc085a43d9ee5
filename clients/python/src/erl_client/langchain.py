"""Lessons and records for agents of LangChain, and for any LangGraph graph.

    agent = create_agent(model, tools, middleware=[ERLMiddleware(erl, family="airline")])

Graphs of your own take `run.context` in their prompt, and `ERLCallbacks` capture what their models and tools said:

    with erl.run(task) as run:
        graph.invoke({"messages": […]}, {"callbacks": [ERLCallbacks(run)]})
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID
from weakref import WeakValueDictionary

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp

from erl_client.client import ERL, AsyncERL
from erl_client.frameworks import Framework, inside, note_call
from erl_client.runs import Run


class ERLState(AgentState[Any], total=False):  # type: ignore[call-arg]
    """The state of an agent, and the id of its run."""

    erl_run: Annotated[str, PrivateStateAttr]


class ERLMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts lessons into the system prompt of an agent, and records each time it is invoked as a run.

    Belongs first in the list, so that it sees the errors that the others leave. In the block of an open run the agent
    is part of that run, which may also say how it ended.
    """

    state_schema = ERLState

    def __init__(self, erl: ERL | AsyncERL, *, family: str = "", agent: str = "") -> None:
        super().__init__()
        self._framework = Framework(erl=erl, family=family, agent=agent)
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()  # the client holds them

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return self._begun(self._framework.begin(_task(state["messages"])))

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return self._begun(await self._framework.begin_async(_task(state["messages"])))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with self._step(request.state) as run:
            response = handler(_with_lessons(request, run))
            _note_response(run, request, response)
            return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        with self._step(request.state) as run:
            response = await handler(_with_lessons(request, run))
            _note_response(run, request, response)
            return response

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        with self._step(request.state, tool_call=request.tool_call) as run, inside(run):
            return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        with self._step(request.state, tool_call=request.tool_call) as run, inside(run):
            return await handler(request)

    def after_agent(self, state: Any, runtime: Any) -> None:
        if run := self._runs.pop(state.get("erl_run", ""), None):
            note_call(run, _since(state["messages"]), [])
            self._framework.end(run)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        self.after_agent(state, runtime)

    def _begun(self, run: Run) -> dict[str, Any]:
        self._runs[run.external_id] = run
        return {"erl_run": run.external_id}

    @contextmanager
    def _step(self, state: Any, tool_call: Mapping[str, Any] | None = None) -> Iterator[Run | None]:
        """Let an error of a model or tool end the run. An interrupt is none: the agent will go on."""
        run = self._runs.get(state.get("erl_run", ""))
        try:
            yield run
        except GraphBubbleUp:
            raise
        except BaseException as error:
            if run is not None:
                if tool_call is not None:
                    note_call(run, [*_since(state["messages"]), _failed(tool_call, error)], [])
                self._runs.pop(run.external_id, None)
                self._framework.end(run, error)
            raise


class ERLCallbacks(BaseCallbackHandler):
    """Captures the calls of models in a graph or chain for an open run."""

    run_inline = True  # in order, and without a thread

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: dict[UUID, tuple[list[BaseMessage], list[Any]]] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **about: Any
    ) -> None:
        tools = (about.get("invocation_params") or {}).get("tools") or []
        self._asked[run_id] = (messages[0] if messages else [], tools)

    def on_llm_end(self, response: Any, *, run_id: UUID, **about: Any) -> None:
        messages, tools = self._asked.pop(run_id, ([], []))
        replies = [generation.message for generation in response.generations[0][:1] if hasattr(generation, "message")]
        note_call(self._run, messages, replies, tools=tools)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **about: Any) -> None:
        messages, tools = self._asked.pop(run_id, ([], []))
        note_call(self._run, messages, [], tools=tools, error=f"{type(error).__name__}: {error}")


def _task(messages: Sequence[Any]) -> str:
    asked = [message for message in messages if isinstance(message, HumanMessage)]
    return str(asked[-1].text) if asked else ""


def _since(messages: Sequence[Any]) -> list[Any]:
    """Return the messages of this invocation: those before its question are of earlier ones."""
    last = max((n for n, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    return list(messages[last:])


def _with_lessons(request: ModelRequest[Any], run: Run | None) -> ModelRequest[Any]:
    if run is None or not run.context:
        return request
    said = request.system_message.content if request.system_message else ""
    if isinstance(said, str):
        content: Any = f"{said}\n\n{run.context}" if said else run.context
    else:
        content = [*said, {"type": "text", "text": run.context}]
    return request.override(system_message=SystemMessage(content))


def _note_response(run: Run | None, request: ModelRequest[Any], response: Any) -> None:
    if run is not None:
        replies = getattr(response, "result", None) or [response]
        tools = [_describe_tool(tool) for tool in request.tools]
        note_call(run, _since(request.messages), replies, tools=tools)


def _describe_tool(tool: Any) -> Any:
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # a tool that the provider runs itself, such as Gemini's {"google_search": {}}
        if isinstance(tool, Mapping):
            return tool if {"name", "type"} & tool.keys() else next(iter(tool), "")
        return str(getattr(tool, "name", type(tool).__name__))


def _failed(tool_call: Mapping[str, Any], error: BaseException) -> ToolMessage:
    text = f"{type(error).__name__}: {error}"
    return ToolMessage(text, tool_call_id=str(tool_call["id"]), name=tool_call["name"], status="error")
