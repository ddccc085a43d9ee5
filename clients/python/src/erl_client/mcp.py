"""The MCP server of the command `erl mcp`: passes messages from standard input on to `POST /mcp`.

Every request is answered in time, with an error while ERL is away. A client that starts while ERL is away gets no
tools, and is told when it can list them. Only messages of the protocol are written.
"""

import base64
import json
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx

from erl_client.api import Destination

CONNECT_SECONDS = 5.0
BUDGET_SECONDS = 30.0
RETRY_SECONDS = 5.0
MAX_AT_ONCE = 4
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of clients that begin with `initialize`
FAMILY_TOOLS = frozenset(["get_lessons", "record_run", "propose_lesson", "search_runs"])
PARSE_ERROR, INTERNAL_ERROR = -32700, -32603
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_SAFE_HEADER = re.compile(r"(?! |=\?base64\?)[\x20-\x7e]*(?<! )")
_GO_ON = (
    "Continue without it. If the call was meant to record something, repeat it later with the same external_id or "
    "idempotency_key."
)


class _NoAnswer(Exception):
    """ERL gave no answer; the message is a sentence that says why."""


class _Away(_NoAnswer):
    """ERL cannot be reached now, and may be later."""


def serve(destination: Destination, messages: Iterable[bytes], answers: BinaryIO, *, family: str = "") -> None:
    """Answer messages, one a line, until there are no more or the answers are not read.

    With a family, nothing of another family is given, and what is recorded belongs to it.
    """
    bridge = _Bridge(destination, answers, family=family)
    with bridge, ThreadPoolExecutor(max_workers=MAX_AT_ONCE) as threads:
        for line in messages:
            if bridge.is_closed:
                return
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                bridge.write(_error(None, PARSE_ERROR, "This line is not JSON."))
                continue
            if isinstance(message, dict) and not {"id", "method"} <= message.keys():
                bridge.note(message)
            else:
                bridge.expect(message)
                threads.submit(bridge.answer, message)


