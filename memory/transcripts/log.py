"""The neutral form of a run, and the log that readers of all formats write it with."""

import base64
import binascii
import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from .lesson_blocks import cut_lesson_blocks
from .offered_tools import get_tool_name, split_tools

Json = Any
"""A value as `json.loads` returns it."""

RESPOND = "respond"
_INTEGER = re.compile(r"-?[0-9]{1,20}")
MAX_STEPS = 20_000  # ten times what ERL keeps of a run
MAX_TOOLS = 500
MAX_NAME_CHARS = 200
MAX_LEFT_OUT = 200  # places that are named; the others are counted


class UnreadableTranscript(ValueError):
    """A log is not in the form it seems to be in. The text begins with the place, such as `messages[3].content`."""


class TooManySteps(UnreadableTranscript):
    """A run is longer than anything that is a run."""


@dataclass(kw_only=True, slots=True)
class Transcript:
    """One run, whatever wrote it.

    Each step has `thought`, `action` (`{"name", "arguments"}` or None), `observation`, `error`, and `metadata` where
    the log says more about it. `outcome` is "success", "failure" or "" where the log does not say. Times are ISO 8601.
    `left_out` names what was not kept, such as the bytes of an image, with its place.
    """

    format: str = ""
    task: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    tools: list[Json] = field(default_factory=list)
    system_prompt: str = ""
    outcome: str = ""
    score: float | None = None
    outcome_source: str = ""
    task_id: str = ""
    agent: str = ""
    user_id: str = ""
    model: str = ""
    external_id: str = ""
    parent_id: str = ""
    started_at: str = ""
    ended_at: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        """Return what the log says, as the members of `POST /api/v1/trajectories`."""
        names = [name for name in self.__dataclass_fields__ if name not in ("format", "left_out")]
        said = {name: value for name in names if (value := getattr(self, name)) not in ("", None, [], {})}
        metadata: dict[str, Json] = {"format": self.format} if self.format else {}
        if self.left_out:
            more = len(self.left_out) - MAX_LEFT_OUT
            metadata["left_out"] = self.left_out[:MAX_LEFT_OUT] + ([f"{more:,} more"] if more > 0 else [])
        if metadata:
            said["metadata"] = {**metadata, **self.metadata}
        return said


@dataclass(kw_only=True, slots=True)
class _OpenCall:
    step: dict[str, Any]
    is_open: bool = True


