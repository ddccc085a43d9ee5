"""A run as detectors see it: tool calls separate from talk, errors recognised, values traced to their source."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory.heuristics.text import Citation
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, Episode, Step
from reflection.reflectors.rules.tools import ToolError, is_handover, is_talk, is_thought, read_error
from reflection.reflectors.rules.wording import cut

MAX_QUOTE_CHARS = 220


@dataclass(frozen=True, kw_only=True)
class Call:
    """One tool call with its answer."""

    step: Step
    name: str
    arguments: dict[str, Any]
    error: ToolError | None = None

    @property
    def index(self) -> int:
        return self.step.index

    @property
    def answer(self) -> str:
        return self.step.observation

    @cached_property
    def leaves(self) -> dict[str, tuple[Any, ...]]:
        """The scalar values of the arguments by path; items of a list share one: `flights[].date`."""
        found: dict[str, list[Any]] = {}
        for path, value in _leaves(self.arguments, ""):
            found.setdefault(path, []).append(value)
        return {path: tuple(values) for path, values in found.items()}

    def same_as(self, other: "Call") -> bool:
        return self.name == other.name and self.arguments == other.arguments


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Something the agent said to a person, and the answer."""

    step: Step
    said: str
    heard: str

    @property
    def index(self) -> int:
        return self.step.index


@dataclass(frozen=True)
class RunView:
    """An episode, read once for all detectors."""

    episode: Episode
    injected: tuple[str, ...] = field(default=())

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Tool calls in order, without talk and thoughts."""
        return tuple(
            Call(step=step, name=step.action.name, arguments=step.action.arguments, error=read_error(step))
            for step in self.episode.steps
            if step.action and not is_talk(step.action.name) and not is_thought(step.action.name)
        )

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(
            Turn(step=step, said=_spoken(step.action.arguments), heard=step.observation)
            for step in self.episode.steps
            if step.action and is_talk(step.action.name)
        )

    @cached_property
    def verdict(self) -> str:
        """How the run ended: success, failure or unknown. Without an outcome, the score decides."""
        if self.episode.outcome in ("success", "failure"):
            return self.episode.outcome
        score = self.episode.score
        if score is not None and score >= SUCCESS_SCORE:
            return "success"
        return "failure" if score is not None and score < FAILURE_SCORE else "unknown"

    @property
    def failed(self) -> bool:
        return self.verdict == "failure"

    @property
    def succeeded(self) -> bool:
        return self.verdict == "success"

    @property
    def polarity(self) -> str:
        """The polarity of a lesson about the whole run: works, avoid or mixed."""
        return {"success": "works", "failure": "avoid"}.get(self.verdict, "mixed")

    @cached_property
    def ending(self) -> str:
        """A sentence for rationales that says how the run ended."""
        ends = {"success": "The run succeeded", "failure": "The run failed"}.get(
            self.verdict, "How the run ended is not known"
        )
        if self.episode.score is not None and 0 < self.episode.score < 1:
            ends += f" with a score of {self.episode.score:.2g}"
        return ends + "."

    def handover(self) -> Call | None:
        return next((call for call in reversed(self.calls) if is_handover(call.name)), None)

    def heard_before(self, index: int) -> str:
        """What people said before a step, including the task as given."""
        opening = [step.observation for step in self.episode.steps[: index - 1] if step.action is None]
        return "\n".join([*opening, *(turn.heard for turn in self.turns if turn.index < index)])

    def source_of(self, value: Any, *, before: int) -> Call | None:
        """Return the first call before a step whose answer contains `value` as a whole word."""
        return next((call for call in self.calls if call.index < before and occurs(value, call.answer)), None)

    def said_by_anyone(self, value: Any, *, before: int) -> bool:
        """Return whether a person mentioned `value` before a step, in conversation or in the task."""
        return occurs(value, self.heard_before(before)) or occurs(value, self.episode.task)

    def cite(self, step: Step, quote: str = "", *, last: Step | None = None) -> Citation:
        """Return a citation of a step, or of all steps up to `last`, with a quote if it is a fair one."""
        quote = cut(quote, MAX_QUOTE_CHARS)
        if any(quote in given for given in self.injected):
            quote = ""  # it only repeats a lesson that the run was given
        return Citation(first_step=step.index, last_step=(last or step).index, quote=quote)


def occurs(value: Any, text: str) -> bool:
    """Return whether a scalar value occurs in `text` as a whole word."""
    needle = str(value)
    if len(needle) < 2 or needle not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(needle)}(?!\w)", text) is not None


def is_reference(value: Any) -> bool:
    """Return whether a value looks like an identifier: a word with a digit or underscore, or a code in capitals."""
    if not isinstance(value, str) or not 3 <= len(value) <= 80 or " " in value:
        return False
    if re.fullmatch(r"\d{4}-\d\d-\d\d.*|\d{1,2}:\d\d.*|-?\d+(\.\d+)?", value):
        return False
    return bool(re.search(r"\d|_", value)) or (value.isupper() and len(value) > 4)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, f"{path}[]")
    elif value is not None and not isinstance(value, bool):
        yield path, value


def _spoken(arguments: dict[str, Any]) -> str:
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else json.dumps(arguments, ensure_ascii=False) if arguments else ""
