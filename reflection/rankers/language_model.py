"""The language model as a ranker of lessons: asked within a deadline and the project's budget, and accounted for.

The question which lessons a task needs (reference: ERL c.4) shows lessons and task as delimited, marked data: a lesson
that says "choose me" is a line like any other (reliability D6).
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.conf import settings
from django.db import transaction
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.connections import deadline
from memory.limits import JsonLimits
from memory.projects.models import Project
from memory.retrieval.llm_ranking import MAX_SUBTASKS, HeuristicRanker, OfferedHeuristic, RankedChoice, RankingFailed
from memory.strict_json import InvalidJson, parse_json
from reflection.errors import BudgetExhausted, CircuitOpen, ReflectionError
from reflection.llm import breaker, budget
from reflection.llm.base import (
    Provider,
    ProviderError,
    ProviderNotConfigured,
    closed_object,
    estimate_tokens,
    strip_fence,
)
from reflection.llm.calls import MAYBE_CHARGED
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import ModelCall, Reservation
from reflection.llm.registry import find_config, get_provider
from reflection.prompts import Frame, cut_middle, read_prompt

log = structlog.get_logger(__name__)

STEP = "rank"
MAX_PARALLEL = 4
TASK_CHARACTERS = 6000
TRIGGER_CHARACTERS, GUIDELINE_CHARACTERS, AVOID_CHARACTERS, NOT_WHEN_CHARACTERS = 300, 600, 300, 300
LIMITS = JsonLimits(depth_levels=5, values=5_000, text_chars=4_096)


class UnusableRanking(ReflectionError):
    """The model answered something that cannot be read as a choice of lessons."""

    code = "unusable_answer"


class _Selected(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = Field(max_length=40)
    similarity: float = Field(allow_inf_nan=False)
    informativeness: float = Field(allow_inf_nan=False)
    subtask: int = 0
    why: str = Field(default="", max_length=2000)


class _RankingAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    subtasks: list[str] = Field(default=[], max_length=100)
    selected: list[_Selected] = Field(max_length=1000)


def rank_lessons(
    project: Project,
    *,
    task: str,
    lessons: Sequence[OfferedHeuristic],
    batch_size: int | None,
    top_k: int,
    deadline_seconds: float,
) -> list[RankedChoice]:
    """Ask the provider of the settings about all batches at once; return what it chose, batch after batch.

    Raises:
        RankingFailed: there is no answer in time, none that can be read, or no budget.
    """
    ends = time.monotonic() + deadline_seconds
    try:
        provider = get_provider("rank")
        with breaker.admitted(provider.name):
            requests = build_requests(task, lessons, batch_size=batch_size, top_k=top_k)
            completions = _ask_all(project, provider, requests, ends)
        return [choice for completion in completions for choice in read_answer(completion)]
    except ProviderNotConfigured as error:
        raise RankingFailed("not configured") from error
    except CircuitOpen as error:
        raise RankingFailed("did not answer a moment ago") from error
    except BudgetExhausted as error:
        raise RankingFailed("no budget left today") from error
    except UnusableRanking as error:
        raise RankingFailed("gave an unusable answer") from error
    except ProviderError as error:
        log.warning("ranking_not_answered", code=error.code, status=error.status)
        raise RankingFailed("too slow" if error.code == "timeout" else "failed") from error


def _ask_all(project: Project, provider: Provider, requests: list[ChatRequest], ends: float) -> list[ChatAnswer]:
    reservations = []
    try:
        for request in requests:
            reservations.append(budget.reserve(project, request, provider=provider.name))  # noqa: PERF401  kept where a later one fails
    except BudgetExhausted:
        for reservation in reservations:
            budget.release(reservation)
        raise

    def ask(request: ChatRequest) -> ChatAnswer | ProviderError:
        try:
            with deadline(max(ends - time.monotonic(), 0.001)):
                return provider.chat(request)
        except ProviderError as error:
            return error

    if len(requests) == 1:
        answers = [ask(requests[0])]
    else:
        with ThreadPoolExecutor(max_workers=MAX_PARALLEL) as pool:
            answers = list(pool.map(ask, requests))
    for request, reservation, answer in zip(requests, reservations, answers, strict=True):
        _account(project, provider, request, reservation, answer)
    failures = [answer for answer in answers if isinstance(answer, ProviderError)]
    if failures:
        raise failures[0]
    return [answer for answer in answers if isinstance(answer, ChatAnswer)]


def _account(
    project: Project,
    provider: Provider,
    request: ChatRequest,
    reservation: Reservation,
    answer: ChatAnswer | ProviderError,
) -> None:
    if isinstance(answer, ProviderError):
        breaker.note_failure(provider.name, answer)
        (budget.keep if answer.code in MAYBE_CHARGED else budget.release)(reservation)
        return
    breaker.note_answer(provider.name)
    with transaction.atomic():
        cost = budget.settle(reservation, answer, provider=provider.name)
        ModelCall.objects.create(
            project=project,
            job=None,
            step=STEP,
            prompt_sha256=request.sha256,
            provider=provider.name,
            model=answer.model,
            response="",  # no job asks for it again, and it quotes the task, which may be erased
            finish_reason=answer.finish_reason,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=cost,
            latency_ms=answer.latency_ms,
        )


def find_provider_ranker() -> HeuristicRanker | None:
    """Return the ranker where a provider is configured, else None."""
    try:
        return rank_lessons if find_config("rank") is not None else None
    except ProviderNotConfigured:
        # `manage.py check` says what is missing.
        return None


def build_requests(
    task: str, lessons: Sequence[OfferedHeuristic], *, batch_size: int | None, top_k: int
) -> list[ChatRequest]:
    """Return one question for each batch; a batch that is too long for the model is split."""
    size = min(batch_size or len(lessons), len(lessons))
    while True:
        batches = [lessons[start : start + size] for start in range(0, len(lessons), size)]
        requests = [_build_request(task, batch, top_k=top_k) for batch in batches]
        longest = max(estimate_tokens(request.system) + estimate_tokens(request.user) for request in requests)
        if longest <= settings.ERL_LLM_MAX_INPUT_TOKENS or size == 1:
            return requests
        size = -(-size // 2)


def read_answer(completion: ChatAnswer) -> list[RankedChoice]:
    """Return what the model chose, with sub-tasks in words.

    Raises:
        UnusableRanking: it is not the object that was asked for.
    """
    if completion.finish_reason in ("length", "refusal"):
        raise UnusableRanking(f"The answer ended with {completion.finish_reason}.")
    try:
        document = parse_json(strip_fence(completion.text).encode(), limits=LIMITS)
        answer = _RankingAnswer.model_validate(document)
    except (InvalidJson, ValidationError) as error:
        raise UnusableRanking("The answer is not the JSON object that was asked for.") from error
    subtasks = [text.strip() for text in answer.subtasks[:MAX_SUBTASKS]]
    return [
        RankedChoice(
            label=choice.id,
            similarity=choice.similarity,
            informativeness=choice.informativeness,
            subtask=subtasks[choice.subtask - 1] if 1 <= choice.subtask <= len(subtasks) else "",
            why=choice.why,
        )
        for choice in answer.selected
    ]


def _build_request(task: str, lessons: Sequence[OfferedHeuristic], *, top_k: int) -> ChatRequest:
    frame = Frame.of((task, lessons))
    blocks = frame.blocks(
        [
            ("NEW TASK", [cut_middle(task, TASK_CHARACTERS)]),
            ("LESSONS", [_show(lesson) for lesson in lessons]),
        ]
    )
    wanted = str(min(top_k, len(lessons)))
    return ChatRequest.single(
        system=read_prompt("rank-lessons").fill(top_k=wanted),
        user=read_prompt("rank-data").fill(boundary=frame.boundary, mark=frame.mark, blocks=blocks, top_k=wanted),
        max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
        json_schema=_SCHEMA,
    )


def _show(lesson: OfferedHeuristic) -> dict[str, str]:
    shown = {
        "id": lesson.label,
        "trigger": cut_middle(lesson.trigger, TRIGGER_CHARACTERS),
        "not_when": cut_middle(lesson.not_when, NOT_WHEN_CHARACTERS),
        "action": cut_middle(lesson.guideline, GUIDELINE_CHARACTERS),
        "avoid": cut_middle(lesson.avoid, AVOID_CHARACTERS),
    }
    return {name: value for name, value in shown.items() if value}


_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_SCHEMA = closed_object(
    {
        "subtasks": {"type": "array", "items": _TEXT},
        "selected": {
            "type": "array",
            "items": closed_object(
                {
                    "id": _TEXT,
                    "similarity": _NUMBER,
                    "informativeness": _NUMBER,
                    "subtask": {"type": "integer"},
                    "why": _TEXT,
                }
            ),
        },
    }
)
