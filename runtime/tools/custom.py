"""Carry out tools of the project: Python in the sandbox, and requests to services.

A tool in the sandbox reaches the world only by functions of its host, and each call of one is an effect of its own. At
such a call the tool stops, the call is journalled, decided and carried out like a call of the model, and then the tool
is run again from its start with the answers so far: its clock stands still and its random numbers are the same, so it
makes the same calls. Therefore it survives any restart between a question and its answer.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from runtime.errors import InvalidArguments, OutcomeUnknown, ToolError
from runtime.http_tools import RequestFailed, read_request, send_request
from runtime.models.effects import Effect, EffectStatus
from runtime.models.tools import ToolKind, ToolRuntime
from runtime.sandbox import HostError, SandboxCall, SandboxStatus, Suspend, ToolOutcome, read_limits, run_tool
from runtime.schema import bind_arguments

RESEND_AFTER_SECONDS = (0.5, 2.0)


class CallsHost(Exception):
    """A tool stopped at a call of its host that has not been answered yet."""

    def __init__(self, *, index: int, name: str, arguments: dict[str, Any]) -> None:
        super().__init__(name)
        self.index = index
        self.name = name
        self.arguments = arguments


def run_python(effect: Effect) -> Any:
    """Run a tool in the sandbox, up to its end or to the first call that has no answer.

    Raises:
        CallsHost: at such a call.
        ToolError: the tool failed; the message says why and in which line.
    """
    revision = effect.tool_revision
    if revision is None:
        raise ToolError("The tool no longer exists.")
    host = _Host(effect)
    call = SandboxCall(
        source=revision.source,
        function=effect.tool,
        arguments=effect.arguments,
        frozen_at=effect.created_at,
        seed=str(effect.pk),
        limits=read_limits(revision.limits),
        runtime=revision.runtime,
    )
    outcome = run_tool(call, host.functions(revision.uses))
    if outcome.status == SandboxStatus.SUSPENDED:
        assert host.waiting is not None  # only a call of the host suspends
        raise host.waiting
    if outcome.fault is not None:
        raise ToolError(_tell(str(outcome.fault), outcome))
    return outcome.value if not outcome.output else _tell(_write(outcome.value), outcome)


class _Host:
    """Answers the calls of one tool from the journal, and stops it at the first that is not there."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        answered = effect.children.exclude(status=EffectStatus.SUPERSEDED).select_related("replaces").order_by("index")
        self._answered = list(answered)
        self._made = 0
        self.waiting: CallsHost | None = None

    def functions(self, names: list[str]) -> Mapping[str, Callable[..., Any]]:
        return {name: self._function(name) for name in names}

    def _function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._answer(name, args, kwargs)

        call.__name__ = name
        return call

    def _answer(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A call with arguments that do not fit has no place in the journal.
        arguments = self._bind(name, args, kwargs)
        index, self._made = self._made, self._made + 1
        if index >= len(self._answered):
            self.waiting = CallsHost(index=index, name=name, arguments=arguments)
            raise Suspend
        child = self._answered[index]
        if (child.tool, _find_asked(child)) != (name, arguments):
            message = f"Run again, the tool called {name} instead of {child.tool}, or with other arguments"
            raise ToolError(f"{message}, so it cannot continue.")
        if child.status == EffectStatus.SUCCEEDED:
            return json.loads(child.result)
        raise HostError(child.error)

    def _bind(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name."""
        # Imported here, because the catalogue imports this module.
        from runtime.tools.catalogue import find_tool

        tool = find_tool(self._effect.run, name, parent=self._effect)
        if tool is None:
            return dict(kwargs)
        try:
            return bind_arguments(tool.parameters, args, kwargs)
        except InvalidArguments as error:
            raise HostError(str(error)) from None


def _find_asked(child: Effect) -> dict[str, Any]:
    """Return the arguments with which the tool made a call, before a person edited them."""
    while child.replaces is not None:
        child = child.replaces
    arguments: dict[str, Any] = child.arguments
    return arguments


def send(effect: Effect) -> Any:
    """Call a service. If it treats repetitions as one call, it is told the id of the effect.

    If it may be asked again and gives no answer, it is asked a few more times, under the same id.

    Raises:
        OutcomeUnknown: no answer came, the service may have acted, and it must not act twice.
        RequestFailed: it has not acted, or was asked again and gave no answer either.
    """
    revision = effect.tool_revision
    if revision is None:
        raise ToolError("The tool no longer exists.")
    request = read_request(revision.request, revision.parameters)
    key = str(effect.pk) if effect.kind == ToolKind.IDEMPOTENT else ""
    waits_seconds = [] if effect.kind == ToolKind.UNSAFE else list(RESEND_AFTER_SECONDS)
    while True:
        try:
            return send_request(request, revision.parameters, effect.arguments, idempotency_key=key).value
        except RequestFailed as error:
            if effect.kind == ToolKind.UNSAFE and not error.is_certain:
                raise OutcomeUnknown(str(error)) from error
            if not waits_seconds or not error.may_pass:
                raise
        time.sleep(waits_seconds.pop(0))


EXECUTORS: dict[str, Callable[[Effect], Any]] = {
    ToolRuntime.MONTY: run_python,
    ToolRuntime.PYTHON: run_python,
    ToolRuntime.HTTP: send,
}


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tell(text: str, outcome: ToolOutcome) -> str:
    return f"{text}\nIt printed:\n{outcome.output}" if outcome.output else text
