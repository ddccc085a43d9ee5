"""What the scripted provider can do with a request: answer, fail, drip, hang up."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import islice
from threading import Event
from typing import Any

from tests.scripted_streams import anthropic_events, openai_events, write_event, write_named_event

MODEL = "scripted-1"
ANTHROPIC_REASONS = {"stop": "end_turn", "length": "max_tokens"}


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """What the provider was sent. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    data: bytes = b""

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def user_text(self) -> str:
        content: str | list[dict[str, Any]] = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@dataclass
class Exchange:
    """One request being answered."""

    request: RecordedRequest
    handler: BaseHTTPRequestHandler
    stopping: Event

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_head(status, {"Content-Length": str(len(body)), **(headers or {})})
        self.handler.wfile.write(body)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        self.handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.flush()

    def start_stream(self) -> None:
        self.send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def write_event(self, event: str) -> None:
        data = event.encode()
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()

    def end_stream(self) -> None:
        self.handler.wfile.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Drop the connection with a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.handler.connection.close()
        self.handler.close_connection = True


Behaviour = Callable[[Exchange], None]


def lesson(**overrides: Any) -> dict[str, Any]:
    """Return the object the reflection prompt asks for."""
    return {
        "learn": True,
        "skip_reason": "",
        "title": "Look the reservation up first",
        "analysis": "The agent changed a flight before it knew the fare class.",
        "trigger": "When a customer asks to change a flight",
        "action": "Call get_reservation_details first and read the cabin before calling update_reservation_flights.",
        "avoid": "",
        "not_when": "The reservation was already read in this conversation.",
        "polarity": "failure",
        "task_type": "flight change",
        "tools": ["get_reservation_details", "update_reservation_flights"],
        "evidence_steps": [1, 2],
        "confidence": 0.8,
        "covers_existing": None,
    } | overrides


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the model says, in no format yet. A call is the name of a tool and its arguments."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    finish: str = "stop"
    input_tokens: int = 1200
    output_tokens: int = 90
    refusal: str | None = None


def answer(content: str | dict[str, Any] = "", *calls: tuple[str, dict[str, Any]], **said: Any) -> Behaviour:
    """Answer with a text, or an object as JSON, and calls of tools; as a stream where one is asked for.

    `finish` is "stop", "length" or "refusal".
    """
    what = Said(text=content if isinstance(content, str) else json.dumps(content), calls=calls, **said)

    def play(exchange: Exchange) -> None:
        if exchange.request.body.get("stream"):
            exchange.start_stream()
            for event in events_of(exchange.request, what):
                exchange.write_event(event)
            exchange.end_stream()
        else:
            exchange.send(200, json.dumps(body_of(exchange.request, what)).encode())

    return play


def body_of(request: RecordedRequest, said: Said) -> dict[str, Any]:
    """Return an answer in the format of the request. The ids of calls are those of the format, and stay the same."""
    turn = len(request.body.get("messages", ()))
    if request.is_anthropic:
        texts = [{"type": "text", "text": said.text}] if said.text else []
        calls = [
            {"type": "tool_use", "id": f"toolu_{turn}_{index}", "name": name, "input": arguments}
            for index, (name, arguments) in enumerate(said.calls)
        ]
        reason = "tool_use" if calls and said.finish == "stop" else ANTHROPIC_REASONS.get(said.finish, said.finish)
        return {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [*texts, *calls],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens},
        }
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None, "refusal": said.refusal}
    if said.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{turn}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(said.calls)
        ]
    reason = "tool_calls" if said.calls and said.finish == "stop" else said.finish
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": {"refusal": "content_filter"}.get(reason, reason),
        "logprobs": None,
    }
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1764000000,
        "model": MODEL,
        "choices": [choice],
        "usage": {
            "prompt_tokens": said.input_tokens,
            "completion_tokens": said.output_tokens,
            "total_tokens": said.input_tokens + said.output_tokens,
        },
    }


def events_of(request: RecordedRequest, said: Said) -> Iterator[str]:
    """Return the events of an answer in the format of the request."""
    body = body_of(request, said)
    if request.is_anthropic:
        return anthropic_events(body)
    with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    return openai_events(body, with_usage=with_usage)


def cut_off() -> Behaviour:
    """Answer JSON that the token limit cut off."""
    return answer('{"learn": true, "skip_reason": "", "trigger": "When a cust', finish="length")


def prose() -> Behaviour:
    """Answer in prose where JSON was asked for."""
    return answer("Sure! The agent should have looked the reservation up before changing it.")


def empty() -> Behaviour:
    """Answer nothing."""
    return answer("")


def refuses() -> Behaviour:
    """Refuse, in the way of each format."""

    def play(exchange: Exchange) -> None:
        if exchange.request.is_anthropic:
            answer("", finish="refusal")(exchange)
        else:
            answer("", refusal="I can't help with that.")(exchange)

    return play


