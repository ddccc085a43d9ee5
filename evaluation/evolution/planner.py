"""The model of the demonstration: it knows the right calls of a dialogue and makes them one after another.

Where a tool on offer says that it makes the next calls in one step, it calls that one, the longest first. It reads only
what any model reads: descriptions and messages. Now and then it slips: it first calls without the arguments, is told
so, and repeats the call, which costs a step. So it shows that the machinery finds, checks and measures tools. It shows
nothing about how clever a model is.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.environments.scripted.plan import PlannedCall
from reflection.llm.chat import ChatAnswer, ChatRequest, ChatTool, PromptMessage, ToolCall
from runtime.changes.macros import read_calls
from runtime.changes.trials import Ask

SLIPS = 0.06  # share of the calls


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    """A call of the next step, and how many planned calls it makes."""

    tool: str
    arguments: dict[str, Any]
    calls: int


def plan_turn(plan: Sequence[PlannedCall], *, seed: str) -> Ask:
    """Return a model that makes these calls, whose names are those of tools, and then says that it is done."""

    def ask(step: int, request: ChatRequest) -> ChatAnswer:
        done = _count_done(request)
        if done is None:
            return _say("I cannot go on: a tool failed.")
        if done >= len(plan):
            return _say("Done.")
        following = choose(plan[done:], request.tools)
        # Drawn from the seed and the position, so that the same run slips at the same places.
        slips = following.arguments and _draw(f"{seed}:{done}") < SLIPS and not _slipped(request)
        arguments = {} if slips else following.arguments
        call = ToolCall.read(
            # The id tells later steps what the call was: the model has no memory but the conversation.
            id=f"{'slip' if slips else 'call'}-{step}-{following.calls}",
            name=following.tool,
            raw_arguments=json.dumps(arguments, ensure_ascii=False),
        )
        return _answer("", (call,))

    return ask


def choose(plan: Sequence[PlannedCall], tools: Sequence[ChatTool]) -> Next:
    """Return the next call: a tool that makes the most of the next planned calls, else the first of them."""
    best = Next(tool=plan[0].name, arguments=plan[0].arguments, calls=1)
    for tool in tools:
        calls = read_calls(tool.description)
        if len(calls) > best.calls and (arguments := _fit(calls, plan)) is not None:
            best = Next(tool=tool.name, arguments=arguments, calls=len(calls))
    return best


def _fit(calls: list[tuple[str, dict[str, dict[str, Any]]]], plan: Sequence[PlannedCall]) -> dict[str, Any] | None:
    """Return the arguments with which a tool makes the next calls; None where it makes others."""
    if len(calls) > len(plan):
        return None
    arguments: dict[str, Any] = {}
    for (name, sources), wanted in zip(calls, plan, strict=False):
        if name != wanted.name or sources.keys() != wanted.arguments.keys():
            return None
        for argument, source in sources.items():
            value = wanted.arguments[argument]
            if "is" in source and source["is"] != value:
                return None
            if "parameter" in source and arguments.setdefault(source["parameter"], value) != value:
                return None
    return arguments


def _count_done(request: ChatRequest) -> int | None:
    """Return how many planned calls were made in this turn; None after a failure that is no slip."""
    done = 0
    failed: set[str] = set()
    for message in _this_turn(request):
        if message.role == "tool" and message.content.startswith("Error: "):
            failed.add(message.tool_call_id)
        elif message.role == "tool" and not message.tool_call_id.startswith("slip"):
            done += int(message.tool_call_id.rpartition("-")[2])
    return None if any(not id.startswith("slip") for id in failed) else done


def _slipped(request: ChatRequest) -> bool:
    """Tell whether the last answer was to a slip."""
    last = request.messages[-1]
    return last.role == "tool" and last.tool_call_id.startswith("slip")


def _this_turn(request: ChatRequest) -> list[PromptMessage]:
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    return list(request.messages[last + 1 :])


def _draw(key: str) -> float:
    # A hash, not `random`: the draw depends on the key alone, in any process and order.
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) / 2**32


def _say(text: str) -> ChatAnswer:
    return _answer(text, ())


def _answer(text: str, calls: tuple[ToolCall, ...]) -> ChatAnswer:
    return ChatAnswer(
        text=text,
        finish_reason="tool_calls" if calls else "stop",
        input_tokens=0,
        output_tokens=0,
        model="plan",
        latency_ms=0.0,
        tool_calls=calls,
    )
