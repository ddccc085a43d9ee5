"""Requests to the application in this process, and whether the committed OpenAPI document describes the answers.

The judgement is that of schemathesis's checks (no 5xx, status, content type and body as documented) with the validators
compiled once: it takes microseconds where a request takes milliseconds.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from itertools import takewhile
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import jsonschema_rs
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from erl_site.asgi import application as product
from tests.api.operations import DOCUMENT
from tests.waiting import step_through

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

OWN_NAMES = ("CONTENT_TYPE", "CONTENT_LENGTH")  # headers that WSGI gives without HTTP_ before them


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request as a server hands it to the application.

    Attributes:
        path, query: as WSGI has them: the path decoded to latin-1, the query as it was sent.
        headers: under the names of WSGI, without CONTENT_LENGTH unless it is not the body's.
    """

    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        headers = {name: value[:80] for name, value in self.headers.items() if name != "HTTP_AUTHORIZATION"}
        return f"{self.method} {self.path[:200]!r} {self.query[:200]!r} {headers} {self.body[:300]!r}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Recorder:
    """Hands requests on to the application and keeps the last, for what wants to send it again."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.last: Sent | None = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        names = (name for name in environ if name.startswith("HTTP_") or name == "CONTENT_TYPE")
        self.last = Sent(
            method=environ["REQUEST_METHOD"],
            path=environ["PATH_INFO"],
            query=environ["QUERY_STRING"],
            headers={name: environ[name] for name in names},
            body=body,
        )
        return self.application(environ, start_response)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Let the product answer in this thread, as it does in threads of its own behind a server."""
    names = {name: name.removeprefix("HTTP_").replace("_", "-").lower() for name in environ if name.isupper()}
    fields = {name: key for name, key in names.items() if name.startswith("HTTP_") or name in OWN_NAMES}
    scope = {
        "type": "http",
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace"),
        "query_string": environ["QUERY_STRING"].encode("latin-1", "replace"),
        "headers": [(key.encode(), str(environ[name]).encode("latin-1", "replace")) for name, key in fields.items()],
        "client": (environ.get("REMOTE_ADDR", "127.0.0.1"), 0),
        "server": (environ["SERVER_NAME"], int(environ["SERVER_PORT"])),
    }
    answer: Any = product.respond(scope, environ["wsgi.input"].read())
    cookies = [("Set-Cookie", cookie.OutputString()) for cookie in answer.cookies.values()]
    start_response(f"{answer.status_code} {answer.reason_phrase}", [*answer.items(), *cookies])
    return step_through(answer.streaming_content) if answer.streaming else [answer.content]


def send(application: Application, request: Sent) -> Answer:
    """Hand a request to the application as a server would, and read its answer to the end."""
    environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(request.body),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    } | request.headers
    if "HTTP_TRANSFER_ENCODING" not in environ and "CONTENT_LENGTH" not in environ and request.body:
        environ["CONTENT_LENGTH"] = str(len(request.body))
    begun: list[tuple[str, list[tuple[str, str]]]] = []
    try:
        chunks = application(environ, lambda status, headers, *_: begun.append((status, headers)))
        body = read_body(chunks)
    except Exception as error:  # every server makes that of it
        return Answer(status=500, headers={}, body=repr(error).encode())
    [(status, headers)] = begun
    return Answer(status=int(status[:3]), headers={name.lower(): value for name, value in headers}, body=body)


def read_body(chunks: Iterable[bytes]) -> bytes:
    """Return a body, and close it; of a stream whose run goes on, what it has before nothing comes for a second."""
    try:
        return b"".join(takewhile(bool, chunks))
    finally:
        if (close := getattr(chunks, "close", None)) is not None:
            close()


@contextmanager
def requests_on_this_connection() -> Iterator[None]:
    """Let requests run on the test's own connection, which they must not end."""
    ended_by = (request_started, request_finished)
    for signal in ended_by:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in ended_by:
            signal.connect(close_old_connections)


class Contract:
    """What the document says about answers."""

    def __init__(self) -> None:
        self._operations = [
            (method.upper(), _pattern(path), operation["operationId"], self._read_responses(operation))
            # a path without parameters goes before one that its text would fit into
            for path, methods in sorted(DOCUMENT["paths"].items(), key=lambda item: "{" in item[0])
            for method, operation in methods.items()
        ]

    def find_operation(self, method: str, path: str) -> str | None:
        """Return the id of the operation that a request is one of, or None."""
        found = self._find(method, path)
        return found[0] if found else None

    def find_fault(self, request: Sent, answer: Answer) -> str | None:
        """Say what is wrong with an answer, in a few words, or None."""
        if answer.status >= 500:
            return f"{answer.status} {answer.body[:200]!r}"
        found = self._find(request.method, request.path)
        if found is None:
            return "no operation of the document"
        responses = found[1]
        if answer.status not in responses:
            return f"status {answer.status} is not described"
        contents = responses[answer.status]
        if not contents:
            return None
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in contents:
            return f"{answer.status}: content type {kind or 'none'} is not described"
        return _find_fault_of_body(answer, kind, contents[kind])

    def _find(self, method: str, path: str) -> tuple[str, dict[int, dict[str, Any]]] | None:
        for known, pattern, name, responses in self._operations:
            if known == method and pattern.fullmatch(path):
                return name, responses
        return None

    def _read_responses(self, operation: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return a validator for each status and content type, or none where nothing is said of the body."""
        return {
            int(status): {
                kind: _compile(content["schema"]) if "schema" in content else None
                for kind, content in _resolve(response).get("content", {}).items()
            }
            for status, response in operation["responses"].items()
        }


def _find_fault_of_body(answer: Answer, kind: str, validator: Any) -> str | None:
    if validator is None:
        return None
    try:
        text = answer.body.decode()
        values: list[Any]
        if kind == "text/event-stream":
            values = [*read_events(text)]
        else:
            values = [json.loads(text) if kind.endswith("json") else text]
    except ValueError as error:
        return f"{answer.status}: the body is not {kind}: {error}"
    try:
        for value in values:
            validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        return f"{answer.status}: /{place}: {error.message[:200]}"
    return None


def read_events(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each server-sent event; a block without data is none (HTML standard, 9.2.6)."""
    for block in text.split("\n\n"):
        lines = [line.partition(":") for line in block.splitlines() if not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if "data" in fields:
            yield fields


def location_of(answer: Answer) -> str:
    """Return the path that an answer says its row has, or ""."""
    return urlsplit(answer.headers.get("location", "")).path


def _pattern(path: str) -> re.Pattern[str]:
    # a segment of any characters but the one that ends it, line ends included
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", path))))


def _resolve(node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        found: Any = DOCUMENT
        for name in node["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        node = found
    return node


def _compile(schema: dict[str, Any]) -> Any:
    return _compile_text(json.dumps(schema))


@cache
def _compile_text(schema: str) -> Any:
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": DOCUMENT["components"]}
    return jsonschema_rs.validator_for(whole | json.loads(schema), validate_formats=True)