class Log:
    """Turns what was said and done, in order, into steps.

    Text of the agent next to a call is the thought of that call's step. Text without a call becomes the action
    `respond`, and the next thing the user says is its observation. A result belongs to the call with its id, which may
    come later, or to the first open call of its name. What answers nothing becomes a step without an action.
    Instructions before the first step are the system prompt.

    `keeps_going` is for the logs of programs: an item that cannot be read is left out and named, and the rest is read.
    """

    def __init__(self, *, keeps_going: bool = False) -> None:
        self.keeps_going = keeps_going
        self.steps: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.faults: list[str] = []  # why parts that are left out cannot be read
        self.task = ""
        self.model = ""
        self.tokens = 0
        self.told: dict[str, None] = {}  # the instructions before the first step, each once
        # Each call waits under its id, its name and "": a result takes the first that is still open.
        self._waiting: dict[tuple[str, str], deque[_OpenCall]] = defaultdict(deque)
        self._called: set[str] = set()
        self._early: dict[str, dict[str, Any]] = {}  # steps of results whose call may still come, by its id
        self._heard: list[str] = []  # by the last step, besides its observation
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._metadata: dict[str, Json] = {}

    def think(self, text: str) -> None:
        if text:
            self._thoughts.append(text)

    def say(self, text: str) -> None:
        if text:
            self._texts.append(text)

    def note(self, metadata: Mapping[str, Json]) -> None:
        """Keep what a log says about a message with the step that the message makes."""
        self._metadata |= metadata

    def call(self, name: str, arguments: Json, *, id: str = "") -> None:
        step = self._add(
            thought="\n".join([*self._thoughts, *self._texts]), action={"name": name, "arguments": arguments}
        )
        self._thoughts, self._texts = [], []
        if early := self._early.pop(id, None):
            step |= {name: early[name] for name in ("observation", "error")}
            early["index"] = 0  # it is this step's now
            return
        self._called.add(id)
        call = _OpenCall(step=step)
        for key in (("id", id), ("name", name), ("", "")):
            self._waiting[key].append(call)

    def result(
        self, text: str, *, id: str = "", name: str = "", failed: bool = False, metadata: Mapping[str, Json] = {}
    ) -> None:
        self.end_turn()
        said = {"error" if failed else "observation": text or ("failed" if failed else "")}
        waiting = self._waiting[("id", id) if id else ("name", name) if name else ("", "")]
        while waiting:
            call = waiting.popleft()
            if call.is_open:
                call.is_open = False
                call.step |= said
                if metadata:
                    call.step.setdefault("metadata", {})["result"] = dict(metadata)
                return
        self.note(metadata)
        step = self._add()
        step |= said
        if id and id not in self._called:
            self._early.setdefault(id, step)

    def has_called(self, id: str) -> bool:
        return id in self._called

    def fail(self, text: str) -> None:
        """Take an error that answers no call, such as one of the provider."""
        self.end_turn()
        self._add(error=text or "failed")

    def hear(self, text: str) -> None:
        """Take what the user, or anyone but the agent and its tools, said."""
        self.end_turn()
        said = cut_lesson_blocks(text)
        if text and not said:
            return  # a message of lessons only
        text = said
        if not self.task and not self.steps:
            self.task = text
        last = self.steps[-1] if self.steps else None
        if last is None or (last["action"] is not None and last["action"]["name"] != RESPOND):
            self._add(observation=text)
            return
        self._heard.append(text)
        if self._metadata:
            last.setdefault("metadata", {})["reply"] = self._metadata
            self._metadata = {}

    def instruct(self, text: str) -> None:
        """Take a system message. One that comes during the run is something the agent was told."""
        if self.steps:
            self.hear(text)
        elif text := cut_lesson_blocks(text):
            self.told[text] = None
        self._metadata = {}

    def end_turn(self, *, always: bool = False) -> None:
        """Let what was said without a call be an answer; `always` also where nothing was said."""
        if self._texts or always:
            action = {"name": RESPOND, "arguments": {"content": "\n".join(self._texts)}}
            self._add(thought="\n".join(self._thoughts), action=action)
        elif self._thoughts:
            self._add(thought="\n".join(self._thoughts))
        self._thoughts, self._texts = [], []

    def use(self, *, model: Json = None, usage: Json = None) -> None:
        """Take the model of a message, and add the tokens that it cost."""
        self.model = (model if isinstance(model, str) else "") or self.model
        self.tokens += count_tokens(usage)

    def leave_out(self, where: str, what: str) -> None:
        self.left_out.append(f"{where}: {what}")

    @contextmanager
    def reading(self, where: str) -> Iterator[None]:
        """Read a part of a log; one that cannot be read is left out if the log keeps going, else it is an error."""
        try:
            yield
        except UnreadableTranscript as error:
            if not self.keeps_going or isinstance(error, TooManySteps):
                raise
            self.faults.append(str(error))
            self.leave_out(where, str(error).removeprefix(where).lstrip(". "))

    def transcript(self, **known: Any) -> Transcript:
        """End the log."""
        self.end_turn()
        self._write_heard()
        self.steps = [step for step in self.steps if step["index"]]
        for number, step in enumerate(self.steps, start=1):
            step["index"] = number
        known.setdefault("task", self.task)
        known["system_prompt"] = known.get("system_prompt") or "\n\n".join(self.told)
        known["tools"] = _usable_tools(known.get("tools"))
        known["model"] = known.get("model") or self.model
        known["tokens"] = known.get("tokens") or self.tokens or None
        for name in ("started_at", "ended_at"):
            if known.get(name):
                known[name] = read_time(known[name])
        return Transcript(steps=self.steps, left_out=self.left_out, **known)

    def _write_heard(self) -> None:
        """Write what was heard into the last step at once: piece by piece, a long text would be copied each time."""
        if self._heard:
            last = self.steps[-1]
            last["observation"] = "\n\n".join([*([last["observation"]] if last["observation"] else []), *self._heard])
            self._heard = []

    def _add(
        self, *, thought: str = "", action: dict[str, Any] | None = None, observation: str = "", error: str = ""
    ) -> dict[str, Any]:
        self._write_heard()
        if len(self.steps) >= MAX_STEPS:
            raise TooManySteps(f"The run has more than {MAX_STEPS:,} steps. Split it.")
        step: dict[str, Any] = {
            "index": len(self.steps) + 1,
            "thought": thought,
            "action": action,
            "observation": observation,
            "error": error,
        }
        if self._metadata:
            step["metadata"] = self._metadata
            self._metadata = {}
        self.steps.append(step)
        return step


