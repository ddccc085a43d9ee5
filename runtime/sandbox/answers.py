"""Answer what a tool asks of its host, from the journal first, and keep what it prints; the same for every runtime."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.sandbox.calls import (
    HostCall,
    HostError,
    SandboxAnswer,
    SandboxCall,
    SandboxError,
    SandboxStatus,
    Suspend,
    ToolOutcome,
)

Host = Mapping[str, Callable[..., Any]]
MAX_FAULT_CHARS = 2_000


class SandboxConversation:
    """What one tool and its host say to each other."""

    def __init__(self, call: SandboxCall, host: Host, journal: Sequence[SandboxAnswer]) -> None:
        self._limits = call.limits
        self._host = host
        self._replayed = list(journal)
        self._answered: list[SandboxAnswer] = []
        self._output: list[str] = []
        self._output_left = call.limits.output_chars
        self._output_is_cut = False

    def take_output(self, text: str) -> None:
        """Keep what the tool prints, up to the limit."""
        kept = text[: self._output_left]
        self._output_left -= len(kept)
        self._output_is_cut |= len(kept) < len(text)
        if kept:
            self._output.append(kept.replace("\x00", "\N{REPLACEMENT CHARACTER}"))

    def answer(self, call: HostCall) -> SandboxAnswer | None:
        """Ask the journal, then the host. None where the tool has to wait for the answer."""
        answer = self._find_answer(call)
        if answer is not None:
            self._answered.append(answer)
        return answer

    def end(self, status: SandboxStatus, **members: Any) -> ToolOutcome:
        """Return how the call ended."""
        return ToolOutcome(
            status=status,
            output="".join(self._output),
            output_is_cut=self._output_is_cut,
            journal=tuple(self._answered),
            **members,
        )

    def _find_answer(self, call: HostCall) -> SandboxAnswer | None:
        if self._replayed:
            answer = self._replayed.pop(0)
            if _write(answer.call) != _write(call):
                raise SandboxError(
                    f"Run again, the tool called {call.name} instead of {answer.call.name}, or with other arguments, "
                    "so it cannot be replayed."
                )
            return answer
        if len(self._answered) >= self._limits.host_calls:
            return SandboxAnswer(call=call, error=f"The tool made more than {self._limits.host_calls} calls.")
        try:
            value = self._host[call.name](*call.args, **call.kwargs)
        except Suspend:
            return None
        except HostError as error:
            return SandboxAnswer(call=call, error=cut(str(error)) or "It failed.")
        return SandboxAnswer(call=call, value=value)


def cut(text: str) -> str:
    """Shorten a message of a fault."""
    return text[:MAX_FAULT_CHARS].replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _write(call: HostCall) -> str:
    return json.dumps([call.name, list(call.args), dict(call.kwargs)], sort_keys=True)
