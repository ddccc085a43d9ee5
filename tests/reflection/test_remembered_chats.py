"""Chats on behalf of jobs: asked once, paid from the budget, stopped by the breaker."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import IntegrityError, connection

from memory.projects.models import Project
from reflection.errors import BudgetExhausted, CircuitOpen, LostClaim
from reflection.jobs.models import Job
from reflection.llm import breaker
from reflection.llm.base import BlockingProvider, OnText, ProviderError
from reflection.llm.calls import RememberedChat
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import DailySpend, ModelCall
from tests.factories import make_project, make_reflection, make_trajectory
from tests.reflection.providers.chatting import call, chat_request, message

pytestmark = pytest.mark.django_db

ANSWER = ChatAnswer(
    text="Look\x00.",
    tool_calls=(call("call_1", "refund", '{"order": "Ä1"}'), call("call_2", "refund", '{"order": ')),
    finish_reason="tool_calls",
    input_tokens=100,
    output_tokens=20,
    model="scripted-1",
    latency_ms=1.5,
)


@dataclass
class Model(BlockingProvider):
    """Answers every chat, or raises, and counts; refuses to be asked inside a transaction."""

    error: BaseException | None = None
    name: str = "openai"
    model: str = "scripted-1"
    calls: int = 0
    transactions: int = field(default_factory=lambda: len(connection.atomic_blocks))

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        assert len(connection.atomic_blocks) <= self.transactions, "a model was asked inside a transaction"
        self.calls += 1
        if self.error is not None:
            raise self.error
        if on_text is not None:
            on_text(ANSWER.text)
        return ANSWER

    def close(self) -> None: ...


@dataclass
class Held:
    """A claim that is held, or lost."""

    is_lost: bool = False

    def ensure_held(self) -> None:
        if self.is_lost:
            raise LostClaim("Another worker holds this job now.")


def make_job(project: Project | None = None) -> Job:
    return make_reflection(trajectory=make_trajectory(project=project or make_project()))


def chat(job: Job, model: Model, *, subject: str = "", request: ChatRequest | None = None, step: str = "1") -> Any:
    return RememberedChat(job, Held(), provider=model, subject=subject)(step, request or chat_request())[0]


def test_answer_is_found_again_with_its_calls() -> None:
    job, model = make_job(), Model()

    first, again = chat(job, model), chat(job, model)

    assert model.calls == 1
    assert first == again
    assert (again.text, again.tool_calls, again.finish_reason) == ("Look\ufffd.", ANSWER.tool_calls, "tool_calls")
    assert again.tool_calls[1].arguments is None


def test_answer_found_again_is_not_streamed_again() -> None:
    job, pieces = make_job(), list[str]()

    for _ in range(2):
        RememberedChat(job, Held(), provider=Model())("1", chat_request(), on_text=pieces.append)

    assert pieces == [ANSWER.text]


def test_other_conversation_or_step_or_job_is_asked_anew() -> None:
    job, model = make_job(), Model()

    chat(job, model)
    chat(job, model, step="2")
    chat(job, model, request=chat_request(message("user", "Else?")))
    chat(make_job(job.project), model)

    assert model.calls == 4


def test_answer_for_a_subject_is_found_by_every_job_of_the_project() -> None:
    job, model = make_job(), Model()

    chat(job, model, subject="run:1")
    chat(make_job(job.project), model, subject="run:1")
    chat(job, model, subject="run:2")
    chat(make_job(), model, subject="run:1")
    chat(job, model)

    assert model.calls == 4


def test_answers_for_a_subject_are_kept_once() -> None:
    job = make_job()
    chat(job, Model(), subject="run:1")
    call = ModelCall.objects.get()
    call.pk, call.job, call._state.adding = None, make_job(job.project), True

    with pytest.raises(IntegrityError, match="subject_recovery_point"):
        call.save()


def test_chat_is_booked_on_the_day_the_job_and_the_ledger(settings: Any) -> None:
    settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 3.0, 15.0
    job = make_job()

    _, entry = RememberedChat(job, Held(), provider=Model())("1", chat_request())

    spend = DailySpend.objects.get()
    job.refresh_from_db()
    assert (spend.calls, spend.tokens, float(spend.cost_usd)) == (1, 120, 0.0006)
    assert (job.input_tokens, job.output_tokens, float(job.cost_usd)) == (100, 20, 0.0006)
    assert (entry.provider, entry.model, float(entry.cost_usd)) == ("openai", "scripted-1", 0.0006)


def test_chat_beyond_the_budget_is_not_asked() -> None:
    job, model = make_job(make_project(daily_token_budget=chat_request().estimated_input_tokens + 199)), Model()

    with pytest.raises(BudgetExhausted):
        chat(job, model)

    assert model.calls == 0


@pytest.mark.parametrize(("code", "is_kept"), [("rate_limited", False), ("stream_failed", True), ("connection", True)])
def test_reserve_is_kept_where_the_failed_call_may_be_charged(code: str, is_kept: bool) -> None:
    with pytest.raises(ProviderError):
        chat(make_job(), Model(error=ProviderError("No.", transient=True, code=code)))

    assert (DailySpend.objects.get().tokens > 0) is is_kept


def test_provider_that_is_down_is_not_asked() -> None:
    job, model = make_job(), Model(error=ProviderError("No.", transient=True, code="stream_failed", status=529))
    for _ in range(breaker.FAILURES):
        with pytest.raises(ProviderError):
            chat(job, model)

    with pytest.raises(CircuitOpen):
        chat(job, model)

    assert model.calls == breaker.FAILURES


def test_chats_go_on_where_other_questions_fail() -> None:
    down = ProviderError("No.", transient=True, code="timeout")
    for _ in range(breaker.FAILURES):
        breaker.note_failure("openai", down)

    assert chat(make_job(), Model()).text == "Look\ufffd."


class Killed(BaseException):
    """Ends a worker in the middle of a call."""


def test_what_a_killed_call_set_aside_is_settled_with_the_answer_to_the_same_question() -> None:
    job = make_job()
    with pytest.raises(Killed):
        chat(job, Model(error=Killed()))
    assert DailySpend.objects.get().tokens > 200

    chat(job, Model())

    spend = DailySpend.objects.get()
    assert (spend.calls, spend.tokens, spend.reservations.count()) == (2, 240, 0)


def test_worker_that_was_held_up_in_a_call_settles_nothing_twice() -> None:
    job, later = make_job(), Model()

    def hold_up(request: ChatRequest, **options: Any) -> ChatAnswer:
        chat(Job.objects.get(pk=job.pk), later)
        return ANSWER

    held_up = Model()
    held_up.chat = hold_up  # type: ignore[method-assign]
    chat(job, held_up)

    assert DailySpend.objects.get().tokens == 240


def test_worker_that_lost_its_job_asks_nothing() -> None:
    model = Model()

    with pytest.raises(LostClaim):
        RememberedChat(make_job(), Held(is_lost=True), provider=model)("1", chat_request())

    assert model.calls == 0


def test_failure_that_repeats_the_conversation_loses_its_words() -> None:
    said = "the secret word of the day is swordfish and nothing else"
    error = ProviderError(f"Bad request: {said}", transient=False, status=400)

    with pytest.raises(ProviderError) as caught:
        chat(make_job(), Model(error=error), request=chat_request(message("user", said)))

    assert "swordfish" not in str(caught.value)