def _usable_tools(tools: Json) -> list[Json]:
    """Return the tools on offer that can be recorded: what else a log has in their place says nothing."""
    entries = tools if isinstance(tools, list) else []
    offered = (tool for entry in entries for tool in split_tools(entry))
    return [tool for tool in offered if 0 < len(get_tool_name(tool).strip()) <= MAX_NAME_CHARS][:MAX_TOOLS]


def as_text(value: Json) -> str:
    """Return a text as it is and anything else as compact JSON; "" for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse(value: Json) -> Json:
    """Return what a string of JSON holds, where it is an object or a list; anything else as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def read_text(value: Json, where: str) -> str:
    """Return a text, "" for null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableTranscript(f"{where} must be a string.")
    return value


def read_list(value: Json, where: str) -> list[Json]:
    """Return a list, [] for null."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise UnreadableTranscript(f"{where} must be a list.")
    return list(value)


def read_object(value: Json, where: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise UnreadableTranscript(f"{where} must be an object.")
    return value


def read_name(value: Json, where: str) -> str:
    """Return a tool's name."""
    if not isinstance(value, str) or not value.strip():
        raise UnreadableTranscript(f"{where} must be the tool's name, a string that is not empty.")
    return value.strip()


def read_arguments(value: Json, where: str) -> dict[str, Any]:
    """Return the arguments of a call. Models also write texts that hold no object: such a text is kept as `input`."""
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        return parsed if isinstance(parsed, dict) else {"input": value}
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list):
        return {"input": value}
    raise UnreadableTranscript(f"{where} must be an object, or a string holding one.")


def describe_bytes(kind: str, media_type: Json, data: Json) -> str:
    """Say what a file in a log was, where its bytes are not kept: its type, size and SHA-256."""
    try:
        content = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        content = data.encode(errors="replace")
    about = f"{len(content):,} bytes, sha256 {sha256(content).hexdigest()[:16]}"
    return f"[{kind}{f' {media_type}' if isinstance(media_type, str) and media_type else ''}, {about}]"


def count_tokens(usage: Json) -> int:
    """Return the tokens that a model's usage counts: its total, or what went in and came out."""
    if not isinstance(usage, Mapping):
        return 0

    def first(*names: str) -> int:
        return next((number for name in names if (number := to_count(usage.get(name)))), 0)

    return first("total_tokens", "totalTokenCount", "total") or (
        first("input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens", "input")
        + first("output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens", "output")
    )


def read_time(value: Json) -> str:
    """Return a time in ISO 8601 with its zone; without one it is taken as UTC. "" where it cannot be read."""
    if (number := to_number(value)) is not None:
        seconds = number / 1000 if number > 10_000_000_000 else number
        return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat() if 0 < seconds < 253_402_300_799 else ""
    try:
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", value)) if isinstance(value, str) else None
    except ValueError:
        return ""
    if time is None:
        return ""
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).isoformat()


def to_number(value: Json) -> float | None:
    """Return a number that is finite and fits a double, None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def to_count(value: Json) -> int:
    """Return a number of tokens, 0 for what cannot be one."""
    number = to_number(value)
    return int(number) if number is not None and 0 <= number < 2**53 else 0


def read_integer(value: Json) -> int | None:
    """Return an integer of 64 bits, also from a text of digits; None for anything else."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    return value if type(value) is int and abs(value) < 2**64 else None
