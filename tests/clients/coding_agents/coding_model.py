"""A model for coding agents on loopback: it calls the agent's shell once, and then says that it is done.

It speaks the four wire formats that these agents use: Anthropic's Messages, OpenAI's Responses and chat completions,
and Google's `generateContent`, each as a stream.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.scripted_answers import Exchange, RecordedRequest, answer
from tests.scripted_streams import write_event, write_named_event

COMMAND = "echo round-half-up"
ANSWER = "Prices are rounded half up now."
_RESULT = re.compile(rb'"tool_result"|"function_call_output"|"functionResponse"|"role": ?"tool"')
_SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command")
_GOOGLE = re.compile(r":(?:stream)?[gG]enerateContent")


def play(exchange: Exchange) -> None:
    """Answer a request: with a call of the shell, with the answer after it, or with a word where there is no shell."""
    request = replace(exchange.request, path=exchange.request.path.partition("?")[0])
    exchange = Exchange(request, exchange.handler, exchange.stopping)
    call = None if _RESULT.search(request.data) else find_call(request.body)
    path = request.path
    if path.endswith(("/messages", "/chat/completions")):
        answer("" if call else ANSWER, *([call] if call else []))(exchange)
    elif path.endswith("/responses"):
        _stream(exchange, _responses_events(call))
    elif _GOOGLE.search(path):
        _answer_as_google(exchange, call)
    else:
        exchange.send(200, b'{"input_tokens": 10, "totalTokens": 10, "data": [], "models": []}')


def find_call(body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return a call of the shell among the tools of a request, None where there is none."""
    for tool in _tools(body):
        schema = tool.get("input_schema") or tool.get("parameters") or tool.get("parametersJsonSchema") or {}
        properties = schema.get("properties", {})
        word = next((name for name in ("command", "cmd") if name in properties), "")
        if tool.get("name") in _SHELLS and word:
            is_list = properties[word].get("type") == "array"
            arguments: dict[str, Any] = {word: ["bash", "-lc", COMMAND] if is_list else COMMAND}
            for name in schema.get("required", ()):
                kind = str(properties[name].get("type")).lower()
                arguments.setdefault(name, False if kind == "boolean" else "Round a price")
            return tool["name"], arguments
    return None


def said(request: RecordedRequest) -> str:
    """Return a request as text, whatever characters its JSON escapes."""
    return json.dumps(request.body, ensure_ascii=False)


def _tools(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tool in body.get("tools") or ():
        yield from tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function") or tool]


def _stream(exchange: Exchange, events: Iterator[str]) -> None:
    exchange.start_stream()
    for event in events:
        exchange.write_event(event)
    exchange.end_stream()


def _responses_events(call: tuple[str, dict[str, Any]] | None) -> Iterator[str]:
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    if call:
        name, arguments = call
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "status": "completed"}
        item["arguments"] = json.dumps(arguments)
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield write_named_event({"type": "response.created", "response": response})
    yield write_named_event({"type": "response.output_item.added", "output_index": 0, "item": item})
    yield write_named_event({"type": "response.output_item.done", "output_index": 0, "item": item})
    done = response | {"status": "completed", "output": [item], "usage": usage}
    yield write_named_event({"type": "response.completed", "response": done})


def _answer_as_google(exchange: Exchange, call: tuple[str, dict[str, Any]] | None) -> None:
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": ANSWER}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
    if "streamGenerateContent" in exchange.request.path:
        _stream(exchange, iter([write_event(body)]))
    else:
        exchange.send(200, json.dumps(body).encode())
