"""Ask the model on behalf of a job so that no answer is paid for twice (reliability A10, B4, B11)."""

import re
from collections.abc import Callable
from typing import Any, Protocol

from django.db import transaction
from django.db.models import F

from memory.tracing import span
from reflection.errors import LostClaim
from reflection.jobs.models import Job
from reflection.llm import breaker, budget
from reflection.llm.base import (
    STREAM_FAILED,
    Completion,
    CompletionRequest,
    OnText,
    Provider,
    ProviderError,
    storable,
)
from reflection.llm.chat import ChatAnswer, ChatRequest, read_calls, stored_calls
from reflection.llm.models import ModelCall, Reservation
from reflection.llm.registry import configured_name, get_provider

# Asks a model: a step's name and a question in, the answer out. `RememberedAsk` keeps answers, costs and budgets.
Ask = Callable[[str, CompletionRequest], Completion]

ECHOED_WORDS = 6
# Failures after which it is not known whether the provider worked, and charges, for the question
MAYBE_CHARGED = frozenset({"timeout", "connection", "bad_envelope", "response_too_large", STREAM_FAILED})
_WORD = re.compile(r"\w+")


class Claim(Protocol):
    """Says whether this worker still holds its job; a `Heartbeat` does."""

    def ensure_held(self) -> None: ...


class _Remembered:
    """Asks once for each question of a job, or of what its jobs work on: a later attempt finds the earlier answer.

    The answer and what it cost are committed as soon as it came. No transaction is open during the call.
    """

    def __init__(self, job: Job, claim: Claim, *, provider: str, circuit: str, subject: str = "") -> None:
        self._job = job
        self._claim = claim
        self._provider = provider
        self._circuit = circuit
        self._subject = subject

    def _recall(self, step: str, request: CompletionRequest | ChatRequest) -> ModelCall | None:
        asked_before = ModelCall.objects.filter(step=step, prompt_sha256=request.sha256, subject=self._subject)
        if self._subject:
            return asked_before.filter(project=self._job.project_id).first()
        return asked_before.filter(job=self._job.pk).first()

    def _pay(self, step: str, request: CompletionRequest | ChatRequest, ask: Callable[[], Completion]) -> ModelCall:
        """Ask within the budget, and keep the answer.

        Raises:
            BudgetExhausted: the project has none left today.
            CircuitOpen: the provider rests for a while.
            LostClaim: another worker holds the job.
            ProviderError: there is no answer.
        """
        self._claim.ensure_held()
        with breaker.admitted(self._circuit) as is_probe:
            reservation = budget.reserve(self._job.project, request, job=self._job)
            try:
                with span("model call", **{"erl.step": step, "gen_ai.provider.name": self._provider}):
                    answer = ask()
            except ProviderError as error:
                breaker.note_failure(self._circuit, error)
                (budget.keep if error.code in MAYBE_CHARGED else budget.release)(reservation)
                if is_probe and breaker.is_down(error):  # the job that tried for all loses no attempt by it
                    breaker.refuse(self._circuit)
                raise without_echo(error, request) from error
            breaker.note_answer(self._circuit)
        return self._store(step, request, answer, reservation)

    def _store(
        self,
        step: str,
        request: CompletionRequest | ChatRequest,
        answer: Completion,
        reservation: Reservation,
    ) -> ModelCall:
        with transaction.atomic():
            cost = budget.settle(reservation, answer)
            rows = Job.objects.filter(pk=self._job.pk)
            if rows.select_for_update(no_key=True).exists():
                # A worker that lost its claim during the call may find the answer of the other: the first one stays.
                key = {"project_id": self._job.project_id} if self._subject else {"job_id": self._job.pk}
                call, is_new = ModelCall.objects.get_or_create(
                    **key,
                    subject=self._subject,
                    step=step,
                    prompt_sha256=request.sha256,
                    defaults={
                        "project_id": self._job.project_id,
                        "job_id": self._job.pk,
                        "provider": self._provider,
                        "model": answer.model,
                        "response": storable(answer.text),
                        "tool_calls": stored_calls(answer.tool_calls) if isinstance(answer, ChatAnswer) else [],
                        "received": answer.received if isinstance(answer, ChatAnswer) and self._subject else None,
                        "finish_reason": answer.finish_reason,
                        "input_tokens": answer.input_tokens,
                        "output_tokens": answer.output_tokens,
                        "cost_usd": cost,
                        "latency_ms": answer.latency_ms,
                        "attempt": self._job.attempts,
                    },
                )
                if is_new:
                    rows.update(
                        model=answer.model,
                        input_tokens=F("input_tokens") + answer.input_tokens,
                        output_tokens=F("output_tokens") + answer.output_tokens,
                        cost_usd=F("cost_usd") + cost,
                    )
                return call
        raise LostClaim("The job was erased during the call.")  # the call is paid for anyway


