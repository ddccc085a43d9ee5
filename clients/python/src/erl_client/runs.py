"""A run that is open: what the agent says about it until its block ends."""

import json
import logging
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import datetime, timezone
from threading import Lock
from typing import Any
from uuid import uuid4

from erl_client.calls import CallLog
from erl_client.plain import as_plain, as_text, cut, fit
from erl_client.transcripts.lesson_blocks import NO_TASK
from erl_client.transcripts.log import Log, Transcript, UnreadableTranscript
from erl_client.transcripts.messages import read_message
from erl_client.transcripts.traces import Span, transcripts_of

log = logging.getLogger("erl_client")

SOURCES = ("agent", "environment", "test", "human", "judge")
_current: ContextVar["Run | None"] = ContextVar("erl_run", default=None)


def current_run() -> "Run | None":
    """Return the run whose block this code is in, None outside of one."""
    return _current.get()


class Run:
    """One run of an agent. Its methods only take notes: what they are told is recorded when the block ends.

    `context` is the text of lessons to put into the prompt, "" where there are none; `retrieval_id` names the answer
    they came with; `lessons` has them one by one. `system_prompt`, `user_id`, `tools`, `tags`, `model`, `tokens`,
    `cost_usd`, `summary` and `metadata` may be set, and are recorded with the run. `parent_id` is the id of the run
    that called this one.
    """

    def __init__(
        self,
        task: str,
        *,
        family: str = "",
        agent: str = "",
        user_id: str = "",
        external_id: str = "",
        parent_id: str = "",
    ) -> None:
        self.task = task
        self.family = family
        self.agent = agent
        self.user_id = user_id
        self.external_id = external_id or str(uuid4())
        self.parent_id = parent_id
        self.context = ""
        self.retrieval_id: str | None = None
        self.lessons: list[dict[str, Any]] = []
        self.system_prompt = ""
        self.tools: list[Any] = []
        self.tags: list[str] = []
        self.model = ""
        self.tokens: int | None = None
        self.cost_usd: float | None = None
        self.summary = ""
        self.metadata: dict[str, Any] = {}
        self.calls = CallLog()
        self.spans: list[Span] = []
        self._messages: list[Any] = []
        self._steps: list[dict[str, Any]] = []
        self._outcome: dict[str, Any] = {}
        self._error = ""
        self._started_at = _now()
        self._inner: list[dict[str, Any]] = []
        self._has_agent = False
        self._has_ended = False
        self._changing = Lock()

    def messages(self, messages: Iterable[Any]) -> None:
        """Tell the whole chat log, in the form of any SDK or framework. The last log that is told counts.

        Takes the place of calls that a wrapped client captured.
        """
        self._messages = list(messages)

    def step(
        self, tool: str = "", arguments: Any = None, *, thought: str = "", observation: Any = "", error: str = ""
    ) -> None:
        """Tell one step: the tool that was called, with what, and what it returned. Follows the chat log, if any."""
        arguments = {} if arguments is None else as_plain(arguments)
        if not isinstance(arguments, dict):
            arguments = {"input": arguments}
        self._steps.append(
            {
                "thought": thought,
                "action": {"name": tool, "arguments": arguments} if tool else None,
                "observation": observation if isinstance(observation, str) else _json(observation),
                "error": error,
            }
        )

    def success(self, *, score: float | None = None, source: str = "agent") -> None:
        """Tell that the task was done. `score` is from 0 to 1; `source` says who judged it, one of `SOURCES`."""
        self._end("success", score, source)

    def failure(self, *, score: float | None = None, source: str = "agent", reason: str = "") -> None:
        """Tell that the task was not done, and why."""
        self._end("failure", score, source)
        if reason:
            self._error = reason

    @property
    def has_outcome(self) -> bool:
        return bool(self._outcome)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of what the agent did."""
        return not (self._messages or self._steps or self.spans or self.calls.messages())

    def end_with(self, error: BaseException) -> None:
        """Take note of an exception that ended the run: a failure, and unknown where the run was only stopped."""
        self._error = f"{type(error).__name__}: {error}"
        if not self._outcome:
            self._outcome = {"outcome": "failure" if isinstance(error, Exception) else "unknown"}

    def claim(self) -> bool:
        """Let an agent of a framework write its notes here, and tell whether it may: a run takes one at a time."""
        with self._changing:
            is_free, self._has_agent = not self._has_agent, True
        return is_free

    def release(self) -> None:
        """Let another agent follow the one that has ended."""
        self._has_agent = False

    def hold(self, bodies: Iterable[dict[str, Any]]) -> bool:
        """Keep the records of a run inside this one until this one ends: ERL has to know the caller first.

        Returns False where this one has ended.
        """
        with self._changing:
            if not self._has_ended:
                self._inner += bodies
            return not self._has_ended

    def end(self) -> list[dict[str, Any]]:
        """Return all there is to record: the run, and then those inside it. Nothing where it ended before."""
        with self._changing:
            ended_before, self._has_ended = self._has_ended, True
        return [] if ended_before else [*self.bodies(), *self._inner]

    def body(self) -> dict[str, Any]:
        """Return the run as `POST /api/v1/trajectories` takes it."""
        return self.bodies()[0]

    def bodies(self) -> list[dict[str, Any]]:
        """Return the run, and those of the agents that its spans say it called."""
        if self._messages or not (traced := self._traced()):
            return [self._body(self._told(), [] if self._messages else self.calls.errors())]
        own, *called = traced
        return [
            self._body(own),
            *(fit(as_plain({"task_id": self.family, "task": NO_TASK, **sub.fields()})) for sub in called),
        ]

    def _traced(self) -> list[Transcript]:
        """Return what the spans say, nothing where no agent was at work in them."""
        if all(span.kind == "other" for span in self.spans):
            return []
        for span in self.spans:
            span.trace = self.external_id
        try:
            return transcripts_of(self.spans, format="")
        except UnreadableTranscript:
            log.warning("The spans of a run cannot be read.", exc_info=True)
            return []

    def _told(self) -> Transcript:
        """Return what the messages say, those that were told or else those of the calls."""
        notes = Log()
        notes.task = self.task
        messages = self._messages or [*self.calls.instructions, *self.calls.messages()]
        for number, message in enumerate(as_plain(messages)):
            _read(notes, message, f"messages[{number}]")
        return notes.transcript(task=self.task)

    def _body(self, said: Transcript, errors: Iterable[str] = ()) -> dict[str, Any]:
        steps = [*said.steps, *self._steps, *({"error": text} for text in [*errors, self._error] if text)]
        metadata = {**said.metadata, **self.metadata}
        if said.left_out:
            metadata["left_out"] = said.left_out
        task = next((task for task in (self.task, said.task, self.family.strip()) if task.strip()), NO_TASK)
        fields: dict[str, Any] = {
            "task": task,
            "task_id": self.family.strip(),
            "agent": self.agent or said.agent,
            "user_id": self.user_id or said.user_id,
            "external_id": self.external_id,
            "parent_id": self.parent_id,
            "retrieval_id": self.retrieval_id,
            "started_at": min(self._started_at, said.started_at or self._started_at),
            "ended_at": max(self._started_at, _now()),  # the clock may have been set back
            "model": self.model or self.calls.model or said.model,
            "tokens": self.tokens if self.tokens is not None else self.calls.tokens or said.tokens,
            "cost_usd": self.cost_usd,
            "tags": self.tags,
            "summary": cut(self.summary, 20_000),
            "tools": self.tools or self.calls.tools or said.tools,
            "system_prompt": self.system_prompt or said.system_prompt,
            "metadata": metadata,
            "steps": [{**step, "index": number} for number, step in enumerate(steps, start=1)],
            **self._outcome,
        }
        plain = {name: as_plain(value) for name, value in fields.items() if value not in (None, "", [], {})}
        return fit(plain)

    def _end(self, outcome: str, score: float | None, source: str) -> None:
        self._outcome = {"outcome": outcome, "outcome_source": source}
        if source not in SOURCES:
            log.warning("The source of an outcome is one of %s, not %r.", ", ".join(SOURCES), source)
            self._outcome["outcome_source"] = "agent"
            self.metadata["source"] = source
        if score is None:
            return
        contradicts = (outcome, score) in (("success", 0), ("failure", 1))
        if isinstance(score, int | float) and 0 <= score <= 1 and not contradicts:
            self._outcome["score"] = float(score)
        else:
            log.warning("The score %r of a %s cannot be recorded: scores are from 0 to 1.", score, outcome)
            self.metadata["score"] = str(score)


def _read(notes: Log, message: Any, where: str) -> None:
    """Read a message, and keep one in no known form as a text."""
    try:
        read_message(notes, message, where)
    except UnreadableTranscript as error:
        notes.note({"unreadable": str(error)})
        notes.hear(_json(message))


def _json(value: Any) -> str:
    plain = as_plain(value)
    return plain if isinstance(plain, str) else as_text(json.dumps(plain, ensure_ascii=False))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()
