"""A provider on loopback that answers and refuses as its vendor does, in the vendor's words."""

import base64
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Event, Lock
from typing import Any, ClassVar, Literal

from jsonschema import Draft202012Validator

from tests.providers.judges import Judge
from tests.scripted_answers import Exchange

Ending = Literal["", "cut", "refused", "paused"]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FOREIGN = {"x-mcp-header", "discriminator", "example", "nullable", "additionalItems", "dependencies", "definitions"}
JUDGING = Lock()  # judges load the vendors' packages, which threads that do so at once find half loaded
THOUGHT = "I should look at it first."


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the model says next. A call is the name of a tool and its arguments; a model that thinks does so first."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    ending: Ending = ""


SUMMARY = Turn(text="They talked about pages.")  # asked for without tools


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A request that the vendor does not take. `is_expected`: a parameter or a length, which may be learnt from it."""

    message: str
    status: int = 400
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    is_expected: bool = False
    more: dict[str, Any] = field(default_factory=dict, hash=False)
    headers: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A model that thinks until it is too late."""

    begun: Event
    until: Event


class Imitation:
    """One provider: the rules by which it refuses, and what its model says. A dialect writes and reads the format."""

    name: ClassVar[str]
    kind: ClassVar[str]  # of ERL's providers
    model: ClassVar[str]
    path: ClassVar[str] = "/v1"
    insists_on: ClassVar[str] = ""  # for the table in the docs
    thinks: ClassVar[bool] = False
    refused_as: ClassVar[str] = "end_turn"  # the stop reason of a run whose model refused
    vendor_members: ClassVar[frozenset[str]] = frozenset()  # of a request, beyond those of the official types

    def __init__(self) -> None:
        self.script: deque[Turn | Refusal | Hold] = deque()
        self.requests: list[dict[str, Any]] = []
        self.refused: list[Refusal] = []
        self.window: int | None = None  # in tokens
        self.is_second = False  # the conversation began with another model, whose marks this one cannot know
        self.numbers = count(1)
        self.judge = Judge(self.vendor_members)

    def say(self, *turns: Turn | Refusal | Hold) -> None:
        self.script.extend(turns)

    @property
    def broken_rules(self) -> list[str]:
        """What was wrong with the requests, but for what can be learnt only from a refusal."""
        return [refusal.message for refusal in self.refused if not refusal.is_expected] + self.judge.faults

    def __call__(self, exchange: Exchange) -> None:
        try:
            self._play(exchange)
        except Exception as error:  # of the imitation itself, which no client should have to guess
            self.judge.faults.append(f"{self.name} failed: {error!r}")
            raise

    def _play(self, exchange: Exchange) -> None:
        body = exchange.request.body
        self.requests.append(body)
        refusal = self._find_refusal(body)
        if refusal is None:
            with JUDGING:
                self.look_at(exchange.request.path, body)
            turn = self.script.popleft() if body.get("tools") else SUMMARY
            if isinstance(turn, Hold):
                turn.begun.set()
                turn.until.wait(60)
                exchange.reset()
                return
            if isinstance(turn, Turn):
                self._answer(exchange, self.write(turn))
                return
            refusal = turn
        self.send_refusal(exchange, refusal)

    def _find_refusal(self, body: dict[str, Any]) -> Refusal | None:
        tokens = self.count_tokens(body)
        refusals = iter(self.refuse(body))
        refusal = next(refusals, None)
        if refusal is None and self.window is not None and tokens > self.window:
            refusal = self.refuse_length(tokens, self.window)
        if refusal is not None:
            self.refused.append(refusal)
        return refusal

    def _answer(self, exchange: Exchange, answer: dict[str, Any]) -> None:
        if self.is_stream(exchange):
            exchange.start_stream()
            for event in self.write_events(answer, exchange.request.body):
                exchange.write_event(event)
            exchange.end_stream()
        else:
            exchange.send(200, json.dumps(answer).encode())

    def send_refusal(self, exchange: Exchange, refusal: Refusal) -> None:
        exchange.send(refusal.status, json.dumps(self.write_refusal(refusal)).encode(), refusal.headers)

    def count_tokens(self, body: dict[str, Any]) -> int:
        return len(json.dumps(body, ensure_ascii=False)) // 3

    def is_stream(self, exchange: Exchange) -> bool:
        return bool(exchange.request.body.get("stream"))

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        """Let the vendor's own types read a request that the rules let through."""
        raise NotImplementedError

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        """Say what the vendor does not take in a request."""
        raise NotImplementedError

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        """Refuse a prompt that is too long, in the vendor's words."""
        raise NotImplementedError

    def write(self, turn: Turn) -> dict[str, Any]:
        """Return an answer in the vendor's format."""
        raise NotImplementedError

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        """Return an answer as the events of a stream."""
        raise NotImplementedError

    def write_refusal(self, refusal: Refusal) -> Any:
        error = {"message": refusal.message, "type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"error": error | refusal.more}


def refuse_names(names: Iterable[str]) -> Iterator[Refusal]:
    """Refuse calls, earlier in the conversation, whose names no tool could have."""
    if any(not NAME.fullmatch(name) for name in names):
        yield Refusal(message=f"Invalid name: string does not match pattern. Expected '{NAME.pattern}'.")


def refuse_schemas(schemas: Iterable[Any], words: str) -> Iterator[Refusal]:
    """Refuse schemas of arguments that OpenAI, Anthropic or another would refuse."""
    for schema in schemas:
        if not Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema):
            yield Refusal(message=f"{words}: JSON schema is invalid. It must match JSON Schema draft 2020-12")
        if "properties" not in schema:
            yield Refusal(message=f"{words}: In context=(), object schema missing properties.")
        if named := {"oneOf", "anyOf", "allOf", "enum", "not"} & {*schema}:
            yield Refusal(message=f"{words}: schema must not have {sorted(named)} at the top level.")
        for node in _objects_in(schema):
            if node.get("type") == "array" and "items" not in node:
                yield Refusal(message=f"{words}: array schema missing items.")
            if unknown := FOREIGN & {*node}:
                yield Refusal(message=f"{words}: unknown name {sorted(unknown)}: Cannot find field.")


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _objects_in(part)


def signature(text: str) -> str:
    """Return an opaque text that only its provider can read."""
    return base64.b64encode(text.encode()).decode()
