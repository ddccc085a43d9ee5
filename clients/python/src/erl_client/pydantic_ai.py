"""Lessons and records for agents of pydantic-ai.

agent = Agent(model, capabilities=[ERLCapability(erl, family="airline")])
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelRequest, ToolReturnPart

from erl_client.client import ERL, AsyncERL
from erl_client.frameworks import Framework, inside, note_call
from erl_client.runs import Run


@dataclass
class ERLCapability(AbstractCapability[Any]):
    """Adds lessons to the instructions of an agent, and records each of its runs.

    In the block of an open run the agent is part of that run, which may also say how it ended.
    """

    erl: ERL | AsyncERL
    family: str = ""
    agent: str = ""
    _run: Run | None = field(default=None, init=False, repr=False)
    _messages: list[Any] = field(default_factory=list, init=False, repr=False)
    _tools: Sequence[Any] = field(default=(), init=False, repr=False)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[Any]) -> "ERLCapability":
        return replace(self)

    def get_instructions(self) -> Any:
        def lessons() -> str:
            return self._run.context if self._run else ""

        return lessons

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        framework = Framework(erl=self.erl, family=self.family, agent=self.agent)
        self._run = run = await framework.begin_async(_task(ctx.prompt))
        try:
            with inside(run):
                result = await handler()
            self._messages = result.new_messages()
        except BaseException as error:
            self._end(framework, run, error)
            raise
        self._end(framework, run)
        return result

    async def after_model_request(self, ctx: RunContext[Any], *, request_context: Any, response: Any) -> Any:
        """Keep the messages of this run, not those of earlier ones that it goes on from."""
        messages = [*request_context.messages, response]
        self._messages = [message for message in messages if message.run_id in (ctx.run_id, None)]
        self._tools = request_context.model_request_parameters.function_tools
        return response

    async def on_tool_execute_error(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, error: Exception
    ) -> Any:
        text = f"{type(error).__name__}: {error}"
        failed = ToolReturnPart(call.tool_name, text, tool_call_id=call.tool_call_id, outcome="failed")
        self._messages = [*self._messages, ModelRequest([failed])]
        raise error

    def _end(self, framework: Framework, run: Run, error: BaseException | None = None) -> None:
        note_call(run, self._messages, [], tools=[_tool(tool) for tool in self._tools])
        framework.end(run, error)


def _task(prompt: Any) -> str:
    parts = [prompt] if isinstance(prompt, str) else prompt or ()
    return "\n".join(part for part in parts if isinstance(part, str))


def _tool(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