class _Bridge:
    def __init__(self, destination: Destination, answers: BinaryIO, *, family: str) -> None:
        self.http = httpx.Client(timeout=httpx.Timeout(BUDGET_SECONDS, connect=CONNECT_SECONDS))
        self.is_closed = False
        self._destination = destination
        self._answers = answers
        self._family = family
        self._has_ended = Event()
        self._is_waiting = False  # for ERL, to tell the client of its tools
        self._lock = Lock()
        self._asked: set[str | int | None] = set()
        self._cancelled: set[str | int | None] = set()

    def __enter__(self) -> None:
        self.http.__enter__()

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self.http.close()

    def expect(self, message: Any) -> None:
        with self._lock:
            self._asked.add(_id_of(message))

    def note(self, message: Mapping[str, Any]) -> None:
        """Drop a request that is cancelled. Other notifications mean nothing to a server without sessions."""
        params = message.get("params")
        if message.get("method") == "notifications/cancelled" and isinstance(params, dict):
            cancelled = _id_of({"id": params.get("requestId")})
            with self._lock:
                self._cancelled |= {cancelled} & self._asked - {None}

    def answer(self, message: Any) -> None:
        """Answer a request. Never raises."""
        try:
            answer = self._ask(self._narrow(message))
        except _Away as error:
            answer = self._welcome(message) or _say_why(message, str(error))
        except _NoAnswer as error:
            answer = _say_why(message, str(error))
        except Exception as error:  # every request gets an answer
            answer = _say_why(message, f"The request failed: {type(error).__name__}.")
        id = _id_of(message)
        with self._lock:
            is_cancelled = id in self._cancelled
            self._asked.discard(id)
            self._cancelled.discard(id)
        if not is_cancelled:
            self.write({**answer, "id": id})

    def write(self, answer: Mapping[str, Any]) -> None:
        content = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._answers.write(content)
                self._answers.flush()
            except (OSError, ValueError):  # the client is gone
                self.is_closed = True

    def _narrow(self, message: Any) -> Any:
        """Return a request that is about the family alone."""
        params = message.get("params") if isinstance(message, dict) else None
        if not self._family or not isinstance(params, dict):
            return message
        if message.get("method") == "resources/read" and params.get("uri") != _resource_of(self._family):
            raise _NoAnswer(f"This server has only the lessons of {self._family}: read {_resource_of(self._family)}.")
        if message.get("method") != "tools/call" or params.get("name") not in FAMILY_TOOLS:
            return message
        given = params.get("arguments")
        arguments = {**(given if isinstance(given, dict) else {}), "family": self._family}
        arguments.pop("task_id", None)
        if params["name"] == "get_lessons":
            arguments["families"] = [self._family, ""]
        return {**message, "params": {**params, "arguments": arguments}}

    def _welcome(self, message: Any) -> dict[str, Any] | None:
        """Return what a client that begins while ERL is away is told, None for any other request."""
        method, params = message.get("method"), message.get("params")
        if method == "initialize" and isinstance(params, dict):
            version = params.get("protocolVersion")
            about = {
                "protocolVersion": version if version in LEGACY_VERSIONS else LEGACY_VERSIONS[0],
                "capabilities": {"tools": {"listChanged": True}, "resources": {}},
                "serverInfo": {"name": "erl", "version": "unknown"},
            }
            self._wait_for_erl()
            return {"jsonrpc": "2.0", "result": about}
        if method == "tools/list" and self._is_waiting:
            return {"jsonrpc": "2.0", "result": {"tools": []}}
        return None

    def _wait_for_erl(self) -> None:
        def wait() -> None:
            ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
            while not self._has_ended.wait(RETRY_SECONDS):
                try:
                    self._ask(ping)
                except _Away:
                    continue
                except Exception:  # the key is refused, which a call will say
                    return
                self._is_waiting = False
                self.write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                return

        if not self._is_waiting:
            self._is_waiting = True
            Thread(target=wait, daemon=True).start()

    def _ask(self, message: Any) -> dict[str, Any]:
        url, key = self._destination.url, self._destination.api_key
        if not key:
            raise _NoAnswer("There is no API key. Set ERL_API_KEY, or run `erl login`.")
        headers = {"Authorization": f"Bearer {key}", **_headers(message if isinstance(message, dict) else {})}
        line = json.dumps(message).encode()
        ends_at = time.monotonic() + BUDGET_SECONDS
        try:
            with self.http.stream("POST", f"{url}/mcp", content=line, headers=headers) as response:
                content = b""
                for chunk in response.iter_bytes():
                    content += chunk
                    if time.monotonic() > ends_at:
                        raise _Away(f"ERL at {url} did not answer within {BUDGET_SECONDS:.0f} seconds.")
        except httpx.TimeoutException as error:
            raise _Away(f"ERL at {url} did not answer in time.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _Away(f"ERL at {url} cannot be reached: {error or type(error).__name__}") from error
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not (isinstance(answer, dict) and answer.get("jsonrpc") == "2.0" and {"result", "error"} & answer.keys()):
            fault = _Away if response.status_code >= 500 else _NoAnswer
            raise fault(f"ERL at {url} answered {response.status_code}, but not as an MCP server.")
        return answer


def _resource_of(family: str) -> str:
    return f"erl://lessons/{quote(family, safe='')}"


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the header fields of a request over HTTP; from 2026-07-28 on they repeat what it asks for."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "User-Agent": "erl-client",
    }
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    if not isinstance(params, dict) or not isinstance(version, str):
        return headers
    method = message.get("method")
    said = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    said["Mcp-Name"] = params.get(_NAMED_BY.get(method, "")) if isinstance(method, str) else None
    return headers | {name: _encode(value) for name, value in said.items() if isinstance(value, str)}


def _encode(value: str) -> str:
    if _SAFE_HEADER.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _id_of(message: Any) -> str | int | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str | int) else None


def _say_why(message: Any, reason: str) -> dict[str, Any]:
    """Answer a call of a tool so that the model can read why it failed, and anything else with an error."""
    if isinstance(message, dict) and message.get("method") == "tools/call":
        text = {"type": "text", "text": f"{reason.rstrip('.')}. {_GO_ON}"}
        result = {"content": [text], "isError": True, "resultType": "complete"}
        return {"jsonrpc": "2.0", "id": None, "result": result}
    return _error(None, INTERNAL_ERROR, reason)


def _error(id: str | int | None, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}
