"""A model that plays a script: a policy in a JSON file, for demonstrations and tests without a network or a key.

The form of the file, with an example, is in docs/language-models.md. The first rule that fits answers; the same
conversation always has the same answer.
"""

import json
import re
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from reflection.llm.base import (
    BlockingProvider,
    OnText,
    ProviderConfig,
    ProviderError,
    ProviderNotConfigured,
    estimate_tokens,
)
from reflection.llm.chat import ChatAnswer, ChatRequest, PromptMessage, ToolCall, id_of_call

_NAME = re.compile(r"\{([a-z_]\w*)(:json)?\}")


class _Call(BaseModel, extra="forbid"):
    tool: str
    arguments: dict[str, Any] = {}


class _Rule(BaseModel, extra="forbid"):
    system: re.Pattern[str] | None = None
    user: re.Pattern[str] | None = None
    tool: str = ""
    result: re.Pattern[str] | None = None
    say: str = ""
    calls: list[_Call] = []

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        patterns = (self.system, self.user, self.result)
        names = {name for pattern in patterns if pattern for name in pattern.groupindex}
        used = {name for name, _ in _NAME.findall(json.dumps([self.say, [call.arguments for call in self.calls]]))}
        if unknown := sorted(used - names):
            raise ValueError(f"No expression of the rule names {', '.join(unknown)}.")
        return self

    def match(self, request: ChatRequest) -> dict[str, str] | None:
        """Return what the expressions name, or None where the rule does not fit."""
        sides = ((self.system, request.system), (self.user, request.user))
        matches = [pattern.search(text) for pattern, text in sides if pattern]
        results = _last_results(request.messages)
        if self.tool or self.result:
            fitting = [content for tool, content in results if self.tool in ("", tool)]
            hits = [self.result.search(content) if self.result else re.match("", "") for content in fitting]
            # None where no result fits, so that the rule does not fit either.
            matches.append(next((hit for hit in hits if hit), None))
        elif results:
            return None
        if None in matches:
            return None
        return {name: text or "" for hit in matches if hit for name, text in hit.groupdict().items()}


class _Script(BaseModel, extra="forbid"):
    rules: list[_Rule] = Field(min_length=1)


class ScriptedModel(BlockingProvider):
    """Plays the script at the configuration's address, a path. It raises `ProviderNotConfigured` for a bad one."""

    def __init__(self, config: ProviderConfig) -> None:
        self.name, self.model = config.name, config.model
        try:
            self._rules = _Script.model_validate_json(Path(config.base_url).read_bytes()).rules
        except (OSError, ValidationError) as error:
            raise ProviderNotConfigured(f"ERL_LLM_SCRIPT cannot be used: {error}") from error

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        """Answer by the first rule that fits, a word at a time; raise `ProviderError` where there is none."""
        fits = ((rule, names) for rule in self._rules if (names := rule.match(request)) is not None)
        rule, names = next(fits, (None, {}))
        if rule is None:
            message = "The script has no rule for what was said last. Add one to the file in ERL_LLM_SCRIPT."
            raise ProviderError(message, transient=False, code="no_rule")
        text = str(_fill(rule.say, names))
        filled = [(call.tool, json.dumps(_fill(call.arguments, names), ensure_ascii=False)) for call in rule.calls]
        calls = tuple(
            ToolCall.read(id=id_of_call(request.sha256, index), name=tool, raw_arguments=arguments)
            for index, (tool, arguments) in enumerate(filled)
        )
        if on_text is not None:
            for word in re.findall(r"\s*\S+|\s+", text):
                on_text(word)
        return ChatAnswer(
            text=text,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            input_tokens=request.estimated_input_tokens,
            output_tokens=estimate_tokens(text + "".join(call.raw_arguments for call in calls)),
            model=self.model,
            latency_ms=0.0,
        )

    def close(self) -> None:
        """Do nothing: no connection is open."""


def _last_results(messages: tuple[PromptMessage, ...]) -> list[tuple[str, str]]:
    """Return the tools that have just answered, with their results."""
    called = {call.id: call.name for message in messages for call in message.tool_calls}
    last = takewhile(lambda message: message.role == "tool", reversed(messages))
    return [(called.get(message.tool_call_id, ""), message.content) for message in last][::-1]


def _fill(template: Any, names: dict[str, str]) -> Any:
    if isinstance(template, dict):
        return {name: _fill(value, names) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, names) for value in template]
    if not isinstance(template, str):
        return template
    whole = _NAME.fullmatch(template)
    # Alone and with `:json`, a name gives a value of its own type instead of text.
    if whole and whole[2]:
        try:
            return json.loads(names[whole[1]])
        except ValueError:
            return names[whole[1]]
    return _NAME.sub(lambda hit: names[hit[1]], template)
