"""Ask the model on behalf of a job so that no answer is paid for twice (reliability A10, B4, B11)."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from django.db import transaction
from django.db.models import F

from memory.insert_once import insert_once
from memory.tracing import span
from reflection.errors import LostClaim
from reflection.jobs.models import Job
from reflection.llm import breaker, budget
from reflection.llm.base import STREAM_FAILED, OnText, Provider, ProviderError, storable
from reflection.llm.chat import ChatAnswer, ChatRequest, read_calls, stored_calls
from reflection.llm.models import ModelCall, Reservation
from reflection.llm.registry import Use, get_provider, name_of

# Asks a model: a step's name and a question in, the answer out. `RememberedAsk` keeps answers, costs and budgets.
Ask = Callable[[str, ChatRequest], ChatAnswer]

ECHOED_WORDS = 6
# Failures after which it is not known whether the provider worked, and charges, for the question
MAYBE_CHARGED = frozenset({"timeout", "connection", "bad_envelope", "response_too_large", STREAM_FAILED})
_WORD = re.compile(r"\w+")


class Claim(Protocol):
    """Says whether this worker still holds its job; a `Heartbeat` does."""

    def ensure_held(self) -> None: ...


class Asked:
    """A question that is under way, within the budget and the circuit of its provider. `store` is called once."""

    def __init__(
        self,
        remembered: "_Remembered",
        step: str,
        request: ChatRequest,
        begin: "Callable[[], Future[Any]]",
    ) -> None:
        self._remembered = remembered
        self._step = step
        self._request = request
        # Asked before any money is set aside: a provider that rests costs nothing.
        self._is_probe = breaker.admit(remembered.circuit)
        try:
            self._reservation = budget.reserve(
                remembered.job.project, request, job=remembered.job, provider=remembered.provider
            )
            self.answer: Future[Any] = begin()
        # Whatever stopped it, the probe asked nothing: without this no call could probe for minutes.
        except BaseException:
            self._end_probe()
            raise

    def give_up(self) -> None:
        """Close the connection to the provider. What it may have charged counts as spent."""
        self.answer.cancel()
        budget.keep(self._reservation)
        self._end_probe()

    def store(self) -> ModelCall:
        """Wait for the answer, keep it and what it cost, and return its row in the ledger.

        Raises:
            CircuitOpen: the provider rests for a while.
            LostClaim: the job is gone.
            ProviderError: there is no answer.
        """
        circuit = self._remembered.circuit
        try:
            answer = self.answer.result()
        except ProviderError as error:
            breaker.note_failure(circuit, error)
            # After a broken connection the provider may still charge, so the amount counts as spent.
            (budget.keep if error.code in MAYBE_CHARGED else budget.release)(self._reservation)
            # The job whose call was the probe for all jobs loses no attempt by it.
            if self._is_probe and breaker.is_down(error):
                breaker.refuse(circuit)
            raise without_echo(error, self._request) from error
        else:
            breaker.note_answer(circuit)
        finally:
            self._end_probe()
        return self._remembered.keep(self._step, self._request, answer, self._reservation)

    def _end_probe(self) -> None:
        """Let another call probe the provider where this one asked nothing after all."""
        if self._is_probe:
            breaker.give_back(self._remembered.circuit)


class _Remembered:
    """Asks once for each question of a job, or of what its jobs work on: a later attempt finds the earlier answer.

    The answer and what it cost are committed as soon as it came. No transaction is open during the call.
    """

    def __init__(self, job: Job, claim: Claim, *, provider: str, circuit: str, subject: str = "") -> None:
        self.job = job
        self.circuit = circuit
        self._claim = claim
        self.provider = provider
        self._subject = subject

    def _recall(self, step: str, sha256: str) -> ModelCall | None:
        asked_before = ModelCall.objects.filter(step=step, prompt_sha256=sha256, subject=self._subject)
        # A subject is shared by several jobs, so its answers are found whatever job asked.
        if self._subject:
            return asked_before.filter(project=self.job.project_id).first()
        return asked_before.filter(job=self.job.pk).first()

    def _begin(self, step: str, request: ChatRequest, begin: "Callable[[], Future[Any]]") -> Asked:
        """Ask within the budget.

        Raises:
            BudgetExhausted: the project has none left today.
            CircuitOpen: the provider rests for a while.
            LostClaim: another worker holds the job.
        """
        self._claim.ensure_held()
        with span("model call", **{"erl.step": step, "gen_ai.provider.name": self.provider}):
            return Asked(self, step, request, begin)

    def keep(
        self,
        step: str,
        request: ChatRequest,
        answer: ChatAnswer,
        reservation: Reservation,
    ) -> ModelCall:
        """Write an answer and what it cost; the first one stays where two came."""
        with transaction.atomic():
            cost = budget.settle(reservation, answer, provider=self.provider)
            rows = Job.objects.filter(pk=self.job.pk)
            # The lock keeps an erasure from deleting the job between this check and the new row.
            if rows.select_for_update(no_key=True).exists():
                # A worker that lost its claim during the call may find the answer of the other: the first one stays.
                call = ModelCall(
                    project_id=self.job.project_id,
                    job_id=self.job.pk,
                    subject=self._subject,
                    step=step,
                    prompt_sha256=request.sha256,
                    provider=self.provider,
                    model=answer.model,
                    response=storable(answer.text),
                    tool_calls=stored_calls(answer.tool_calls),
                    received=answer.received if self._subject else None,
                    finish_reason=answer.finish_reason,
                    input_tokens=answer.input_tokens,
                    output_tokens=answer.output_tokens,
                    cost_usd=cost,
                    latency_ms=answer.latency_ms,
                    attempt=self.job.attempts,
                )
                if not insert_once(call):
                    return self._recall(step, request.sha256) or call
                rows.update(
                    model=answer.model,
                    input_tokens=F("input_tokens") + answer.input_tokens,
                    output_tokens=F("output_tokens") + answer.output_tokens,
                    cost_usd=F("cost_usd") + cost,
                )
                return call
        # The call is paid for anyway.
        raise LostClaim("The job was erased during the call.")


class RememberedAsk(_Remembered):
    """Asks once for each question of a job; a later attempt finds the answer of an earlier one."""

    def __init__(self, job: Job, claim: Claim, *, ask_model: Ask, use: Use = "") -> None:
        name = name_of(use)
        super().__init__(job, claim, provider=name, circuit=name)
        self._ask_model = ask_model

    def __call__(self, step: str, request: ChatRequest) -> ChatAnswer:
        """Return the stored or a new answer; raise what `_begin` and `Asked.store` raise."""
        call = self._recall(step, request.sha256)
        if call is None:
            call = self._begin(step, request, lambda: _ended(lambda: self._ask_model(step, request))).store()
        self.job.model = call.model
        return read_chat(call)


class RememberedChat(_Remembered):
    """Continues a conversation once for each state of it; a later attempt finds the answer of an earlier one.

    With a `subject`, such as the id of a run, every job of the project that works on it finds the answers. A stored
    answer is not streamed again. Chats have a circuit of their own: where long questions of reflections fail, the short
    ones of agents, perhaps to another model, may well be answered.
    """

    def __init__(self, job: Job, claim: Claim, *, provider: Provider, subject: str = "") -> None:
        super().__init__(job, claim, provider=provider.name, circuit=f"{provider.name} (chats)", subject=subject)
        self._chat_with = provider

    def __call__(
        self, step: str, request: ChatRequest, *, on_text: OnText | None = None
    ) -> tuple[ChatAnswer, ModelCall]:
        """Return the stored or a new answer, and its row in the ledger; raise what `begin` and `Asked.store` raise."""
        call = self._recall(step, request.sha256)
        if call is None:
            chat = partial(self._chat_with.chat, request, on_text=on_text)
            call = self._begin(step, request, lambda: _ended(chat)).store()
        self.job.model = call.model
        return read_chat(call), call

    def recall(self, step: str, sha256: str) -> tuple[ChatAnswer, ModelCall] | None:
        """Return the stored answer to a question with this hash, and its row in the ledger."""
        call = self._recall(step, sha256)
        return (read_chat(call), call) if call is not None else None

    def begin(self, step: str, request: ChatRequest, *, on_text: OnText | None = None) -> Asked:
        """Ask, and wait for nothing; `on_text` is called from another thread and must not wait either."""
        return self._begin(step, request, lambda: self._chat_with.start(request, on_text=on_text))


def _ended(ask: "Callable[[], ChatAnswer]") -> "Future[ChatAnswer]":
    """Return a question that was asked and answered in this thread."""
    ended: Future[ChatAnswer] = Future()
    try:
        ended.set_result(ask())
    except ProviderError as error:
        ended.set_exception(error)
    return ended


def read_chat(call: ModelCall) -> ChatAnswer:
    """Return the answer that the ledger keeps."""
    return ChatAnswer(
        text=call.response,
        tool_calls=read_calls(call.tool_calls),
        finish_reason=call.finish_reason,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        model=call.model,
        latency_ms=call.latency_ms,
        received=call.received,
    )


def ask_provider(step: str, request: ChatRequest, *, use: Use = "") -> ChatAnswer:
    """Ask the configured provider, keeping nothing."""
    return get_provider(use).chat(request)


ask_to_reflect = partial(ask_provider, use="reflect")
ask_to_consolidate = partial(ask_provider, use="consolidate")


def without_echo(error: ProviderError, request: ChatRequest) -> ProviderError:
    """Return the failure, without the provider's words where they repeat the question and so perhaps the run."""
    words = _WORD.findall(str(error).lower())
    asked = f" {' '.join(_WORD.findall(request.asked_text.lower()))} "
    shingles = (" ".join(words[start : start + ECHOED_WORDS]) for start in range(len(words) - ECHOED_WORDS + 1))
    if not any(f" {shingle} " in asked for shingle in shingles):
        return error
    return ProviderError(
        f"The provider answered {error.status or 'with an error'} and repeated a part of the question.",
        transient=error.transient,
        retry_after_seconds=error.retry_after_seconds,
        code=error.code,
        status=error.status,
    )
