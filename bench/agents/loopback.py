"""A server on loopback that is everything outside of ERL: the language model, which follows plans, and the services."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Protocol, Self

Service = Callable[[str, dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of a tool that the model wants, with arguments or with words that are none."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)

    @property
    def words(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """An answer of the model."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class Policy(Protocol):
    """Answers for a model: a function of the request, so that the same request always has the same answer."""

    def answer(self, request: dict[str, Any]) -> Said: ...


class Loopback:
    """Chat completions under /v1, by the policy of the model's name; services under /services, by their name.

    With `keep` every request to the model is kept as the bytes that came.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.policies: dict[str, Policy] = {}
        self.services: dict[str, Service] = {}
        self.received: dict[str, list[bytes]] = defaultdict(list)  # by model
        self.keep = keep
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        # Connections that stay open would otherwise keep the process alive.
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def chat(self, data: bytes) -> dict[str, Any]:
        request = json.loads(data)
        if self.keep:
            self.received[request["model"]].append(data)
        answer = self.policies[request["model"]].answer(request)
        return _completion(request["model"], answer, read=len(data))


def _completion(model: str, said: Said, *, read: int) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.words},
        }
        for call in said.calls
    ]
    message = {"role": "assistant", "content": said.text} | ({"tool_calls": calls} if calls else {})
    return {
        "id": "c",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        # Four bytes a token, as estimates of English text go.
        "usage": {"prompt_tokens": read // 4, "completion_tokens": 1 + len(json.dumps(message)) // 4},
    }


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise a small answer may wait for 40 ms, which would be measured.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/chat/completions":
                self._answer(loopback.chat(data))
                return
            _, _, service, name = self.path.split("/")
            self._answer(loopback.services[service](name, json.loads(data)))

        def _answer(self, value: Any) -> None:
            body = json.dumps(value, ensure_ascii=False, default=str).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler
