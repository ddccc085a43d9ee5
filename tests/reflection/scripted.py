"""A reflector that does what a test tells it, and the calls it made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from memory.heuristics.text import Citation, HeuristicText
from memory.runs.episode import Episode
from reflection.llm.calls import Ask
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult

Plan = Callable[["ScriptedReflector", Episode, tuple[NearHeuristic, ...]], ReflectionResult]


def make_lesson(
    trigger: str = "A cancellation of a basic economy reservation is asked for",
    guideline: str = "Read the fare class with get_reservation_details before cancel_reservation.",
    *,
    citations: tuple[Citation, ...] = (Citation(first_step=1, last_step=2, quote="policy refuses"),),
    covers_existing: Any = None,
    confidence: float | None = 0.8,
    **text: Any,
) -> ProposedLesson:
    words = {"polarity": "avoid", "task_id": "airline.cancel", "source_task": "Cancel a reservation"} | text
    return ProposedLesson(
        text=HeuristicText(trigger=trigger, guideline=guideline, **words),
        citations=citations,
        covers_existing=covers_existing,
        confidence=confidence,
    )


def propose(*lessons: ProposedLesson, skip_reason: str = "") -> Plan:
    """A plan that asks nobody and answers with these lessons."""
    return lambda reflector, episode, near: ReflectionResult(lessons=lessons, skip_reason=skip_reason)


def ask_then(plan: Plan, *, question: str = "What is there to learn?") -> Plan:
    """A plan that asks the model first."""

    def run(reflector: "ScriptedReflector", episode: Episode, near: tuple[NearHeuristic, ...]) -> ReflectionResult:
        reflector.ask("reflect", make_request(question))
        return plan(reflector, episode, near)

    return run


def fail_with(error: BaseException) -> Plan:
    def run(reflector: "ScriptedReflector", episode: Episode, near: tuple[NearHeuristic, ...]) -> ReflectionResult:
        raise error

    return run


def make_request(question: str, *, max_output_tokens: int = 100) -> ChatRequest:
    return ChatRequest.single(system="Learn.", user=question, max_output_tokens=max_output_tokens)


@dataclass(kw_only=True)
class ScriptedReflector:
    """Follows its plan. Called with `ask=`, it is its own factory."""

    plan: Plan
    name: str = "scripted"
    version: str = "1"
    reads_near: bool = True
    reads_family: bool = False
    reads_tries: bool = False
    ask: Ask = lambda step, request: make_completion()
    episodes: list[Episode] = field(default_factory=list)
    near: list[tuple[NearHeuristic, ...]] = field(default_factory=list)

    def __call__(self, *, ask: Ask) -> "ScriptedReflector":
        self.ask = ask
        return self

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...]) -> ReflectionResult:
        self.episodes.append(episode)
        self.near.append(near)
        return self.plan(self, episode, near)


@dataclass(kw_only=True)
class ScriptedModel:
    """Answers every question, or raises, and counts. Refuses to be asked inside a transaction."""

    error: Exception | None = None
    text: str = "{}"
    input_tokens: int = 10
    output_tokens: int = 5
    before: Callable[[], None] = lambda: None
    calls: int = 0
    transactions: int = field(default_factory=lambda: len(connection.atomic_blocks))

    def __call__(self, step: str, request: ChatRequest) -> ChatAnswer:
        assert len(connection.atomic_blocks) <= self.transactions, "a model was asked inside a transaction"
        self.calls += 1
        self.before()
        if self.error is not None:
            raise self.error
        return make_completion(text=self.text, input_tokens=self.input_tokens, output_tokens=self.output_tokens)


def make_completion(**overrides: Any) -> ChatAnswer:
    fields: dict[str, Any] = {
        "text": "{}",
        "finish_reason": "stop",
        "input_tokens": 10,
        "output_tokens": 5,
        "model": "scripted-1",
        "latency_ms": 1.0,
    }
    return ChatAnswer(**fields | overrides)
