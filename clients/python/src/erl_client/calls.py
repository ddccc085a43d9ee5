"""What the calls of language models in one run said, put together to one log.

Agents send the whole conversation with each call: a call that continues an earlier one takes its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

_NOT_COMPARED = ("system", "developer")


@dataclass(kw_only=True, slots=True)
class ModelCall:
    """One call as plain JSON. `error` says why there is no reply."""

    request: list[Any]
    reply: list[Any] = field(default_factory=list)
    error: str = ""
    model: str = ""
    tools: list[Any] = field(default_factory=list)
    tokens: int = 0


@dataclass(slots=True)
class _Conversation:
    call: ModelCall
    start: int  # messages before that one are in an earlier conversation


class CallLog:
    """The calls of one run. May be added to by several threads."""

    def __init__(self) -> None:
        self._conversations: list[_Conversation] = []
        self._adding = Lock()
        self.tokens = 0
        self.model = ""
        self.tools: list[Any] = []
        self.instructions: list[Any] = []  # the system messages of the first call that has any

    def add(self, call: ModelCall) -> None:
        told = [message for message in call.request if _is_instruction(message)]
        request = [message for message in call.request if not _is_instruction(message)]
        call = replace(call, request=request)
        with self._adding:
            self.tokens += call.tokens
            self.instructions = self.instructions or told
            self.model = call.model or self.model
            self.tools += [tool for tool in call.tools if tool not in self.tools]
            best, common = None, 0
            for conversation in self._conversations:
                length = _common(conversation.call.request, request)
                if length >= common:
                    best, common = conversation, length
            continues = best is not None and 0 < common == len(best.call.request)
            if best is not None and continues and (len(request) > common or best.call.error):
                best.call = call
            else:
                self._conversations.append(_Conversation(call=call, start=common if best else 0))

    def messages(self) -> list[Any]:
        """Return all that was said, in order."""
        said: list[Any] = []
        for conversation in self._conversations:
            said += [*conversation.call.request[conversation.start :], *conversation.call.reply]
        return said

    def errors(self) -> list[str]:
        """Return why calls failed, where the agent did not ask again."""
        return [conversation.call.error for conversation in self._conversations if conversation.call.error]


def _is_instruction(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in _NOT_COMPARED


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many messages two logs begin with in common."""
    length = 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        length += 1
    return length
