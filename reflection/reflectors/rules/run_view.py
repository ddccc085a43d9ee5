"""A run as detectors see it: tool calls separate from talk, errors recognised, values traced to their source."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from memory.heuristics.text import Citation
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, Episode, EpisodeStep
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape, read_error
from reflection.reflectors.rules.shell import ShellCommand, is_green, is_red, read_command
from reflection.reflectors.rules.tools import is_edit, is_handover, is_read, is_talk, is_thought
from reflection.reflectors.rules.wording import cut

MAX_QUOTE_CHARS = 220
_LIMIT = re.compile(
    r"(?:agent stopped due to|reached) (?:the )?(?:max(?:imum)? |iteration |time )[\w ]{1,40}"
    r"|recursion limit of \d{1,6} reached|max turns \(\d{1,6}\) exceeded",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[A-Z][\w'’.-]{0,40}[:,]? [^({\[]")
_EXIT_CODE = re.compile(r"\s*(?:process )?exit(?:ed with)? code:? \d+\s*$", re.IGNORECASE)
MIN_SENTENCE_WORDS = 6
MIN_CLOSED_WORDS = 2  # with a full stop
MAX_LIMIT_CHARS = 300  # of the last answer, which the framework ends with its own words
MAX_SHORT_ANSWER_CHARS = 300  # longer answers of reading tools are the text of a file or page


@dataclass(frozen=True, kw_only=True)
class RunCall:
    """One tool call with its answer."""

    step: EpisodeStep
    name: str
    arguments: dict[str, Any]
    error: ErrorShape | None = None
    command: ShellCommand | None = None

    @property
    def index(self) -> int:
        return self.step.index

    @property
    def answer(self) -> str:
        return self.step.observation

    @cached_property
    def leaves(self) -> dict[str, tuple[Any, ...]]:
        """The scalar values of the arguments by path; items of a list share one: `flights[].date`."""
        by_path: dict[str, list[Any]] = {}
        for path, value in _leaves(self.arguments, ""):
            by_path.setdefault(path, []).append(value)
        return {path: tuple(values) for path, values in by_path.items()}

    @property
    def label(self) -> str:
        """What a person would call it: the tool, or the program of a shell command."""
        return self.command.name if self.command else self.name

    @property
    def output(self) -> str:
        return f"{self.step.error}\n{self.step.observation}"

    @property
    def quotable(self) -> str:
        """A line of the answer that can be quoted, the last of a check and the first of anything else."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip() and not _EXIT_CODE.match(line)]
        return (lines[-1] if self.is_check else lines[0]) if lines else ""

    @property
    def is_check(self) -> bool:
        """Whether the call runs tests or a build."""
        return self.command is not None and (self.command.is_test or self.command.is_build)

    @property
    def is_unknown(self) -> bool:
        """Whether the command itself could not be found."""
        return self.error is not None and self.error.has(ErrorKind.UNKNOWN_NAME)

    @property
    def is_red(self) -> bool:
        return self.is_check and (bool(self.step.error) or is_red(self.output))

    @property
    def is_green(self) -> bool:
        return self.is_check and not self.step.error and is_green(self.output)

    @property
    def only_reads(self) -> bool:
        return self.command.is_reader if self.command else is_read(self.name)

    @property
    def is_edit(self) -> bool:
        return self.command is None and is_edit(self.name)

    def same_as(self, other: "RunCall") -> bool:
        return self.name == other.name and self.arguments == other.arguments


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenTurn:
    """Something the agent said to a person, and the answer."""

    step: EpisodeStep
    said: str
    heard: str

    @property
    def index(self) -> int:
        return self.step.index


