"""Let an agent work on a task off the record: the loop of runs, on rows that are never stored.

What comes next `next_action` decides, as in a run, so that the same rules and limits hold. What the agent calls is
answered by a `Host`, which serves recorded answers or an environment of an evaluation. Tools in the sandbox run in it,
and what they ask goes to the same host. No executor of other tools is called: whatever the candidate wants, nothing can
leave. What the model reads is not shortened.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from reflection.jobs.execution import Heartbeat
from reflection.llm.base import estimate_tokens
from reflection.llm.budget import cost_usd
from reflection.llm.calls import RememberedChat
from reflection.llm.chat import ChatAnswer, ChatRequest, ChatTool, PromptMessage, stored_calls
from reflection.llm.turns import arrange
from runtime.context.prompt import asked_with, with_schema
from runtime.definitions.values import ToolDefinition
from runtime.endings import LOOKED_AT, NO_PROGRESS_NOTE, TOLD_AT, count_repeats, name_ending, room_for_answer
from runtime.errors import InvalidArguments
from runtime.limits import USUAL_OUTPUT_TOKENS, Limits, ModelSettings
from runtime.loop.actions import AskModel, ExecuteEffect, Finish, Note, Remind, next_action
from runtime.loop.journal import cut_result, find_refusal, hash_arguments, most_of_result
from runtime.loop.rows import REMINDER, RunRows, count_unreadable, write_call, write_step
from runtime.models.conversations import Message
from runtime.models.effects import Effect
from runtime.models.runs import Run, RunStatus, Step, StopReason
from runtime.models.tools import ToolKind, ToolRuntime
from runtime.rules import Called, needs_approval, read_rules
from runtime.sandbox import HostError, SandboxCall, SharedSeconds, run_tool
from runtime.sandbox.calls import read_limits
from runtime.schema import bind_arguments
from runtime.tools.catalogue import LoopTool

# Any moment will do if it is always the same: a tool that is run again then answers the same.
FROZEN_AT = datetime(2026, 1, 1, tzinfo=UTC)
Ask = Callable[[int, ChatRequest], ChatAnswer]
AskFor = Callable[[str], Ask]


class RefusedCall(Exception):
    """The host does not answer a call; the agent reads why, as of a tool that failed."""


class Answers(Protocol):
    """What answers the calls of a tool in the sandbox."""

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        """Return what a call returns, or raise RefusedCall."""
        ...


class Host(Answers, Protocol):
    """The world of a trial."""

    def note(self, tool: str, arguments: dict[str, Any], *, has_failed: bool) -> None:
        """Take note of a call of the agent that was carried out in the sandbox."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The agent of a trial. `sources` are its tools that run in the sandbox, `schemas` what those may call."""

    head: str
    tools: tuple[ChatTool, ...]
    sources: dict[str, ToolDefinition] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)
    rules: tuple[dict[str, Any], ...] = ()
    max_output_tokens: int = USUAL_OUTPUT_TOKENS
    temperature: float | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    window_tokens: int = 32_000
    limits: Limits = field(default_factory=Limits)
    provider: str = ""  # whose prices count

    def with_tools(self, definitions: Iterable[ToolDefinition], schemas: dict[str, Any]) -> "Subject":
        """Return it with more tools that run in the sandbox; each takes the place of one of its name."""
        more = {definition.name: definition for definition in definitions}
        kept = (tool for tool in self.tools if tool.name not in more)
        return replace(
            self,
            tools=(*kept, *map(for_model, more.values())),
            sources=self.sources | more,
            schemas=self.schemas | schemas,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """How a trial went. `failure` says why it ended without a reply, as in a run; `calls` are those of the model."""

    ended: bool
    failure: str
    reply: str
    steps: int
    tokens: int
    cost_usd: Decimal
    calls: tuple[Effect, ...]


def for_model(definition: ToolDefinition) -> ChatTool:
    """Return a tool as the model reads it."""
    parameters: dict[str, Any] = dict(definition.parameters)
    return ChatTool(name=definition.name, description=definition.description, parameters=parameters)


def name_answers(chat: RememberedChat, heartbeat: Heartbeat, prefix: str = "") -> AskFor:
    """Return what asks a model for each name of a trial; an answer is paid for once, by its name and step."""

    def ask_for(name: str) -> Ask:
        heartbeat.ensure_held()
        return lambda step, request: chat(f"{prefix}{name}:{step}", request)[0]

    return ask_for


def hold_trial(subject: Subject, said: Sequence[PromptMessage], ask: Ask, host: Host) -> Trial:
    """Let an agent answer the last of these messages.

    Args:
        ask: asks the model; it is given the number of the step.
    """
    head = PromptMessage(role="system", content=with_schema(subject.head, subject.model_settings))
    return _MemoryHost(subject, [head, *said], ask, host).work()


def run_source(
    definition: ToolDefinition,
    arguments: dict[str, Any],
    host: Answers,
    schemas: dict[str, Any],
    *,
    seconds: SharedSeconds | None = None,
) -> Any:
    """Run a tool in the sandbox and let the host answer what it calls.

    Args:
        seconds: what several calls may take together.

    Raises:
        RefusedCall: the tool failed; the message says why.
    """

    def function(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = bind_arguments(schemas[name], args, kwargs) if name in schemas else dict(kwargs)
                return host.answer(name, bound, by_tool=True)
            except (InvalidArguments, RefusedCall) as error:
                raise HostError(str(error)) from None

        return call

    limits = read_limits(definition.limits)
    call = SandboxCall(
        source=definition.source,
        function=definition.name,
        arguments=arguments,
        frozen_at=FROZEN_AT,
        seed="trial",
        limits=limits if seconds is None else seconds.limit(limits),
    )
    outcome = run_tool(call, {name: function(name) for name in definition.uses})
    if seconds is not None:
        seconds.spend(outcome)
    if outcome.fault is not None:
        raise RefusedCall(str(outcome.fault))
    return outcome.value


class _MemoryHost:
    """Carries out what `next_action` chooses, and keeps the rows that it looks at in memory."""

    def __init__(self, subject: Subject, messages: list[PromptMessage], ask: Ask, host: Host) -> None:
        self._subject, self._messages, self._ask, self._host = subject, messages, ask, host
        now, limits = datetime.now(UTC), subject.limits
        self._run = Run(
            status=RunStatus.RUNNING,
            prepared_at=now,
            started_at=now,
            max_steps=limits.max_steps,
            max_tokens=limits.max_tokens,
            max_cost_usd=limits.max_cost_usd,
            max_seconds=limits.max_seconds,
        )
        self._rules = tuple(read_rules(subject.rules))
        self._tools = {
            tool.name: LoopTool(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                # Nothing leaves, so no call needs the protocol of its kind.
                kind=ToolKind.PURE,
                execute=self._carry_out,
            )
            for tool in subject.tools
        }
        self._steps: list[Step] = []
        self._effects: list[Effect] = []
        self._answer: Message | None = None
        self._noted_at = 0
        self._is_reminded = False

    def work(self) -> Trial:
        while True:
            match next_action(self._read_rows()):
                case AskModel(more_room=more_room):
                    self._ask_model(more_room=more_room)
                case ExecuteEffect(effect=effect):
                    self._execute(effect)
                case Note(text=text):
                    self._note(text)
                case Remind(tool=tool):
                    self._is_reminded = True
                    self._note(f"{REMINDER} {tool}.")
                case Finish() as finish:
                    return self._end(finish)
                case action:
                    raise AssertionError(f"Nothing in memory leads to {action}.")

    def _read_rows(self) -> RunRows:
        rows = RunRows(
            run=self._run,
            open_effects=tuple(effect for effect in self._effects if effect.status in Effect.OPEN),
            rules=self._rules,
            now=datetime.now(UTC),
        )
        # As in `load_rows`: while calls are open, they alone decide what comes next.
        if rows.open_effects or not self._steps:
            return rows
        taken = [write_step(map(_write_call, self._calls_of(step))) for step in reversed(self._steps[-LOOKED_AT:])]
        return replace(
            rows,
            step=self._steps[-1],
            answer=self._answer,
            history=tuple(self._read_history()),
            noted_at=self._noted_at,
            is_reminded=self._is_reminded,
            endings=tuple(step.finish_reason for step in reversed(self._steps)),
            repeats=count_repeats(taken),
            unreadable=count_unreadable(taken),
        )

    def _calls_of(self, step: Step) -> list[Effect]:
        return [effect for effect in self._effects if effect.step is step]

    def _read_history(self) -> list[Called]:
        return [
            Called(
                tool=effect.tool,
                step=effect.step.seq,
                output=None if effect.status in Effect.OPEN else effect.result or effect.error,
            )
            for effect in self._effects
            if effect.status != Effect.Status.REFUSED
        ]

    def _ask_model(self, *, more_room: bool) -> None:
        run, subject = self._run, self._subject
        run.steps_taken += 1
        room = room_for_answer(subject.max_output_tokens, window_tokens=subject.window_tokens, more=more_room)
        request = ChatRequest(
            messages=(self._messages[0], *arrange(self._messages[1:])),
            tools=subject.tools,
            max_output_tokens=room,
            temperature=subject.temperature,
            **asked_with(subject.model_settings),
        )
        answer = self._ask(run.steps_taken, request)
        if answer.input_tokens + answer.output_tokens:
            run.input_tokens += answer.input_tokens
            run.output_tokens += answer.output_tokens
        else:  # a provider that counts nothing
            run.input_tokens += request.estimated_input_tokens
            run.output_tokens += estimate_tokens(answer.text)
        run.cost_usd += cost_usd(
            input_tokens=answer.input_tokens, output_tokens=answer.output_tokens, provider=subject.provider
        )
        ending = name_ending(answer, schema=subject.model_settings.output_schema)
        step = Step(seq=run.steps_taken, status=Step.Status.ANSWERED, finish_reason=ending)
        self._steps.append(step)
        self._messages.append(answer.message)
        # The number of a message is its place in the list, as it is for notes.
        self._answer = Message(seq=len(self._messages), content=answer.text, tool_calls=stored_calls(answer.tool_calls))
        for index, call in enumerate(answer.tool_calls):
            self._plan(step, index, tool=call.name, arguments=call.arguments, call_id=call.id)

    def _plan(self, step: Step, index: int, *, tool: str, arguments: dict[str, Any] | None, call_id: str) -> None:
        effect = Effect(
            step=step,
            index=index,
            tool=tool,
            call_id=call_id,
            arguments=arguments or {},
            arguments_sha256=hash_arguments(arguments or {}),
            kind=ToolKind.PURE,
        )
        history = self._read_history()
        refused = find_refusal(effect, self._tools.get(tool), arguments, rules=self._rules, history=history)
        self._effects.append(effect)
        if refused:
            self._finish(effect, Effect.Status.REFUSED, error=refused)

    def _execute(self, effect: Effect) -> None:
        try:
            value = self._tools[effect.tool].execute(effect)
        except RefusedCall as refusal:
            self._finish(effect, Effect.Status.FAILED, error=str(refusal) or "It failed.")
        else:
            result = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self._finish(effect, Effect.Status.SUCCEEDED, result=result)

    def _finish(self, effect: Effect, status: str, *, result: str = "", error: str = "") -> None:
        """Note how a call ended, and let the model read it."""
        effect.status, effect.result, effect.error = status, result, error
        text = result if status == Effect.Status.SUCCEEDED else f"Error: {error}"
        most = most_of_result(self._subject.window_tokens)
        if len(text) > most:
            text = cut_result(text, most, seq=len(self._messages) + 1)
        recent = (other for other in self._effects if other.step.seq > effect.step.seq - LOOKED_AT)
        if sum(_write_call(other) == _write_call(effect) for other in recent) == TOLD_AT:
            text += f"\n[{NO_PROGRESS_NOTE.format(times=TOLD_AT)}]"
        self._messages.append(PromptMessage(role="tool", content=text, tool_call_id=effect.call_id))

    def _note(self, text: str) -> None:
        self._messages.append(PromptMessage(role="user", content=text))
        self._noted_at = len(self._messages)

    def _end(self, finish: Finish) -> Trial:
        run, replies = self._run, finish.reason == StopReason.END_TURN
        return Trial(
            ended=finish.status == RunStatus.SUCCEEDED,
            failure=finish.error,
            reply=self._answer.content if replies and self._answer is not None else "",
            steps=run.steps_taken,
            tokens=run.tokens,
            cost_usd=run.cost_usd,
            calls=tuple(self._effects),
        )

    def _carry_out(self, effect: Effect) -> Any:
        tool, arguments = effect.tool, effect.arguments
        definition = self._subject.sources.get(tool)
        if definition is None or definition.runtime != ToolRuntime.MONTY:
            return self._host.answer(tool, arguments, by_tool=False)
        by_itself = definition.requires_approval
        if needs_approval(self._rules, tool=tool, arguments=arguments, by_itself=by_itself):
            # The answer is what the recorded run got when a person was asked.
            return self._host.answer(tool, arguments, by_tool=False)
        try:
            value = run_source(definition, arguments, self._host, self._subject.schemas)
        except RefusedCall:
            self._host.note(tool, arguments, has_failed=True)
            raise
        self._host.note(tool, arguments, has_failed=False)
        return value


def _write_call(effect: Effect) -> str:
    return write_call(effect.tool, effect.arguments_sha256, effect.status, effect.error, effect.result)
