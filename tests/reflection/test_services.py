"""One reflection from claim to effect, and every way in which it can end otherwise."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from memory.models import Evidence, Heuristic, Trajectory
from memory.services.erase_trajectory import erase_trajectory
from memory.services.report_outcome import report_outcome
from memory.values import Actor, Citation
from reflection.models import ModelCall, Proposal, Reflection
from reflection.parsing import UnusableAnswer
from reflection.providers.base import ProviderError, ProviderNotConfigured
from reflection.queue import claim, enqueue_reflection
from reflection.reflectors.base import ReflectionResult
from reflection.services import Outcome, run_reflection
from tests.factories import make_heuristic, make_reflection, make_retrieval, make_trajectory
from tests.reflection.scripted import (
    Plan,
    ScriptedModel,
    ScriptedReflector,
    ask_then,
    fail_with,
    make_lesson,
    propose,
)
from tests.reflection.waiting import wait_until

pytestmark = pytest.mark.django_db

Status = Reflection.Status
BY = Actor(label="user:ana")


def run(plan: Plan, reflection: Reflection | None = None, *, model: Any = None) -> Reflection:
    """Run a reflection by a plan and return its row."""
    reflection = reflection or make_reflection()
    run_reflection(
        reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=plan), ask_model=model or ScriptedModel()
    )
    return Reflection.objects.get(pk=reflection.pk)


def make_due(reflection: Reflection) -> None:
    Reflection.objects.filter(pk=reflection.pk).update(available_at=Now())


def test_lesson_is_proposed_with_evidence() -> None:
    done = run(propose(make_lesson()))

    heuristic = Heuristic.objects.get()
    proposal = Proposal.objects.get()
    assert (done.status, done.heuristics_proposed, done.skip_reason) == (Status.DONE, 1, "")
    assert (heuristic.status, heuristic.support, heuristic.reflector, heuristic.reflector_version) == (
        Heuristic.Status.PROPOSED,
        1,
        "scripted",
        "1",
    )
    assert (proposal.reflection, proposal.heuristic, proposal.effect) == (done, heuristic, Proposal.Effect.NEW)
    evidence = Evidence.objects.get()
    assert (evidence.trajectory_id, evidence.first_step, evidence.last_step) == (done.trajectory_id, 1, 2)


def test_finished_reflection_says_who_did_it_when() -> None:
    done = run(propose(make_lesson()))

    assert (done.reflector, done.reflector_version, done.attempts) == ("scripted", "1", 1)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.finished_at >= done.started_at
    assert done.lease_until is None


def test_nothing_to_learn_is_done_with_its_reason() -> None:
    done = run(propose(skip_reason="The run went as expected."))

    assert (done.status, done.heuristics_proposed, done.skip_reason) == (Status.DONE, 0, "The run went as expected.")


def test_lesson_that_fails_the_checks_is_dropped_and_named() -> None:
    bad = make_lesson(citations=(Citation(first_step=7, last_step=9),))

    done = run(propose(bad))

    assert not Heuristic.objects.exists()
    assert done.status == Status.DONE
    assert "no_such_step" in done.skip_reason


def test_what_the_checks_flag_goes_to_the_reviewer() -> None:
    run(propose(make_lesson(guideline="Read the fare class first. See https://example.com/fares before you cancel.")))

    findings = Proposal.objects.get().findings
    assert findings
    assert set(findings[0]) == {"code", "message"}


def test_claim_miss_does_nothing() -> None:
    reflection = make_reflection(status=Status.DONE)
    reflector = ScriptedReflector(plan=propose(make_lesson()))

    attempt = run_reflection(reflection.pk, owner="test", make_reflector=reflector)

    assert attempt.outcome == Outcome.NOTHING
    assert reflector.episodes == []


def test_reflector_reads_the_run_and_the_lessons_it_was_given() -> None:
    given = make_heuristic(status=Heuristic.Status.APPROVED, trigger="A refund is asked for", guideline="Refuse it.")
    assert given.current_revision is not None
    item = {"heuristic": str(given.pk), "revision": str(given.current_revision.pk), "injected": True}
    retrieval = make_retrieval(project=given.project, items=[item])
    trajectory = make_trajectory(project=given.project, retrieval=retrieval)
    reflector = ScriptedReflector(plan=propose())

    run_reflection(make_reflection(trajectory=trajectory).pk, owner="test", make_reflector=reflector)

    assert reflector.episodes[0].task == trajectory.task
    assert reflector.episodes[0].injected == ("A refund is asked for Refuse it.",)


def test_answer_of_the_model_is_kept_with_its_cost(settings: Any) -> None:
    settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 3.0, 15.0

    done = run(ask_then(propose(make_lesson())), model=ScriptedModel(input_tokens=1000, output_tokens=200))

    call = ModelCall.objects.get()
    assert (call.reflection, call.step, call.model, call.attempt) == (done, "reflect", "scripted-1", 1)
    assert (done.model, done.input_tokens, done.output_tokens) == ("scripted-1", 1000, 200)
    assert float(done.cost_usd) == float(call.cost_usd) == pytest.approx(0.006)
    assert Heuristic.objects.get().model == "scripted-1"


def test_retry_finds_the_answer_instead_of_asking_again() -> None:
    model = ScriptedModel(text="the answer")
    reflection = make_reflection()
    run(ask_then(fail_with(RuntimeError("killed"))), reflection, model=model)
    make_due(reflection)

    done = run(ask_then(propose(make_lesson())), reflection, model=model)

    assert model.calls == 1
    assert (done.status, done.attempts, done.input_tokens) == (Status.DONE, 2, 10)


def test_changed_question_is_asked() -> None:
    model = ScriptedModel()
    reflection = make_reflection()
    run(ask_then(fail_with(RuntimeError("x")), question="Old?"), reflection, model=model)
    make_due(reflection)

    run(ask_then(propose(), question="New?"), reflection, model=model)

    assert model.calls == 2


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


@pytest.mark.django_db(transaction=True)
def test_heartbeat_holds_the_claim_of_slow_work(settings: Any) -> None:
    settings.ERL_REFLECTION_LEASE_SECONDS = 0.3
    reflection = make_reflection()
    stolen = []

    def steal() -> None:
        time.sleep(0.9)
        stolen.append(claim(reflection.pk, owner="thief"))

    done = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=steal))

    assert stolen == [None]
    assert (done.status, done.attempts) == (Status.DONE, 1)


@pytest.mark.django_db(transaction=True)
def test_heartbeat_of_work_that_hangs_ends_with_the_hard_time_limit(settings: Any) -> None:
    settings.ERL_REFLECTION_LEASE_SECONDS = 0.2
    settings.CELERY_TASK_TIME_LIMIT = 0.2
    reflection = make_reflection()
    taken = []

    def hang() -> None:
        time.sleep(0.9)
        taken.append(claim(reflection.pk, owner="next"))

    left = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=hang))

    assert taken[0] is not None
    assert (left.lease_owner, left.attempts) == ("next", 2)
    assert not Heuristic.objects.exists()


def test_worker_that_lost_its_claim_writes_nothing() -> None:
    reflection = make_reflection()

    def let_another_take_over() -> None:
        Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))
        run(propose(make_lesson()), reflection)

    reflector = ScriptedReflector(plan=ask_then(propose(make_lesson(guideline="Another lesson of the first worker."))))
    attempt = run_reflection(
        reflection.pk,
        owner="first",
        make_reflector=reflector,
        ask_model=ScriptedModel(before=let_another_take_over),
    )

    assert attempt.outcome == Outcome.LOST
    assert Heuristic.objects.count() == Proposal.objects.count() == 1
    assert Reflection.objects.get(pk=reflection.pk).status == Status.DONE


def test_the_same_worker_would_write_twice_without_the_fence() -> None:
    """The negative control of the test above: only the number of the attempt keeps the first worker out."""
    reflection = make_reflection()

    def let_another_take_over_and_forget_its_number() -> None:
        Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))
        run(propose(make_lesson()), reflection)
        Proposal.objects.update(ordinal=9)
        Reflection.objects.update(status=Status.RUNNING, attempts=1, lease_until=Now())

    reflector = ScriptedReflector(plan=ask_then(propose(make_lesson(guideline="Another lesson of the first worker."))))
    run_reflection(
        reflection.pk,
        owner="first",
        make_reflector=reflector,
        ask_model=ScriptedModel(before=let_another_take_over_and_forget_its_number),
    )

    assert Proposal.objects.count() == 2


def test_run_erased_meanwhile_leaves_nothing() -> None:
    reflection = make_reflection()

    def erase() -> None:
        erase_trajectory(Trajectory.objects.get(pk=reflection.trajectory_id), by=BY)

    attempt = run_reflection(
        reflection.pk,
        owner="test",
        make_reflector=ScriptedReflector(plan=ask_then(propose(make_lesson()))),
        ask_model=ScriptedModel(before=erase),
    )

    assert attempt.outcome == Outcome.LOST
    assert not Heuristic.objects.exists()
    assert not ModelCall.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_run_erased_while_its_lessons_are_written_takes_them_along() -> None:
    reflection = make_reflection()
    plan = propose(make_lesson())

    def reflect() -> None:
        try:
            run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=plan))
        finally:
            connection.close()

    def erase() -> None:
        try:
            erase_trajectory(Trajectory.objects.get(pk=reflection.trajectory_id), by=BY)
        finally:
            connection.close()

    threads = [threading.Thread(target=reflect), threading.Thread(target=erase)]
    with connection.cursor() as cursor:
        key = f"reflection.proposals:{reflection.project_id}"
        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [key])  # stops it in the middle of writing
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda number=number: _waiting_sessions() == number)
        cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])
    for thread in threads:
        thread.join(timeout=30)

    assert not Trajectory.objects.exists()
    assert not Heuristic.objects.exists()


def _waiting_sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def test_outcome_reported_meanwhile_is_reflected_on_again() -> None:
    reflection = make_reflection()

    def report() -> None:
        trajectory = Trajectory.objects.get(pk=reflection.trajectory_id)
        report_outcome(trajectory, outcome="success", score=1.0, outcome_source="human", by=BY)

    waiting = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=report))
    reflector = ScriptedReflector(plan=propose(make_lesson()))
    run_reflection(owner="test", make_reflector=reflector)

    assert (waiting.status, waiting.attempts, waiting.last_error_code) == (Status.RETRY, 0, "outcome_changed")
    assert reflector.episodes[0].outcome == "success"
    assert Heuristic.objects.count() == 1


def test_failure_in_the_middle_of_the_effect_leaves_no_part_of_it() -> None:
    impossible = make_lesson(guideline="Another lesson with get_reservation_details.", confidence=2.0)

    waiting = run(propose(make_lesson(), impossible))

    assert (waiting.status, waiting.last_error_code) == (Status.RETRY, "unexpected_error")
    assert not Heuristic.objects.exists()
    assert not Proposal.objects.exists()


def test_reflection_carries_the_ids_of_its_request_into_the_log() -> None:
    reflection = make_reflection(request_id="req-9", traceparent="00-abc")
    seen: list[dict[str, Any]] = []

    def look() -> None:
        seen.append(dict(structlog.contextvars.get_contextvars()))

    run(ask_then(propose()), reflection, model=ScriptedModel(before=look))

    assert seen[0]["request_id"] == "req-9"
    assert seen[0]["traceparent"] == "00-abc"
    assert seen[0]["reflection_id"] == str(reflection.pk)
    assert "reflection_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.django_db(transaction=True)
def test_each_message_delivered_five_times_has_one_effect() -> None:
    reflections = [make_reflection() for _ in range(4)]
    plan = ask_then(propose(make_lesson()))
    model = ScriptedModel(before=lambda: time.sleep(0.05))
    start = threading.Barrier(5)
    outcomes: list[Outcome] = []

    def deliver() -> None:
        try:
            start.wait(timeout=10)
            for reflection in reflections:
                reflector = ScriptedReflector(plan=plan)
                attempt = run_reflection(reflection.pk, owner="test", make_reflector=reflector, ask_model=model)
                outcomes.append(attempt.outcome)
        finally:
            connection.close()

    threads = [threading.Thread(target=deliver) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert sorted(outcomes) == [Outcome.DONE] * 4 + [Outcome.NOTHING] * 16
    assert Proposal.objects.count() == model.calls == 4


def test_enqueued_reflection_is_done_end_to_end_by_the_rules(settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"
    reflection = enqueue_reflection(make_trajectory(), by=BY)

    attempt = run_reflection(reflection.pk, owner="test")

    assert attempt.outcome == Outcome.DONE
    assert Reflection.objects.get(pk=reflection.pk).reflector == "rules"


def test_skip_result_without_reason_is_still_done() -> None:
    done = run(lambda reflector, episode, near: ReflectionResult())

    assert done.status == Status.DONE