@dataclass(frozen=True)
class ReadRun:
    """An episode, read once for all detectors."""

    episode: Episode
    injected: tuple[str, ...] = field(default=())

    @cached_property
    def calls(self) -> tuple[RunCall, ...]:
        """Tool calls in order, without talk, thoughts and sentences."""
        return tuple(
            _read_call(step)
            for step in self.episode.steps
            if step.action
            and not is_talk(step.action.name)
            and not is_thought(step.action.name)
            and not _sentence_of(step)
        )

    @cached_property
    def family(self) -> tuple["ReadRun", ...]:
        """Other runs of the same family, where the reflector was given any. Each has the rest as its own family."""
        runs = self.episode.family
        # By identity: two runs of a family may be equal.
        rest = {id(run): (self.episode, *(other for other in runs if other is not run)) for run in runs}
        return tuple(ReadRun(replace(run, family=rest[id(run)])) for run in runs)

    @cached_property
    def turns(self) -> tuple[SpokenTurn, ...]:
        return tuple(
            SpokenTurn(step=step, said=_sentence_of(step) or _spoken(step.action.arguments), heard=step.observation)
            for step in self.episode.steps
            if step.action and (is_talk(step.action.name) or _sentence_of(step))
        )

    @cached_property
    def closing(self) -> str:
        """What the agent said in its last step, "" if that was a call."""
        return self.turns[-1].said if self.turns and self.turns[-1].step is self.episode.steps[-1] else ""

    @cached_property
    def cut_off(self) -> str:
        """The limit that ended the run, as recorded or in the words of LangChain, smolagents or OpenAI's SDK, or ""."""
        last = self.episode.steps[-1] if self.episode.steps else None
        match = _LIMIT.search(f"{last.error}\n{last.observation}"[-MAX_LIMIT_CHARS:]) if last else None
        return self.episode.cut_off or (match[0] if match else "")

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

    def between(self, first: RunCall, last: RunCall) -> list[RunCall]:
        """Return the calls after one and before another."""
        return [call for call in self.calls if first.index < call.index < last.index]

    def next_same(self, failed: RunCall) -> RunCall | None:
        """Return the first later call with the same tool and arguments that worked."""
        return next((c for c in self.calls if c.index > failed.index and not c.error and c.same_as(failed)), None)

    def next_success(self, failed: RunCall) -> RunCall | None:
        """Return the next call of the same tool that worked."""
        return next((c for c in self.calls if c.index > failed.index and c.name == failed.name and not c.error), None)

    def handover(self) -> RunCall | None:
        return next((call for call in reversed(self.calls) if is_handover(call.name)), None)

    def heard_before(self, index: int) -> str:
        """What people said before a step, including the task as given."""
        opening = [step.observation for step in self.episode.steps[: index - 1] if step.action is None]
        return "\n".join([*opening, *(turn.heard for turn in self.turns if turn.index < index)])

    def source_of(self, value: Any, *, before: int) -> RunCall | None:
        """Return the first call before a step whose answer contains `value` as a whole word."""
        return next((call for call in self.calls if call.index < before and occurs(value, call.answer)), None)

    def latest_source(self, value: Any, *, before: int) -> RunCall | None:
        """Return the last call before a step whose answer contains `value` as a whole word."""
        earlier = (call for call in reversed(self.calls) if call.index < before and not call.error)
        return next((call for call in earlier if occurs(value, call.answer)), None)

    def text_before(self, index: int) -> str:
        """Return the task and everything that was said before a step, also in earlier turns of the conversation."""
        earlier = [text for turn in self.episode.earlier for text in (turn.task, turn.answer)]
        answers = [step.observation for step in self.episode.steps[: index - 1]]
        return "\n".join([*earlier, self.episode.task, *answers])

    def said_by_anyone(self, value: Any, *, before: int) -> bool:
        """Return whether a person mentioned `value` before a step, in conversation or in the task."""
        return occurs(value, self.heard_before(before)) or occurs(value, self.episode.task)

    def cite(self, step: EpisodeStep, quote: str = "", *, last: EpisodeStep | None = None) -> Citation:
        """Return a citation of a step, or of all steps up to `last`, with a quote if it is a fair one."""
        quote = cut(_as_written(quote, step), MAX_QUOTE_CHARS)
        if any(quote in given for given in self.injected):
            # It only repeats a lesson that the run was given.
            quote = ""
        return Citation(first_step=step.index, last_step=(last or step).index, quote=quote)


