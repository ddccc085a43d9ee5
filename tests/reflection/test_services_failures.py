"""How a reflection ends that failed, and what is kept of the failure."""

from datetime import timedelta
from typing import Any

import pytest
import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone

from reflection.llm.base import ProviderError, ProviderNotConfigured
from reflection.reflectors.llm_answer import UnusableAnswer
from reflection.reflectors.models import Reflection
from tests.factories import make_reflection
from tests.reflection.running import Status, make_due, run
from tests.reflection.scripted import ScriptedModel, ask_then, fail_with, propose

pytestmark = pytest.mark.django_db


def test_transient_failure_waits_as_long_as_the_provider_asks() -> None:
    error = ProviderError("Too many.", transient=True, retry_after_seconds=120, code="rate_limited", status=429)

    waiting = run(ask_then(propose()), model=ScriptedModel(error=error))

    assert (waiting.status, waiting.attempts, waiting.last_error_code) == (Status.RETRY, 1, "rate_limited")
    assert waiting.available_at - timezone.now() > timedelta(seconds=118)


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("The key is wrong. Check ERL_LLM_API_KEY.", transient=False, code="authentication", status=401),
        UnusableAnswer("The answer is not usable JSON.", code="not_json"),
        ProviderNotConfigured("ERL_LLM_MODEL is empty; set it."),
    ],
    ids=lambda error: error.code,
)
def test_failure_that_waiting_does_not_cure_is_dead_with_its_reason(error: Any) -> None:
    dead = run(fail_with(error))

    assert (dead.status, dead.last_error_code, dead.last_error) == (Status.DEAD, error.code, str(error))
    assert dead.finished_at is not None


def test_unexpected_error_is_tried_five_times_and_its_words_are_not_kept() -> None:
    reflection = make_reflection()
    plan = fail_with(KeyError("passenger Mia Li, card 4111"))

    statuses = []
    for _ in range(5):
        make_due(reflection)
        statuses.append(run(plan, reflection).status)

    reflection.refresh_from_db()
    assert statuses == [Status.RETRY] * 4 + [Status.DEAD]
    assert (reflection.attempts, reflection.last_error_code) == (5, "unexpected_error")
    assert "KeyError" in reflection.last_error
    assert "Mia" not in reflection.last_error


def test_unexpected_error_is_logged_without_its_words() -> None:
    with structlog.testing.capture_logs() as lines:
        run(fail_with(KeyError("passenger Mia Li")))

    crashed = next(line for line in lines if line["event"] == "reflection_crashed")
    assert crashed["error"] == "KeyError"
    assert "Mia" not in repr(lines)


def test_providers_echo_of_the_question_is_not_kept() -> None:
    question = "the passenger mia li wants to cancel her flight to boston"
    error = ProviderError(f"Refused: {question}.", transient=False, code="bad_request", status=400)

    dead = run(ask_then(propose(), question=question), model=ScriptedModel(error=error))

    assert dead.last_error == "The provider answered 400 and repeated a part of the question."


def test_secret_in_a_failure_is_redacted() -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 6
    dead = run(fail_with(ProviderError(f"Bad key {secret}.", transient=False, code="authentication")))

    assert secret not in dead.last_error


def test_soft_time_limit_is_tried_again() -> None:
    waiting = run(fail_with(SoftTimeLimitExceeded()))

    assert (waiting.status, waiting.last_error_code) == (Status.RETRY, "time_limit")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_stopped_process_gives_the_reflection_back(stop: type[BaseException]) -> None:
    reflection = make_reflection()

    with pytest.raises(stop):
        run(fail_with(stop()), reflection)

    reflection.refresh_from_db()
    assert (reflection.status, reflection.attempts) == (Status.RETRY, 0)
    assert reflection in Reflection.objects.due()
