"""Ask the model on behalf of a job so that no answer is paid for twice (reliability A10, B4, B11)."""

import re
from collections.abc import Callable

from django.db import transaction
from django.db.models import F

from memory.tracing import span
from reflection.errors import LostClaim
from reflection.jobs.execution import Heartbeat
from reflection.jobs.models import Job
from reflection.llm import breaker, budget
from reflection.llm.base import Completion, CompletionRequest, ProviderError, storable
from reflection.llm.models import ModelCall
from reflection.llm.registry import configured_name, get_provider

# Asks a model: a step's name and a question in, the answer out. `RememberedAsk` keeps answers, costs and budgets.
Ask = Callable[[str, CompletionRequest], Completion]

ECHOED_WORDS = 6
# Failures after which it is not known whether the provider worked, and charges, for the question
MAYBE_CHARGED = frozenset({"timeout", "connection", "bad_envelope", "response_too_large"})
_WORD = re.compile(r"\w+")


class RememberedAsk:
    """Asks once for each question of a job; a later attempt finds the answer of an earlier one.

    The answer and what it cost are committed as soon as it came. No transaction is open during the call.
    """

    def __init__(self, job: Job, heartbeat: Heartbeat, *, ask_model: Ask) -> None:
        self._job = job
        self._heartbeat = heartbeat
        self._ask_model = ask_model
        self._provider = configured_name()

    def __call__(self, step: str, request: CompletionRequest) -> Completion:
        """Return the stored or a new answer.

        Raises:
            BudgetExhausted: the project has none left today.
            CircuitOpen: the provider rests for a while.
            LostClaim: another worker holds the job.
            ProviderError: there is no answer.
        """
        known = ModelCall.objects.filter(job=self._job.pk, step=step, prompt_sha256=request.sha256).first()
        if known is not None:
            return self._remember(known)
        self._heartbeat.ensure_held()
        with breaker.admitted(self._provider) as is_probe:
            completion, reservation = self._ask(step, request, is_probe=is_probe)
        return self._remember(self._store(step, request, completion, reservation))

    def _ask(self, step: str, request: CompletionRequest, *, is_probe: bool) -> tuple[Completion, budget.Reservation]:
        reservation = budget.reserve(self._job.project, request)
        try:
            with span("model call", **{"erl.step": step, "gen_ai.provider.name": self._provider}):
                completion = self._ask_model(step, request)
        except ProviderError as error:
            breaker.note_failure(self._provider, error)
            if error.code not in MAYBE_CHARGED:
                budget.release(reservation)
            if is_probe and breaker.is_down(error):  # the job that tried for all loses no attempt by it
                breaker.refuse(self._provider)
            raise without_echo(error, request) from error
        breaker.note_answer(self._provider)
        return completion, reservation

    def _store(
        self, step: str, request: CompletionRequest, completion: Completion, reservation: budget.Reservation
    ) -> ModelCall:
        with transaction.atomic():
            cost = budget.settle(reservation, completion)
            rows = Job.objects.filter(pk=self._job.pk)
            if rows.select_for_update(no_key=True).exists():
                # A worker that lost its claim during the call may find the answer of the other: the first one stays.
                call, is_new = ModelCall.objects.get_or_create(
                    job_id=self._job.pk,
                    step=step,
                    prompt_sha256=request.sha256,
                    defaults={
                        "project_id": self._job.project_id,
                        "provider": self._provider,
                        "model": completion.model,
                        "response": storable(completion.text),
                        "finish_reason": completion.finish_reason,
                        "input_tokens": completion.input_tokens,
                        "output_tokens": completion.output_tokens,
                        "cost_usd": cost,
                        "latency_ms": completion.latency_ms,
                        "attempt": self._job.attempts,
                    },
                )
                if is_new:
                    rows.update(
                        model=completion.model,
                        input_tokens=F("input_tokens") + completion.input_tokens,
                        output_tokens=F("output_tokens") + completion.output_tokens,
                        cost_usd=F("cost_usd") + cost,
                    )
                return call
        raise LostClaim("The job was erased during the call.")  # the call is paid for anyway

    def _remember(self, call: ModelCall) -> Completion:
        self._job.model = call.model
        return Completion(
            text=call.response,
            finish_reason=call.finish_reason,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            model=call.model,
            latency_ms=call.latency_ms,
        )


def ask_provider(step: str, request: CompletionRequest) -> Completion:
    """Ask the configured provider, keeping nothing."""
    return get_provider().complete(request)


def without_echo(error: ProviderError, request: CompletionRequest) -> ProviderError:
    """Return the failure, without the provider's words where they repeat the question and so perhaps the run."""
    said = _WORD.findall(str(error).lower())
    asked = f" {' '.join(_WORD.findall(request.user.lower()))} "
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