def _as_written(quote: str, step: EpisodeStep) -> str:
    """Return a quote as it stands in a step: in JSON, a quotation mark has a backslash before it."""
    escaped = json.dumps(quote, ensure_ascii=False)[1:-1]
    texts = (step.observation, step.error)
    return escaped if not any(quote in text for text in texts) and any(escaped in text for text in texts) else quote


def _read_call(step: EpisodeStep) -> RunCall:
    # Calls are steps with an action.
    assert step.action is not None
    name, arguments = step.action.name, step.action.arguments
    command = read_command(name, arguments)
    values = [value for _, value in _leaves(arguments, "") if isinstance(value, str)]
    # Long answers that are no JSON are texts of files or pages.
    is_text = command.is_reader if command else not step.observation.lstrip().startswith("{")
    error = read_error(step, values=values, only_at_start=is_text and len(step.observation) > MAX_SHORT_ANSWER_CHARS)
    return RunCall(step=step, name=name, arguments=arguments, error=error, command=command)


_NOTHING = re.compile(
    r"(?:(?:there (?:are|were) )?no|0|zero) [\w -]{1,40}?"
    r"(?:found|match(?:es|ed|ing)?|results?|rows?|returned|available)\b[\w '\"-]{0,40}"
    r"|(?:the )?(?:query|search|request|lookup) (?:returned|found|gave|produced)(?: an?)? (?:no|nothing|empty|0)\b"
    r"[\w ]{0,20}|nothing (?:was )?found|empty (?:result|set|response|list)s?|none|null|\[\]|\{\}|\w{1,30}\s{1,20}0",
    re.IGNORECASE,
)


def is_empty(call: RunCall) -> bool:
    """Return whether a call that looks for something worked and found nothing, or counted nothing."""
    answer = call.answer.strip()
    if call.error or call.step.error:
        return False
    if not answer:
        return is_read(call.name) and not call.command
    if _NOTHING.fullmatch(answer[: MAX_QUOTE_CHARS + 1].rstrip(".!")):
        return not call.command
    try:
        values = list(json.loads(answer).values()) if answer.startswith("{") else []
    except (ValueError, RecursionError):
        return False
    return any(value == [] for value in values) and all(value in ([], 0, "", None) for value in values)


def occurs(value: Any, text: str) -> bool:
    """Return whether a scalar value occurs in `text` as a whole word."""
    needle = str(value)
    # The plain search first: the regular expression is far slower.
    if len(needle) < 2 or needle not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(needle)}(?!\w)", text) is not None


def is_reference(value: Any) -> bool:
    """Return whether a value looks like an identifier: a word with a digit or underscore, or a code in capitals."""
    if not isinstance(value, str) or not 3 <= len(value) <= 80 or " " in value:
        return False
    # Dates, times and plain numbers can be known without a lookup.
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
    # True and false occur everywhere and trace to nothing.
    elif value is not None and not isinstance(value, bool):
        yield path, value


def _sentence_of(step: EpisodeStep) -> str:
    """Return the sentence that stands where a call should, as in logs of agents that write their actions as text."""
    action = step.action
    if action is None or list(action.arguments) not in ([], ["input"]) or step.observation.strip() or step.error:
        return ""
    text = f"{action.name} {action.arguments.get('input', '')}".strip()
    # Markup or JSON is no name of a tool.
    if text.startswith(("{", "<")) or "\n" in action.name:
        return text
    min_words = MIN_CLOSED_WORDS if text.endswith(".") and not text.endswith("..") else MIN_SENTENCE_WORDS
    return text if _SENTENCE.match(text) and len(text.split()) >= min_words else ""


def _spoken(arguments: dict[str, Any]) -> str:
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else json.dumps(arguments, ensure_ascii=False) if arguments else ""
