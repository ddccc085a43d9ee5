"""A provider that is down is left alone, and nobody loses an attempt by it (reliability B10)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from memory.projects.models import Project
from reflection.errors import CircuitOpen
from reflection.jobs.execution import Outcome
from reflection.llm import breaker
from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import ProviderState
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import make_reflection

pytestmark = pytest.mark.django_db

DOWN = ProviderError("no answer", transient=True, code="timeout")
REFUSED = ProviderError("too long", transient=False, code="provider_failed", status=400)


@pytest.fixture(autouse=True)
def _model(settings: Any) -> None:
    settings.ERL_REFLECTOR = "llm"
    settings.ERL_LLM_PROVIDER = "openai"
    settings.ERL_EMBEDDER = "none"


def fail_often(count: int = breaker.FAILURES) -> None:
    for _ in range(count):
        breaker.note_failure("openai", DOWN)


def pass_time(seconds: float) -> None:
    """Move everything that waits nearer by so many seconds."""
    moved = timedelta(seconds=seconds)
    ProviderState.objects.update(opened_until=F("opened_until") - moved)
    Reflection.objects.filter(status__in=Reflection.WAITING).update(available_at=F("available_at") - moved)


def test_fifth_failure_in_a_row_opens_it() -> None:
    fail_often(breaker.FAILURES - 1)
    before = breaker.admit("openai")
    fail_often(1)

    assert before is False
    with pytest.raises(CircuitOpen) as raised:
        breaker.admit("openai")
    assert raised.value.wait_seconds is not None
    assert 0 < raised.value.wait_seconds <= breaker.FIRST_REST_SECONDS


def test_answer_or_refusal_between_failures_keeps_it_closed() -> None:
    fail_often(breaker.FAILURES - 1)
    breaker.note_failure("openai", REFUSED)
    fail_often(breaker.FAILURES - 1)
    breaker.note_answer("openai")
    fail_often(breaker.FAILURES - 1)

    assert breaker.admit("openai") is False


def test_other_providers_are_asked_on() -> None:
    fail_often()

    assert breaker.admit("anthropic") is False


def test_one_probe_goes_through_after_the_rest() -> None:
    fail_often()
    pass_time(breaker.FIRST_REST_SECONDS)

    assert breaker.admit("openai") is True
    with pytest.raises(CircuitOpen):
        breaker.admit("openai")


def test_probe_that_fails_doubles_the_rest_to_ten_minutes() -> None:
    fail_often()
    rests = []
    for _ in range(7):
        pass_time(breaker.LONGEST_REST_SECONDS)
        breaker.admit("openai")
        fail_often(1)
        with pytest.raises(CircuitOpen) as raised:
            breaker.admit("openai")
        assert raised.value.wait_seconds is not None
        rests.append(round(raised.value.wait_seconds))

    assert rests == [60, 120, 240, 480, 600, 600, 600]


def test_probe_that_is_answered_closes_it() -> None:
    fail_often()
    pass_time(breaker.FIRST_REST_SECONDS)
    breaker.admit("openai")
    breaker.note_answer("openai")

    assert breaker.admit("openai") is False


def test_probe_that_has_no_budget_lets_another_try() -> None:
    reflection = make_reflection(available_at=Now())
    Project.objects.filter(pk=reflection.project_id).update(daily_call_budget=0)
    fail_often()
    pass_time(breaker.FIRST_REST_SECONDS)
    attempt = run_reflection(owner="test", ask_model=never_asked)

    assert attempt.outcome == Outcome.DEFERRED_BUDGET
    assert breaker.admit("openai") is True


def test_probe_that_is_stopped_lets_another_try() -> None:
    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        raise SystemExit

    wait_for_a_probe()
    with pytest.raises(SystemExit):
        run_reflection(owner="test", ask_model=ask)

    assert breaker.admit("openai") is True


def test_failed_probe_whose_rest_is_over_takes_no_other() -> None:
    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        raise DOWN

    def note_and_freeze(*about: Any) -> None:
        note(*about)
        pass_time(breaker.LONGEST_REST_SECONDS)

    wait_for_a_probe()
    note = breaker.note_failure
    with pytest.MonkeyPatch.context() as patch:  # the process is frozen between noting the failure and giving up
        patch.setattr(breaker, "note_failure", note_and_freeze)
        attempt = run_reflection(owner="test", ask_model=ask)

    reflection = Reflection.objects.get()
    assert (attempt.outcome, reflection.attempts, reflection.last_error_code) == (Outcome.RETRY, 0, "circuit_open")
    assert breaker.admit("openai") is True


def wait_for_a_probe() -> None:
    """Let the provider fail and rest, so that the reflection that waits is the one to try it."""
    make_reflection(available_at=Now())
    fail_often()
    pass_time(breaker.FIRST_REST_SECONDS)


def never_asked(step: str, request: ChatRequest) -> ChatAnswer:
    raise AssertionError("the provider was asked without a budget")


@pytest.mark.nightly
def test_ten_minutes_without_the_provider_cost_few_calls_and_no_reflection() -> None:
    calls = 0

    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        nonlocal calls
        calls += 1
        raise DOWN

    for _ in range(30):
        make_reflection(available_at=Now())
    probes = 0
    for _ in range(60):  # ten seconds each
        while run_reflection(owner="test", ask_model=ask).outcome != Outcome.NOTHING:
            pass
        probes += ProviderState.objects.get().failures > breaker.FAILURES
        pass_time(10)

    assert calls == ProviderState.objects.get().failures <= breaker.FAILURES + 5
    assert not Reflection.objects.filter(status=Reflection.Status.DEAD).exists()
    assert Reflection.objects.filter(status=Reflection.Status.RETRY).count() == 30
    assert max(Reflection.objects.values_list("attempts", flat=True)) <= breaker.FAILURES
    assert probes > 0
