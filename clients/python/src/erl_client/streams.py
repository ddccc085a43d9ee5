"""Watch the stream of an answer go by, and put the answer together from its events."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from erl_client.plain import as_plain


class Stream:
    """A stream of an SDK that reports what it had once: when it ends, is closed, or breaks off."""

    def __init__(self, stream: Any, report: Callable[["Stream"], None]) -> None:
        self._stream = stream
        self._report: Callable[[Stream], None] | None = report
        self._events: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def answer(self) -> dict[str, Any]:
        """Return the answer as far as it came, in the form of one that was not streamed."""
        return put_together([as_plain(event) for event in self._events])

    def end(self) -> None:
        report, self._report = self._report, None
        if report is not None:
            report(self)


class _SyncStream(Stream):
    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            event = next(self._stream)
        except BaseException:
            self.end()
            raise
        self._events.append(event)
        return event

    def __enter__(self) -> "_SyncStream":
        self._stream.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> Any:
        self.end()
        return self._stream.__exit__(*exc_info)

    def close(self) -> None:
        self.end()
        self._stream.close()


class _AsyncStream(Stream):
    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await self._stream.__anext__()
        except BaseException:
            self.end()
            raise
        self._events.append(event)
        return event

    async def __aenter__(self) -> "_AsyncStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> Any:
        self.end()
        return await self._stream.__aexit__(*exc_info)

    async def close(self) -> None:
        self.end()
        await self._stream.close()


class Manager:
    """What Anthropic's `messages.stream()` returns: a block around a stream, whose answer is reported at its end."""

    def __init__(self, manager: Any, report: Callable[[Any], None]) -> None:
        self._manager = manager
        self._report = report
        self._stream: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def __enter__(self) -> Any:
        self._stream = self._manager.__enter__()
        return self._stream

    def __exit__(self, *exc_info: Any) -> Any:
        self._end()
        return self._manager.__exit__(*exc_info)

    async def __aenter__(self) -> Any:
        self._stream = await self._manager.__aenter__()
        return self._stream

    async def __aexit__(self, *exc_info: Any) -> Any:
        self._end()
        return await self._manager.__aexit__(*exc_info)

    def _end(self) -> None:
        try:
            answer = self._stream.current_message_snapshot
        except (AttributeError, AssertionError):  # nothing has come yet
            answer = None
        self._report(answer)


def watch(stream: Any, report: Callable[[Stream], None]) -> Any:
    """Return a stream that gives the same events, and itself to `report` when it has ended."""
    if hasattr(stream, "__anext__"):
        return _AsyncStream(stream, report)
    if hasattr(stream, "__next__"):
        return _SyncStream(stream, report)
    return stream  # a raw response


def put_together(events: list[Any]) -> dict[str, Any]:
    """Return the answer that the events of a stream make: of OpenAI's chat or Responses, or of Anthropic's Messages."""
    answer: dict[str, Any] = {}
    for event in events:
        if not isinstance(event, dict):
            continue
        kind = event.get("type")
        if "choices" in event:
            _add_chunk(answer, event)
        elif isinstance(event.get("response"), dict):  # Responses: the last of them is whole
            answer = event["response"]
        elif kind == "message_start":
            answer = {**event["message"], "content": []}
        elif kind == "content_block_start":
            answer["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            _add_delta(answer["content"][-1], event["delta"])
        elif kind == "message_delta":
            answer["usage"] = {**answer.get("usage", {}), **event.get("usage", {})}
    for block in answer.get("content") or []:
        if isinstance(block, dict) and "partial_json" in block:
            block["input"] = block.pop("partial_json")
    return answer


def _add_chunk(answer: dict[str, Any], chunk: dict[str, Any]) -> None:
    answer["model"] = chunk.get("model") or answer.get("model", "")
    if chunk.get("usage"):
        answer["usage"] = chunk["usage"]
    choices = answer.setdefault("choices", [{"message": {"role": "assistant", "content": ""}}])
    message = choices[0]["message"]
    for choice in chunk["choices"]:
        if choice.get("index", 0):
            continue
        delta = choice.get("delta") or {}
        for name in ("content", "refusal", "reasoning_content"):
            if delta.get(name):
                message[name] = message.get(name, "") + delta[name]
        for part in delta.get("tool_calls") or []:
            calls = message.setdefault("tool_calls", [])
            while len(calls) <= part.get("index", 0):
                calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            call = calls[part.get("index", 0)]
            call["id"] = part.get("id") or call["id"]
            for name, text in (part.get("function") or {}).items():
                call["function"][name] = call["function"].get(name, "") + (text or "")


def _add_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta.get("type") == "input_json_delta":
        block["partial_json"] = block.get("partial_json", "") + delta.get("partial_json", "")
    else:
        for name in ("text", "thinking", "signature"):
            if name in delta:
                block[name] = block.get(name, "") + delta[name]