def nul() -> Behaviour:
    """Answer a text that PostgreSQL cannot store."""
    return answer("a\x00b\ud800c")


def fails(
    status: int,
    *,
    kind: str = "",
    message: str = "It failed.",
    param: str | None = None,
    retry_after: str | None = None,
    headers: dict[str, str] | None = None,
) -> Behaviour:
    """Answer an error in the format's own envelope."""

    def play(exchange: Exchange) -> None:
        error = {"type": kind or "error", "message": message}
        if exchange.request.is_anthropic:
            body: dict[str, Any] = {"type": "error", "error": error, "request_id": "req_scripted"}
        else:
            body = {"error": {**error, "code": kind or None, "param": param}}
        extra = {"Retry-After": retry_after} if retry_after is not None else {}
        exchange.send(status, json.dumps(body).encode(), {**extra, **(headers or {})})

    return play


def raw(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Behaviour:
    """Answer these bytes."""
    return lambda exchange: exchange.send(status, body, headers)


def redirects(location: str) -> Behaviour:
    """Send the client elsewhere."""
    return raw(b"{}", status=302, headers={"Location": location})


def silence(seconds: float = 60.0) -> Behaviour:
    """Take the request and say nothing."""
    return lambda exchange: _hang_up_after(exchange, seconds)


def drips(*, every_seconds: float = 0.1) -> Behaviour:
    """Send one byte of the answer at a time, for ever."""

    def play(exchange: Exchange) -> None:
        exchange.send_head(200, {"Content-Length": "1000000"})
        try:
            while not exchange.stopping.wait(every_seconds):
                exchange.handler.wfile.write(b" ")
        except OSError:
            exchange.handler.close_connection = True

    return play


def resets() -> Behaviour:
    """Reset the connection instead of answering."""
    return Exchange.reset


def resets_mid_body() -> Behaviour:
    """Reset the connection when half of the answer is out."""

    def play(exchange: Exchange) -> None:
        exchange.send_head(200, {"Content-Length": "1000"})
        exchange.handler.wfile.write(b'{"choices": [')
        exchange.handler.wfile.flush()
        exchange.reset()

    return play


# ── Streams that break ────────────────────────────────────────────────────────────────────────────────────────────
def begins(then: Behaviour, *, events: int = 5) -> Behaviour:
    """Send the first events of an answer, and then something else."""

    def play(exchange: Exchange) -> None:
        exchange.start_stream()
        for event in islice(events_of(exchange.request, Said(text="Hello, how are you?")), events):
            exchange.write_event(event)
        then(exchange)

    return play


def ends() -> Behaviour:
    """End the stream, as if all had been said."""
    return Exchange.end_stream


def breaks(kind: str, *, message: str = "It failed.") -> Behaviour:
    """Send an error as an event of the format, and end."""

    def play(exchange: Exchange) -> None:
        error = {"type": kind, "message": message}
        body = {"type": "error", "error": error}
        exchange.write_event(
            write_named_event(body) if exchange.request.is_anthropic else write_event({"error": error})
        )
        exchange.end_stream()

    return play


def says(*events: str, pause_seconds: float = 0.0, then: Behaviour = Exchange.end_stream) -> Behaviour:
    """Send these characters, and end."""

    def play(exchange: Exchange) -> None:
        for event in events:
            exchange.write_event(event)
            exchange.stopping.wait(pause_seconds)
        then(exchange)

    return play


def chunks(*deltas: dict[str, Any], finish: str | None = "stop") -> Behaviour:
    """Answer with a stream of OpenAI's chunks that have these deltas."""
    choices = [{"index": 0, "delta": delta} for delta in deltas] + [{"index": 0, "delta": {}, "finish_reason": finish}]
    return begins(says(*(write_event({"choices": [choice]}) for choice in choices), "data: [DONE]\n\n"), events=0)


@dataclass
class Flood:
    """Answer without end; `sent_bytes` says how much the client took before it hung up."""

    content_type: str = "application/json"
    sent_bytes: int = 0
    ended: Event = field(default_factory=Event)

    def __call__(self, exchange: Exchange) -> None:
        exchange.send_head(200, {"Content-Type": self.content_type, "Transfer-Encoding": "chunked"})
        chunk = b"x" * 65536
        try:
            while not exchange.stopping.is_set():
                exchange.handler.wfile.write(b"10000\r\n" + chunk + b"\r\n")
                self.sent_bytes += len(chunk)
        except OSError:
            exchange.handler.close_connection = True
        self.ended.set()


def _hang_up_after(exchange: Exchange, seconds: float) -> None:
    exchange.stopping.wait(seconds)
    exchange.handler.close_connection = True
