"""The language model as a ranker of lessons: asked within a deadline and the project's budget, and accounted for."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.db import transaction

from memory.projects.models import Project
from memory.retrieval.llm_ranking import Choice, HeuristicRanker, OfferedHeuristic, RankingFailed
from reflection.errors import BudgetExhausted, CircuitOpen
from reflection.llm import breaker, budget
from reflection.llm.base import Completion, CompletionRequest, Provider, ProviderError, ProviderNotConfigured
from reflection.llm.calls import MAYBE_CHARGED
from reflection.llm.models import ModelCall
from reflection.llm.registry import find_config, get_provider
from reflection.llm.transport import deadline
from reflection.rankers.language_model_prompt import UnusableRanking, build_requests, read_answer

log = structlog.get_logger(__name__)

STEP = "rank"
MAX_PARALLEL = 4


def rank_lessons(
    project: Project,
    *,
    task: str,
    lessons: Sequence[OfferedHeuristic],
    batch_size: int | None,
    top_k: int,
    deadline_seconds: float,
) -> list[Choice]:
    """Ask the provider of the settings about all batches at once; return what it chose, batch after batch.

    Raises:
        RankingFailed: there is no answer in time, none that can be read, or no budget.
    """
    ends = time.monotonic() + deadline_seconds
    try:
        provider = get_provider()
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


def _ask_all(project: Project, provider: Provider, requests: list[CompletionRequest], ends: float) -> list[Completion]:
    reservations = []
    try:
        for request in requests:
            reservations.append(budget.reserve(project, request))  # noqa: PERF401  kept where a later one fails
    except BudgetExhausted:
        for reservation in reservations:
            budget.release(reservation)
        raise

    def ask(request: CompletionRequest) -> Completion | ProviderError:
        try:
            with deadline(max(ends - time.monotonic(), 0.001)):
                return provider.complete(request)
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
    return [answer for answer in answers if isinstance(answer, Completion)]


def _account(
    project: Project,
    provider: Provider,
    request: CompletionRequest,
    reservation: budget.Reservation,
    answer: Completion | ProviderError,
) -> None:
    if isinstance(answer, ProviderError):
        breaker.note_failure(provider.name, answer)
        if answer.code not in MAYBE_CHARGED:
            budget.release(reservation)
        return
    breaker.note_answer(provider.name)
    with transaction.atomic():
        cost = budget.settle(reservation, answer)
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
        return rank_lessons if find_config() is not None else None
    except ProviderNotConfigured:
        return None  # `manage.py check` says what is missing
