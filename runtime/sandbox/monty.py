"""Run a tool in the interpreter, and answer what it asks of the host."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from pydantic_monty import (
    FunctionSnapshot,
    MontyComplete,
    MontyConversionError,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
    OSPolicy,
    ResourceLimits,
    SyncSnapshot,
)

from runtime.sandbox.answers import Host, SandboxConversation, cut
from runtime.sandbox.calls import (
    BUSY,
    HostCall,
    SandboxAnswer,
    SandboxCall,
    SandboxError,
    SandboxLimits,
    SandboxStatus,
    ToolFault,
    ToolOutcome,
)
from runtime.sandbox.json_values import NotJson, to_json_value
from runtime.sandbox.workers import get_pool

_ARGUMENTS = "_erl_arguments"
_LIMIT_FAULTS = ("TimeoutError", "MemoryError", "RecursionError")
# Reading names and importing modules also count as suspensions; a tool may do this for every host call it may make.
_SUSPENSIONS_PER_HOST_CALL = 4


def run_in_monty(call: SandboxCall, host: Host, *, journal: Sequence[SandboxAnswer] = ()) -> ToolOutcome:
    """Call a function of a source in the interpreter; `run_tool` says how."""
    with _checkout(call) as session:
        run = _Run(call, host, journal)
        inputs = {_ARGUMENTS: dict(call.arguments)}
        code = f"{call.source}\n{call.function}(**{_ARGUMENTS})"
        return run.drive(lambda: session.feed_start(code, inputs=inputs, print_callback=run.take_output))


class _Run:
    """One call under way."""

    def __init__(self, call: SandboxCall, host: Host, journal: Sequence[SandboxAnswer]) -> None:
        self._call = call
        self._host = host
        self._conversation = SandboxConversation(call, host, journal)

    def take_output(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self._conversation.take_output(text)

    def drive(self, start: Callable[[], SyncSnapshot]) -> ToolOutcome:
        """Answer what the tool asks until it ends or waits."""
        started = time.perf_counter()
        waited = 0.0
        try:
            state = start()
            while not isinstance(state, MontyComplete):
                # The time that the host takes is not the tool's.
                asked = time.perf_counter()
                try:
                    settled = self._settle(state)
                finally:
                    waited += time.perf_counter() - asked
                if isinstance(settled, ToolOutcome):
                    return settled
                state = settled()
            value = to_json_value(state.output, chars=self._call.limits.output_chars)
            ended: dict[str, Any] = {"status": SandboxStatus.RETURNED, "value": value}
        except NotJson as error:
            ended = _failed(ToolFault(kind="TypeError", message=f"{self._call.function} cannot be answered: {error}."))
        except (MontyRuntimeError, MontySyntaxError) as error:
            ended = _failed(_read_fault(error, self._call))
        except MontyConversionError as error:
            ended = _failed(ToolFault(kind="TypeError", message=cut(str(error))))
        except MontyCrashedError as error:
            # Where a worker was killed at the hard limit, the tool is to blame and not the sandbox.
            if not error.timed_out:
                raise SandboxError(f"The sandbox crashed, and was replaced ({cut(str(error))}).") from error
            ended = _failed(_too_long(self._call.limits))
        except (TimeoutError, MontyError) as error:
            raise SandboxError(BUSY) from error
        spent = time.perf_counter() - started - waited
        return self._conversation.end(duration_ms=round(1000 * spent, 3), **ended)

    def _settle(self, state: SyncSnapshot) -> ToolOutcome | Callable[[], SyncSnapshot]:
        """Return how to go on from a question of the tool, or where it waits."""
        if isinstance(state, NameLookupSnapshot):
            function = self._host.get(state.variable_name)
            if state.object_id is None and function is not None:
                return lambda: state.resume(value=function)
            return state.resume_auto  # the name is unknown
        if not isinstance(state, FunctionSnapshot):
            raise SandboxError("The tool awaits something that the host does not offer.")
        if state.is_os_function:
            return state.resume_not_handled
        name = str(state.function_name)
        if state.object_id is not None or name not in self._host:
            fault = f"name {name!r} is not defined; a tool calls only what it lists in uses"
            return lambda: state.resume({"exc_type": "NameError", "message": fault})
        asked = _read_call(name, state, self._call.limits)
        answer = self._conversation.answer(asked)
        if answer is None:
            return self._conversation.end(SandboxStatus.SUSPENDED, pending=asked)
        return lambda: state.resume(_as_result(answer))


@contextmanager
def _checkout(call: SandboxCall) -> Iterator[MontySession]:
    """Give the block a worker of its own, or raise SandboxError where none becomes free in time."""
    limits = call.limits
    allowed: ResourceLimits = {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": limits.host_calls * _SUSPENSIONS_PER_HOST_CALL + 50,
        "max_total_sleep_secs": 0.0,
    }
    policy: OSPolicy = {"datetime": call.frozen_at, "sleep": "zero", "random_start": {"seed": call.seed}}
    checkout = get_pool().checkout(script_name=f"{call.function}.py", limits=allowed, os_policy=policy)
    with ExitStack() as stack:
        try:
            session = stack.enter_context(checkout)
        except TimeoutError as error:
            raise SandboxError(BUSY) from error
        yield session


def _read_call(name: str, state: FunctionSnapshot, limits: SandboxLimits) -> HostCall:
    args, kwargs = to_json_value([list(state.args), dict(state.kwargs)], chars=limits.output_chars)
    return HostCall(name=name, args=args, kwargs=kwargs)


def _as_result(answer: SandboxAnswer) -> Any:
    if answer.error:
        return {"exc_type": "RuntimeError", "message": answer.error}
    return {"return_value": answer.value}


def _read_fault(error: MontyRuntimeError | MontySyntaxError, call: SandboxCall) -> ToolFault:
    kind, _, message = error.display("type-msg").partition(": ")
    if kind == "TimeoutError" and "time limit exceeded" in message:
        return _too_long(call.limits)
    # The call that was appended to the source is no line of the tool.
    lines = call.source.count("\n") + 1
    line = next((frame.line for frame in reversed(error.traceback()) if frame.line <= lines), None)
    return ToolFault(kind=kind, message=cut(message), line=line)


def _too_long(limits: SandboxLimits) -> ToolFault:
    return ToolFault(kind="TimeoutError", message=f"The tool ran for more than {limits.seconds:g} seconds.")


def _failed(fault: ToolFault) -> dict[str, Any]:
    return {"status": SandboxStatus.STOPPED if fault.kind in _LIMIT_FAULTS else SandboxStatus.RAISED, "fault": fault}
