"""Let an agent work on a task off the record: the loop without journal, executors or network.

What the agent calls is answered by a `Host`, which serves recorded answers or an environment of an evaluation. Tools in
the sandbox run in it, and what they ask goes to the same host. No row is written, and no module that sends anything is
imported here: whatever the candidate wants, nothing can leave.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import takewhile
from typing import Any, Protocol

from reflection.llm.base import estimate_tokens
from reflection.llm.budget import cost_usd
from reflection.llm.chat import ChatAnswer, ChatMessage, ChatRequest, ChatTool
from runtime.context.prompt import asked_with, with_schema
from runtime.definitions.values import ToolDefinition
from runtime.endings import (
    NO_PROGRESS_NOTE,
    NOTES,
    TOLD_AT,
    Ending,
    Failure,
    count_repeats,
    find_failure,
    find_spent,
    find_stuck,
    is_unfinished,
    name_ending,
    room_for_answer,
    without_tool,
)
from runtime.errors import InvalidArguments
from runtime.limits import USUAL_OUTPUT_TOKENS, Limits, ModelSettings
from runtime.models.tools import ToolRuntime
from runtime.rules import Called, ends_run, find_missing, goes_on, needs_approval, read_rules, refuse_call
from runtime.sandbox import HostError, SharedSeconds, ToolCall, run_tool
from runtime.sandbox.calls import read_limits
from runtime.schema import bind_arguments, check_arguments

FROZEN_AT = datetime(2026, 1, 1, tzinfo=UTC)
MAX_RESULT_CHARACTERS = 50_000
_UNREADABLE = "unreadable"
Ask = Callable[[int, ChatRequest], ChatAnswer]


class Refused(Exception):
    """The host does not answer a call; the agent reads why, as of a tool that failed."""


class Answers(Protocol):
    """What answers the calls of a tool in the sandbox."""

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        """Return what a call returns, or raise Refused."""
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


@dataclass(kw_only=True, slots=True)
class Made:
    """A call of a trial."""

    tool: str
    arguments: dict[str, Any]
    result: str = ""
    error: str = ""
    by_tool: bool = False


@dataclass(kw_only=True, slots=True)
class Trial:
    """How a trial went. `failure` says why it ended without a reply, as in a run."""

    ended: bool = False
    failure: str = ""
    reply: str = ""
    steps: int = 0
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    calls: list[Made] = field(default_factory=list)


def hold_trial(subject: Subject, said: Sequence[ChatMessage], ask: Ask, host: Host) -> Trial:
    """Let an agent answer the last of these messages.

    Args:
        ask: asks the model; it is given the number of the step.
    """
    head = ChatMessage(role="system", content=with_schema(subject.head, subject.model_settings))
    return _Running(subject, ask, host).work([head, *said])


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
        Refused: the tool failed; the message says why.
    """

    def function(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = bind_arguments(schemas[name], args, kwargs) if name in schemas else dict(kwargs)
                return host.answer(name, bound, by_tool=True)
            except (InvalidArguments, Refused) as error:
                raise HostError(str(error)) from None

        return call

    limits = read_limits(definition.limits)
    call = ToolCall(
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
        raise Refused(str(outcome.fault))
    return outcome.value


class _Running:
    def __init__(self, subject: Subject, ask: Ask, host: Host) -> None:
        self._subject, self._ask, self._host = subject, ask, host
        self._rules = read_rules(subject.rules)
        self._schemas = {tool.name: tool.parameters for tool in subject.tools}
        self._history: list[Called] = []
        self._taken: list[str] = []  # what each step called and what came of it, the newest first
        self._trial = Trial()
        self._started_at = time.monotonic()

    def work(self, messages: list[ChatMessage]) -> Trial:
        trial, reminded, endings = self._trial, False, [""]
        while True:
            if spent := self._find_spent():
                trial.failure = spent.error
                return trial
            trial.steps += 1
            answer = self._ask_model(messages, more_room=endings[0] == Ending.CUT)
            messages.append(answer.message)
            endings.insert(0, name_ending(answer, schema=self._subject.model_settings.output_schema))
            if failure := find_failure(endings, calls=bool(answer.tool_calls)):
                trial.failure = failure.error
                return trial
            if answer.tool_calls:
                messages.extend(self._carry_out_all(answer))
                if ends_run(self._rules, [each.tool for each in self._history if each.step == trial.steps]):
                    trial.ended = True
                if trial.ended or trial.failure:
                    return trial
                continue
            self._taken.insert(0, "")
            if is_unfinished(endings[0]):
                if note := NOTES.get(Ending(endings[0])):
                    messages.append(ChatMessage(role="user", content=note))
                continue
            last = self._history[-1] if self._history else None
            if last is not None and last.step == trial.steps - 1 and goes_on(self._rules, last.tool):
                continue
            missing = find_missing(self._rules, self._history)
            if not missing:
                trial.ended, trial.reply = True, answer.text
                return trial
            if reminded:
                trial.failure = without_tool(missing[0]).error
                return trial
            reminded = True
            messages.append(ChatMessage(role="user", content=f"Before you finish, call {missing[0]}."))

    def _carry_out_all(self, answer: ChatAnswer) -> list[ChatMessage]:
        """Make the calls of an answer and return their results; note where the same comes of the same again."""
        results, lines = [], []
        for call in answer.tool_calls:
            made = self._call(call.name, call.arguments)
            text = made.result if not made.error else f"Error: {made.error}"
            results.append(ChatMessage(role="tool", content=text, tool_call_id=call.id))
            lines.append(_UNREADABLE if call.arguments is None else f"{call.name} {call.sent_arguments} {text}")
        self._taken.insert(0, " | ".join(lines))
        repeats = count_repeats(self._taken)
        unreadable = sum(1 for _ in takewhile(lambda step: step == _UNREADABLE, self._taken))
        if repeats == TOLD_AT:
            told = f"{results[-1].content}\n[{NO_PROGRESS_NOTE.format(times=TOLD_AT)}]"
            results[-1] = replace(results[-1], content=told)
        if stuck := find_stuck(unreadable=unreadable, repeats=repeats):
            self._trial.failure = stuck.error
        return results

    def _find_spent(self) -> Failure | None:
        trial = self._trial
        seconds = time.monotonic() - self._started_at
        return find_spent(
            self._subject.limits, steps=trial.steps, tokens=trial.tokens, cost_usd=trial.cost_usd, seconds=seconds
        )

    def _ask_model(self, messages: list[ChatMessage], *, more_room: bool) -> ChatAnswer:
        usual = self._subject.max_output_tokens
        request = ChatRequest(
            messages=tuple(messages),
            tools=self._subject.tools,
            max_output_tokens=room_for_answer(usual, window_tokens=self._subject.window_tokens, more=more_room),
            temperature=self._subject.temperature,
            **asked_with(self._subject.model_settings),
        )
        answer = self._ask(self._trial.steps, request)
        used = answer.input_tokens + answer.output_tokens
        self._trial.tokens += used or request.estimated_input_tokens + estimate_tokens(answer.text)
        self._trial.cost_usd += cost_usd(
            input_tokens=answer.input_tokens, output_tokens=answer.output_tokens, provider=self._subject.provider
        )
        return answer

    def _call(self, tool: str, arguments: dict[str, Any] | None) -> Made:
        made = Made(tool=tool, arguments=arguments or {})
        self._trial.calls.append(made)
        try:
            if refused := refuse_call(self._rules, self._history, tool=tool, step=self._trial.steps):
                raise Refused(refused)
            self._check(tool, arguments)
            self._history.append(Called(tool=tool, step=self._trial.steps))
            made.result = _write(self._carry_out(tool, made.arguments))[:MAX_RESULT_CHARACTERS]
        except Refused as refusal:
            made.error = str(refusal) or "It failed."
        if self._history and self._history[-1].output is None:
            self._history[-1] = Called(tool=tool, step=self._trial.steps, output=made.result or made.error)
        return made

    def _check(self, tool: str, arguments: dict[str, Any] | None) -> None:
        if tool not in self._schemas:
            raise Refused(f"There is no tool {tool!r}.")
        if arguments is None:
            raise Refused("The arguments are not a JSON object. Call the tool again with a JSON object.")
        try:
            check_arguments(self._schemas[tool], arguments)
        except InvalidArguments as error:
            raise Refused(str(error)) from None

    def _carry_out(self, tool: str, arguments: dict[str, Any]) -> Any:
        definition = self._subject.sources.get(tool)
        if definition is None or definition.runtime != ToolRuntime.MONTY:
            return self._host.answer(tool, arguments, by_tool=False)
        by_itself = definition.requires_approval
        if needs_approval(self._rules, tool=tool, arguments=arguments, by_itself=by_itself):
            # The answer is what the recorded run got when a person was asked.
            return self._host.answer(tool, arguments, by_tool=False)
        try:
            value = run_source(definition, arguments, _Noting(self._host, self._trial), self._subject.schemas)
        except Refused:
            self._host.note(tool, arguments, has_failed=True)
            raise
        self._host.note(tool, arguments, has_failed=False)
        return value


class _Noting:
    """Writes down what a tool in the sandbox calls."""

    def __init__(self, host: Host, trial: Trial) -> None:
        self._host, self._trial = host, trial

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        made = Made(tool=tool, arguments=arguments, by_tool=True)
        self._trial.calls.append(made)
        try:
            value = self._host.answer(tool, arguments, by_tool=True)
        except Refused as refusal:
            made.error = str(refusal)
            raise
        made.result = _write(value)
        return value


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
