"""Capture the calls that a client of OpenAI or Anthropic makes inside an open run, without importing either."""

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from erl_client.calls import ModelCall
from erl_client.plain import as_plain
from erl_client.runs import Run, current_run
from erl_client.streams import Manager, Stream, watch

log = logging.getLogger("erl_client")

_CAPTURED = "_erl_captured"
METHODS = (
    "chat.completions.create",
    "chat.completions.parse",
    "responses.create",
    "responses.parse",
    "messages.create",
    "messages.parse",
    "beta.messages.create",
    "beta.messages.parse",
)


STREAMING_METHODS = ("messages.stream", "beta.messages.stream")  # OpenAI's call `create`


def capture_calls(client: Any) -> None:
    """Replace the methods of a client that call a model by ones that also take notes. Once is enough.

    Raises TypeError where the client has none of them.
    """
    found = False
    for path in (*METHODS, *STREAMING_METHODS):
        *places, name = path.split(".")
        resource = client
        for place in places:
            resource = getattr(resource, place, None)
        original = getattr(resource, name, None)
        if callable(original):
            found = True
            if not hasattr(original, _CAPTURED):
                capture = _capturing_stream if path in STREAMING_METHODS else _capturing
                setattr(resource, name, capture(original))
    if not found:
        raise TypeError("It has neither chat.completions, responses nor messages.")


def _capturing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        run = current_run()
        if run is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            _note(run, kwargs, error=error)
            raise
        if inspect.isawaitable(result):
            return _awaited(run, kwargs, result)
        return _taken(run, kwargs, result)

    setattr(call, _CAPTURED, True)
    return call


def _capturing_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        run = current_run()
        manager = original(*args, **kwargs)
        if run is None:
            return manager
        return Manager(manager, lambda answer: _note(run, kwargs, answer=answer))

    setattr(call, _CAPTURED, True)
    return call


async def _awaited(run: Run, request: Mapping[str, Any], result: Any) -> Any:
    try:
        answer = await result
    except Exception as error:
        _note(run, request, error=error)
        raise
    return _taken(run, request, answer)


def _taken(run: Run, request: Mapping[str, Any], result: Any) -> Any:
    if request.get("stream") is True:
        return watch(result, lambda stream: _note(run, request, answer=stream))
    _note(run, request, answer=result)
    return result


def _note(run: Run, request: Mapping[str, Any], *, answer: Any = None, error: Exception | None = None) -> None:
    """Add a call to its run. Never raises: the agent gets its answer whatever it looks like."""
    try:
        run.calls.add(_read_call(request, answer, error))
    except Exception:
        log.debug("A call was not captured.", exc_info=True)


def _read_call(request: Mapping[str, Any], answer: Any, error: Exception | None) -> ModelCall:
    said = request.get("messages", request.get("input", []))
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else as_plain(list(said))
    # Anthropic and the Responses API have the system prompt beside the messages.
    if told := request.get("system") or request.get("instructions"):
        messages = [{"role": "system", "content": as_plain(told)}, *messages]
    tools = request.get("tools")
    call = ModelCall(
        request=messages,
        model=str(request.get("model", "")),
        tools=as_plain(list(tools)) if isinstance(tools, list | tuple) else [],
    )
    if error is not None:
        call.error = f"{type(error).__name__}: {error}"
        return call
    if isinstance(answer, Stream):
        answer = answer.answer()
    elif hasattr(answer, "http_response") and callable(getattr(answer, "parse", None)):  # with_raw_response
        answer = answer.parse()
    reply = as_plain(answer)
    if not isinstance(reply, dict):
        return call
    if isinstance(reply.get("choices"), list):
        call.reply = [choice["message"] for choice in reply["choices"][:1] if "message" in choice]
    elif isinstance(reply.get("output"), list):
        call.reply = reply["output"]
    elif "content" in reply:
        call.reply = [{"role": "assistant", "content": reply["content"]}]
    call.model = str(reply.get("model") or call.model)
    call.tokens = _tokens(reply.get("usage"))
    return call


def _tokens(usage: Any) -> int:
    if not isinstance(usage, Mapping):
        return 0
    if isinstance(usage.get("total_tokens"), int):
        return int(usage["total_tokens"])
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(value for name in names if isinstance(value := usage.get(name), int))