class RememberedAsk(_Remembered):
    """Asks once for each question of a job; a later attempt finds the answer of an earlier one."""

    def __init__(self, job: Job, claim: Claim, *, ask_model: Ask) -> None:
        super().__init__(job, claim, provider=configured_name(), circuit=configured_name())
        self._ask_model = ask_model

    def __call__(self, step: str, request: CompletionRequest) -> Completion:
        """Return the stored or a new answer; raise what `_pay` raises."""
        call = self._recall(step, request) or self._pay(step, request, lambda: self._ask_model(step, request))
        self._job.model = call.model
        return Completion(**_common(call))


class RememberedChat(_Remembered):
    """Continues a conversation once for each state of it; a later attempt finds the answer of an earlier one.

    With a `subject`, such as the id of a run, every job of the project that works on it finds the answers. A stored
    answer is not streamed again. Chats have a circuit of their own: where long questions of reflections fail, the short
    ones of agents, perhaps to another model, may well be answered.
    """

    def __init__(self, job: Job, claim: Claim, *, provider: Provider, subject: str = "") -> None:
        super().__init__(job, claim, provider=provider.name, circuit=f"{provider.name} (chats)", subject=subject)
        self._chat = provider.chat

    def __call__(
        self, step: str, request: ChatRequest, *, on_text: OnText | None = None
    ) -> tuple[ChatAnswer, ModelCall]:
        """Return the stored or a new answer, and its row in the ledger; raise what `_pay` raises."""
        call = self._recall(step, request) or self._pay(step, request, lambda: self._chat(request, on_text=on_text))
        self._job.model = call.model
        return read_chat(call), call


def read_chat(call: ModelCall) -> ChatAnswer:
    """Return the answer that the ledger keeps."""
    return ChatAnswer(**_common(call), tool_calls=read_calls(call.tool_calls), received=call.received)


def _common(call: ModelCall) -> dict[str, Any]:
    names = ("finish_reason", "input_tokens", "output_tokens", "model", "latency_ms")
    return {"text": call.response} | {name: getattr(call, name) for name in names}


def ask_provider(step: str, request: CompletionRequest) -> Completion:
    """Ask the configured provider, keeping nothing."""
    return get_provider().complete(request)


def without_echo(error: ProviderError, request: CompletionRequest | ChatRequest) -> ProviderError:
    """Return the failure, without the provider's words where they repeat the question and so perhaps the run."""
    said = _WORD.findall(str(error).lower())
    asked = f" {' '.join(_WORD.findall(request.asked_text.lower()))} "
    shingles = (" ".join(said[start : start + ECHOED_WORDS]) for start in range(len(said) - ECHOED_WORDS + 1))
    if not any(f" {shingle} " in asked for shingle in shingles):
        return error
    return ProviderError(
        f"The provider answered {error.status or 'with an error'} and repeated a part of the question.",
        transient=error.transient,
        retry_after_seconds=error.retry_after_seconds,
        code=error.code,
        status=error.status,
    )
